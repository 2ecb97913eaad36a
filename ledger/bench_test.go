package ledger_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// BenchmarkAppend appends jobs, a lease and a settlement each, everything on. Beside
// its rate it reports its floors: what a bare write and fsync of as many bytes reaches,
// and how many signatures a bare batch verification checks. An entry here has 2.7.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			w := newWorld()
			dir := b.TempDir()
			l, err := ledger.Open(dir, w.mesh, w.keeper, ledger.Config{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			apply(b, l, w.deposit(1e5*record.Credit))
			var raws []record.Raw
			at, done := 0, 0
			for b.Loop() {
				if at+size > len(raws) {
					b.StopTimer()
					raws, at = raws[at:], 0
					for len(raws) < 8*size {
						r, _ := w.whole()
						raws = append(raws, r...)
					}
					b.StartTimer()
				}
				apply(b, l, raws[at:at+size]...)
				at += size
				done += size
			}
			b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(rawSync(b, dir, size*1000), "fsync/s")
			b.ReportMetric(rawVerify(b), "signatures/s")
		})
	}
}

// rawSync writes n bytes to a preallocated file and syncs them, over and over.
func rawSync(b *testing.B, dir string, n int) float64 {
	f, err := os.CreateTemp(dir, "raw")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const rounds = 64
	if _, err := f.Write(make([]byte, n*rounds)); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	for i := range rounds {
		if _, err := f.WriteAt(make([]byte, n), int64(i*n)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return rounds / time.Since(start).Seconds()
}
