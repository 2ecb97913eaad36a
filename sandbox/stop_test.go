package sandbox_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"idlemesh/sandbox"
	"idlemesh/sandbox/worker"
)

// busy are guests that never call the host after they have said that they are up.
func busy() map[string]guest {
	up := printing(1, "up")
	g := func(code ...[]byte) guest {
		return guest{imports: up.imports, data: up.data, pages: 64, code: do(up.code, slices.Concat(code...))}
	}
	return map[string]guest{
		"a loop":         g(forever()),
		"fills":          g(forever(i32(64), i32(1), i32(63<<16), []byte{0xfc, 0x0b, 0})),
		"copies":         g(forever(i32(65), i32(64), i32(63<<16), []byte{0xfc, 0x0a, 0, 0})),
		"memory.grow":    g(forever(i32(1), []byte{0x40, 0}, drop)),
		"random numbers": {imports: append(up.imports, wasi("random_get", vi32, vi32)), data: up.data, pages: 64, code: do(up.code, forever(i32(64), i32(63<<16), call(1), drop))},
	}
}

// TestStopsWithoutKilling ends guests that never look up, each with its own reason. The
// grace is so long that only their worker itself can have ended them, and the worker
// goes on.
func TestStopsWithoutKilling(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := openPool(t, sandbox.Config{Grace: time.Hour, Metrics: reg})
	for name, g := range busy() {
		for _, tc := range []struct {
			why   string
			limit func(*sandbox.Limits)
			end   sandbox.End
			error string
		}{
			{"time", func(l *sandbox.Limits) { l.Wall = 400 }, sandbox.TimedOut, "the time limit of 400 ms"},
			{"fuel", func(l *sandbox.Limits) { l.Fuel = 3_000_000 }, sandbox.OverLimit, "the fuel limit of 3000000"},
			{"cancel", func(*sandbox.Limits) {}, sandbox.Cancelled, "cancelled"},
		} {
			t.Run(name+", "+tc.why, func(t *testing.T) {
				wasm := g.wasm()
				h, s := newHost(wasm), spec(wasm)
				h.heard = make(chan sandbox.Event, 16)
				tc.limit(&s.Limits)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.end == sandbox.Cancelled {
					go func() { <-h.heard; cancel() }()
				}
				res, err := p.Execute(ctx, "alice", s, h)
				if err != nil || res.End != tc.end || !strings.Contains(res.Error, tc.error) || res.Usage.Fuel == 0 {
					t.Errorf("Execute = %+v, %v", res, err)
				}
			})
		}
	}
	if n := counted(t, reg, "idlemesh_sandbox_workers_lost_total"); n != 0 {
		t.Errorf("%v workers were lost", n)
	}
}

