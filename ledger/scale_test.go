package ledger_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"

	"idlemesh/ledger"
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// entriesEnv is how many entries the ledgers of these benchmarks have. The promises are
// for a million, which take minutes to make.
const entriesEnv = "IDLEMESH_ENTRIES"

func entries(t testing.TB, otherwise int) int {
	t.Helper()
	s := os.Getenv(entriesEnv)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 10 {
		t.Fatalf("%s=%s: want a number of entries", entriesEnv, s)
	}
	return n
}

// grow appends n entries to a ledger on disk: deposits of one signature each, or whole
// jobs.
func (w *world) grow(t testing.TB, l *ledger.Ledger, n int, jobs bool) {
	t.Helper()
	if jobs {
		w.apply(t, l, []record.Raw{w.deposit(1e5 * record.Credit)})
		n--
	}
	for n > 0 {
		var batch []record.Raw
		for n > 0 && len(batch) < 510 {
			if !jobs {
				batch, n = append(batch, w.deposit(1)), n-1
				continue
			}
			raws, _ := w.whole()
			batch, n = append(batch, raws...), n-len(raws)
		}
		w.now = w.now.Add(time.Second)
		w.apply(t, l, batch)
	}
}

// apply appends in the order of batch, and fails at the first refusal.
func (w *world) apply(t testing.TB, l *ledger.Ledger, batch []record.Raw) {
	t.Helper()
	outs, err := l.Apply(batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outs {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
}

func (w *world) onDisk(t testing.TB, dir string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(dir, w.mesh, w.keeper, ledger.Config{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// BenchmarkAudit verifies a ledger from its entries alone: signatures, numbers, rules,
// balances, tree and every index. Its floor is what a bare batch verification of as many
// signatures takes on all processors.
func BenchmarkAudit(b *testing.B) {
	n := entries(b, 20_000)
	for _, kind := range []struct {
		name       string
		jobs       bool
		signatures float64 // an entry
	}{{"deposits", false, 1}, {"jobs", true, 8.0 / 3}} {
		b.Run(kind.name, func(b *testing.B) {
			w := newWorld()
			l := w.onDisk(b, b.TempDir())
			w.grow(b, l, n, kind.jobs)
			size := float64(l.Head().Size)
			for b.Loop() {
				if _, err := l.Verify(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
			}
			rate, bare := float64(b.N)*size/b.Elapsed().Seconds(), rawVerify(b)
			b.ReportMetric(rate, "entries/s")
			b.ReportMetric(bare, "signatures/s")
			b.ReportMetric(100*rate*kind.signatures/bare, "%-of-floor")
		})
	}
}

// rawVerify returns how many signatures all processors together verify a second, in
// batches as the ledger does.
func rawVerify(t testing.TB) float64 {
	t.Helper()
	const n = 256
	pub, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := voi.NewExpandedPublicKey(voi.PublicKey(pub))
	if err != nil {
		t.Fatal(err)
	}
	msgs, sigs := make([][]byte, n), make([][]byte, n)
	for i := range msgs {
		msgs[i] = binary.BigEndian.AppendUint64(make([]byte, 400), uint64(i))
		sigs[i] = ed25519.Sign(secret, msgs[i])
	}
	const rounds = 8
	start := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for range rounds {
				v := voi.NewBatchVerifier()
				for i := range msgs {
					v.AddExpanded(key, msgs[i], sigs[i])
				}
				if ok, _ := v.Verify(rand.Reader); !ok {
					t.Error("a good signature does not verify")
				}
			}
		})
	}
	wg.Wait()
	return float64(n*rounds*runtime.GOMAXPROCS(0)) / time.Since(start).Seconds()
}

// BenchmarkQuery asks for a balance, a page of 100 entries of a party and an inclusion
// proof, each at a place drawn by chance, and reports the slowest of a hundred.
func BenchmarkQuery(b *testing.B) {
	n := entries(b, 20_000)
	w := newWorld()
	l := w.onDisk(b, b.TempDir())
	w.grow(b, l, n, true)
	tenant, size := public(w.tenant).ID(), l.Head().Size
	rng := mathrand.New(mathrand.NewPCG(1, 2))
	for name, ask := range map[string]func() error{
		"balance": func() error {
			_, err := l.Balance(account.ID{Kind: account.Tenant, Owner: tenant})
			return err
		},
		"page": func() error {
			for _, err := range l.Query(b.Context(), ledger.Query{Account: tenant, From: rng.Uint64N(size), Limit: 100}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"proof": func() error {
			_, err := l.Prove(rng.Uint64N(size))
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if err := ask(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(size), "entries")
		})
	}
}

// TestScale holds what a ledger takes on disk and in memory. It is for a million
// entries and needs IDLEMESH_ENTRIES=1000000; then it takes some minutes.
func TestScale(t *testing.T) {
	if os.Getenv(entriesEnv) == "" {
		t.Skipf("set %s=1000000 to measure disk and memory; it takes minutes", entriesEnv)
	}
	n := entries(t, 0)
	w, dir := newWorld(), t.TempDir()
	l := w.onDisk(t, dir)
	var most uint64
	start := time.Now()
	for l.Head().Size < uint64(n) {
		w.grow(t, l, min(20_000, n-int(l.Head().Size)), true)
		most = max(most, resident(t))
		w.seen(t, l)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	disk, size := folderSize(t, dir), l.Head().Size
	t.Logf("%d entries in %v: %d bytes of disk an entry, at most %d MB resident", size, time.Since(start).Round(time.Second), disk/size, most>>20)
	if size >= 100_000 && disk/size > 700 {
		t.Errorf("%d bytes of disk an entry, want at most 700", disk/size)
	}
	if most > 300<<20 {
		t.Errorf("%d MB resident, want at most 300", most>>20)
	}
}

// seen reads here and there, as those who ask a keeper do.
func (w *world) seen(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	size := l.Head().Size
	for at := uint64(0); at < size; at += size/50 + 1 {
		if _, err := l.Prove(at); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Entry(at); err != nil {
			t.Fatal(err)
		}
	}
}

// resident is how much memory this process has, where the system says so.
func resident(t *testing.T) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("resident memory is read from /proc/self/status: ", err)
	}
	for line := range strings.Lines(string(b)) {
		var kb uint64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	t.Fatal("no VmRSS in /proc/self/status")
	return 0
}

func folderSize(t *testing.T, dir string) (n uint64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "ballast" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += uint64(info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
