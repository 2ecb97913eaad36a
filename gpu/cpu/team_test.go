package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"idlemesh/gpu/kernel"
)

// TestTeam shares out many commands, one after another, and counts who did what. The
// bubble ends when no helper is left.
func TestTeam(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	synctest.Test(t, func(t *testing.T) {
		l := new(launch)
		l.call.threads, l.call.team = 4, &l.team
		for round := range 3 {
			for n := range 200 {
				done := make([]atomic.Int32, n)
				var now, most atomic.Int32
				l.call.blocks(n, func(_ *call, i int) {
					if c := now.Add(1); c > most.Load() {
						most.Store(c)
					}
					done[i].Add(1)
					now.Add(-1)
				})
				for i := range done {
					if done[i].Load() != 1 {
						t.Fatalf("round %d: block %d of %d was done %d times", round, i, n, done[i].Load())
					}
				}
				if most.Load() > 4 {
					t.Fatalf("%d blocks at once on 4 processors", most.Load())
				}
			}
			l.team.dismiss()
		}
	})
}

// TestLaunchesAtOnce runs launches of one backend side by side.
func TestLaunchesAtOnce(t *testing.T) {
	a, b := inexact(3, 90*80), inexact(4, 80*70)
	want := multiply(t, 90, 70, 80, 0, a, b)
	d := New(0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := kernel.Command{Op: kernel.Gemm, M: 90, N: 70, K: 80}
			for i, o := range []*kernel.Operand{&c.Dst, &c.A, &c.B} {
				o.Buffer, _ = d.Alloc(uint64(4 * []int{90 * 70, 90 * 80, 80 * 70}[i]))
				copy(floats(d.at(o.Buffer)), [][]float32{nil, a, b}[i])
			}
			for range 20 {
				if err := d.Launch(nil, []kernel.Command{c}); err != nil {
					t.Error(err)
				}
				for i, v := range floats(d.at(c.Dst.Buffer)) {
					if v != want[i] {
						t.Errorf("element %d is %v, want %v", i, v, want[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestLaunchAllocatesNothing holds the way of small commands off the heap.
func TestLaunchAllocatesNothing(t *testing.T) {
	d := New(0)
	x, _ := d.Alloc(4096)
	y, _ := d.Alloc(4096)
	at := func(b kernel.Buffer) kernel.Operand { return kernel.Operand{Buffer: b} }
	cmds := []kernel.Command{
		{Op: kernel.Gemm, Flags: kernel.TransB, M: 1, N: 30, K: 30, Dst: at(y), A: at(x), B: at(x)},
		{Op: kernel.RMSNorm, M: 1, N: 64, Dst: at(y), A: at(x)},
		{Op: kernel.Add, M: 2, N: 64, Dst: at(y), A: at(x), B: at(x)},
		{Op: kernel.RoPE, M: 1, N: 2, K: 8, Dst: at(y), A: at(x), B: at(x)},
		{Op: kernel.Attention, M: 1, N: 2, K: 8, L: 1, Dst: at(y), A: at(x), B: at(x), C: at(x), Params: [10]uint32{0, 9}},
		{Op: kernel.Fill, M: 1, N: 8, Dst: at(y)},
	}
	stop := make(chan struct{})
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Launch(stop, cmds); err != nil {
			t.Error(err)
		}
	}); n >= 1 { // a pool may be emptied now and then
		t.Errorf("%v allocations a launch, want none", n)
	}
}