func counted(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// TestFuelIsExact finds the fuel that a run uses, and gives it that much and one less.
func TestFuelIsExact(t *testing.T) {
	p := openPool(t, sandbox.Config{})
	loop := do([]byte{0x03, 0x40}, []byte{0x20, 0}, i64(1), []byte{0x7c, 0x22, 0}, i64(100_000), []byte{0x53, 0x0d, 0, 0x0b})
	g := printing(1, "done")
	g.locals, g.code = 1, do(loop, g.code)
	run := func(fuel uint64) (sandbox.Result, string) {
		wasm := g.wasm()
		h, s := newHost(wasm), spec(wasm)
		s.Limits.Fuel = fuel
		res, err := p.Execute(t.Context(), "alice", s, h)
		if err != nil {
			t.Fatal(err)
		}
		return res, h.out("stdout")
	}
	free, _ := run(0)
	need := free.Usage.Fuel
	if free.End != sandbox.Exited || need < 300_000 {
		t.Fatalf("without a limit: %+v", free)
	}
	if res, out := run(need); res.End != sandbox.Exited || res.Usage.Fuel != need || out != "done" {
		t.Errorf("with %d: %+v, %q", need, res, out)
	}
	for _, less := range []uint64{need - 1, need / 2, 1} {
		a, _ := run(less)
		b, _ := run(less)
		if a.End != sandbox.OverLimit || a.Error != fmt.Sprintf("the fuel limit of %d was reached", less) || a.Usage.Fuel != b.Usage.Fuel {
			t.Errorf("with %d: %+v, then %+v", less, a, b)
		}
	}
}

// TestTwoBusyGuests lets two guests compute on the only two processors that their worker
// has: its own goroutines go on, and each guest is ended with its own reason.
func TestTwoBusyGuests(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p := openPool(t, sandbox.Config{Start: worker.InProcess, Grace: time.Hour})
	for name, g := range busy() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var group errgroup.Group
			up := make(chan sandbox.Event, 32)
			run := func(ctx context.Context, want sandbox.End, limit func(*sandbox.Limits)) {
				wasm := g.wasm()
				h, s := newHost(wasm), spec(wasm)
				h.heard = up
				limit(&s.Limits)
				group.Go(func() error {
					res, err := p.Execute(ctx, "alice", s, h)
					if err == nil && res.End != want {
						err = fmt.Errorf("%+v, want the end %v", res, want)
					}
					return err
				})
			}
			run(ctx, sandbox.Cancelled, func(l *sandbox.Limits) { l.Wall = 600_000 })
			run(t.Context(), sandbox.TimedOut, func(l *sandbox.Limits) { l.Wall = 300 })
			<-up
			<-up
			hello := printing(1, "hello").wasm()
			h := newHost(hello)
			if res, err := p.Execute(t.Context(), "alice", spec(hello), h); err != nil || res.End != sandbox.Exited || h.out("stdout") != "hello" {
				t.Errorf("beside them: %+v, %v", res, err)
			}
			cancel()
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkStop is how long it takes until the result of a run is there, from the end of
// its context or of its time, while its guest computes and, in one case, another beside
// it.
func BenchmarkStop(b *testing.B) {
	b.Run("cancel", func(b *testing.B) { stopping(b, stopCancelled) })
	b.Run("time", func(b *testing.B) { stopping(b, stopTimedOut) })
	b.Run("cancel, two busy", func(b *testing.B) {
		p := openPool(b, sandbox.Config{})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			wasm := busy()["a loop"].wasm()
			s := spec(wasm)
			s.Limits.Wall = 600_000
			if res, err := p.Execute(ctx, "alice", s, newHost(wasm)); err != nil || res.End != sandbox.Cancelled {
				b.Error(res, err)
			}
		}()
		stoppingIn(b, p, stopCancelled)
		cancel()
		<-done
	})
}

func stopping(b *testing.B, stop func(*testing.B, *sandbox.Pool, []byte) time.Duration) {
	stoppingIn(b, openPool(b, sandbox.Config{}), stop)
}

func stoppingIn(b *testing.B, p *sandbox.Pool, stop func(*testing.B, *sandbox.Pool, []byte) time.Duration) {
	wasm := busy()["a loop"].wasm()
	var took []time.Duration
	for b.Loop() {
		took = append(took, stop(b, p, wasm))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "p95-µs")
}

func stopCancelled(b *testing.B, p *sandbox.Pool, wasm []byte) time.Duration {
	h := newHost(wasm)
	h.heard = make(chan sandbox.Event, 16)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	cancelled := make(chan time.Time, 1)
	go func() { <-h.heard; cancelled <- time.Now(); cancel() }()
	if res, err := p.Execute(ctx, "alice", spec(wasm), h); err != nil || res.End != sandbox.Cancelled {
		b.Fatal(res, err)
	}
	return time.Since(<-cancelled)
}

// stopTimedOut counts the run's start too.
func stopTimedOut(b *testing.B, p *sandbox.Pool, wasm []byte) time.Duration {
	const limit = 10
	s := spec(wasm)
	s.Limits.Wall = limit
	began := time.Now()
	if res, err := p.Execute(b.Context(), "alice", s, newHost(wasm)); err != nil || res.End != sandbox.TimedOut {
		b.Fatal(res, err)
	}
	return time.Since(began) - limit*time.Millisecond
}
