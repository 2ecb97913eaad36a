package node_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/node"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

// noop is a module whose _start returns at once.
var noop = []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b")

// BenchmarkSubmit runs no-op jobs of one tenant through the whole path: upload, escrow,
// auction, lease, worker process, receipt, settlement, with the ledger on disk. Beside
// it stands what one fsync costs here.
func BenchmarkSubmit(b *testing.B) {
	for name, workers := range map[string]int{"concurrency=1": 1, "concurrency=16": 16} {
		b.Run(name, func(b *testing.B) {
			s := newSolo(b)
			s.start(b, node.Config{Policy: policy.Policy{Slots: 32}, Workers: sandbox.Config{Device: "cpu", Slots: 32}})
			defer s.stop()
			if _, err := s.Deposit(b.Context(), s.tenant.ID(), 10_000*record.Credit, "bench"); err != nil {
				b.Fatal(err)
			}
			one(b, s.Client) // starts the worker
			took := measure(b, s.Client, workers)
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*95/100]), "p95-ms")
			b.ReportMetric(ms(fsync(b, s.dir)), "fsync-ms")
		})
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func measure(b *testing.B, c *client.Client, workers int) (took []time.Duration) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		queue = make(chan struct{})
	)
	for range workers {
		wg.Go(func() {
			for range queue {
				begin := time.Now()
				one(b, c)
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		queue <- struct{}{}
	}
	close(queue)
	wg.Wait()
	b.StopTimer()
	return took
}

func one(b *testing.B, c *client.Client) {
	in, err := c.Submit(b.Context(), client.Request{Module: noop, MaxTotal: 1000})
	if err != nil {
		b.Error(err)
		return
	}
	for e, err := range c.Watch(b.Context(), in.Job, false) {
		if err != nil || e.Kind == wire.Ended && e.Reason != record.Finished {
			b.Errorf("%+v, %v", e, err)
		}
	}
}

// fsync returns the median of what a synced write of one block costs in dir.
func fsync(b *testing.B, dir string) time.Duration {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	block := make([]byte, 4096)
	for range 100 {
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
