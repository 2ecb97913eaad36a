package gpu_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

// sleepy takes a while for each command: a millisecond for each of its columns.
type sleepy struct{ *cpu.Backend }

func (sleepy) Launch(stop <-chan struct{}, cmds []kernel.Command) error {
	for _, c := range cmds {
		select {
		case <-time.After(time.Duration(c.N) * time.Millisecond):
		case <-stop:
			return cpu.ErrStopped
		}
	}
	return nil
}

// A tenant submits lists of so many commands of so many milliseconds, from a time on.
type tenant struct {
	commands, millis int
	from             time.Duration
}

// kernelTime lets tenants share a device until a time, and returns what each had of it.
func kernelTime(t *testing.T, tenants []tenant, until time.Duration) []time.Duration {
	had := make([]time.Duration, len(tenants))
	synctest.Test(t, func(t *testing.T) {
		d := gpu.New(sleepy{cpu.New(1 << 20)}, 0)
		begin := time.Now()
		var wg sync.WaitGroup
		for i, x := range tenants {
			wg.Go(func() {
				time.Sleep(x.from)
				s := d.Session(0, ref)
				defer s.Close()
				b := alloc(t, s, 4096)
				list := slices.Repeat([]kernel.Command{{Op: kernel.Fill, M: 1, N: uint32(x.millis), Dst: at(b, 0)}}, x.commands)
				for time.Since(begin) < until {
					if _, err := s.Submit(list); err != nil {
						t.Error(err)
						return
					}
				}
				had[i] = time.Duration(s.Spent().Busy)
			})
		}
		wg.Wait()
	})
	return had
}

func TestFairKernelTime(t *testing.T) {
	const all = 10 * time.Second
	for name, tc := range map[string]struct {
		tenants []tenant
		want    []time.Duration
	}{
		"alone":                        {[]tenant{{1, 10, 0}}, []time.Duration{all}},
		"alike":                        {[]tenant{{1, 10, 0}, {1, 10, 0}}, []time.Duration{all / 2, all / 2}},
		"short lists and long ones":    {[]tenant{{1, 10, 0}, {20, 10, 0}}, []time.Duration{all / 2, all / 2}},
		"many, one of them greedy":     {[]tenant{{1, 5, 0}, {1, 20, 0}, {2, 100, 0}, {1, 1, 0}}, []time.Duration{all / 4, all / 4, all / 4, all / 4}},
		"who comes late has not saved": {[]tenant{{1, 10, 0}, {4, 10, 5 * time.Second}}, []time.Duration{7500 * time.Millisecond, 2500 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, got := range kernelTime(t, tc.tenants, all) {
				if off := got - tc.want[i]; off.Abs() > 350*time.Millisecond {
					t.Errorf("tenant %d had %v of the device, want %v", i, got, tc.want[i])
				}
			}
		})
	}
}

// TestLongListsAreCut: who waits for a device that works on the longest list there may be
// waits for a piece of it.
func TestLongListsAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gpu.New(sleepy{cpu.New(16 << 20)}, 0)
		long, short := d.Session(0, ref), d.Session(0, ref)
		a, b, c, x := alloc(t, long, 1<<22), alloc(t, long, 1<<22), alloc(t, long, 1<<22), alloc(t, short, 4)
		gemm := kernel.Command{Op: kernel.Gemm, M: 1024, N: 1024, K: 1024, Dst: at(c, 0), A: at(a, 0), B: at(b, 0)} // 2^31 FLOP, 1.024 s
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := long.Submit(slices.Repeat([]kernel.Command{gemm}, 32)); err != nil {
				t.Error(err)
			}
			if s := long.Spent(); s.FLOP != 1<<36 || time.Duration(s.Busy) != 32*1024*time.Millisecond {
				t.Errorf("the long list is metered at %+v", s)
			}
		})
		synctest.Wait()
		if _, err := short.Submit([]kernel.Command{{Op: kernel.Fill, M: 1, N: 1, Dst: at(x, 0)}}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 2500*time.Millisecond {
			t.Errorf("a short list waited %v for a long one", took)
		}
		wg.Wait()
	})
}

// TestWaitingEnds: a session that is closed while it waits for its turn costs nothing and
// leaves the turn to the next.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gpu.New(sleepy{cpu.New(1 << 20)}, 0)
		var s [3]*gpu.Session
		var wg sync.WaitGroup
		var errs [3]error
		for i := range s {
			s[i] = d.Session(0, ref)
			b := alloc(t, s[i], 4096)
			wg.Go(func() {
				_, errs[i] = s[i].Submit([]kernel.Command{{Op: kernel.Fill, M: 1, N: 1000, Dst: at(b, 0)}})
			})
			synctest.Wait()
		}
		begin := time.Now()
		s[1].Close()
		wg.Wait()
		if errs[0] != nil || !errors.Is(errs[1], gpu.ErrClosed) || errs[2] != nil || time.Since(begin) != 2*time.Second {
			t.Errorf("ended with %v after %v", errs, time.Since(begin))
		}
		if got := s[1].Spent(); got != (kernel.Spent{}) {
			t.Errorf("who never had a turn pays %+v", got)
		}
	})
}

// hanging is a backend whose kernels do not end.
type hanging struct {
	*cpu.Backend
	end chan struct{}
}

func (h hanging) Launch(<-chan struct{}, []kernel.Command) error {
	<-h.end
	return nil
}

// strict has its own idea of how long that may be.
type strict struct{ hanging }

func (strict) MaxLaunch() time.Duration { return 3 * time.Second }

func TestHungKernel(t *testing.T) {
	for want, wrap := range map[time.Duration]func(hanging) gpu.Backend{
		5 * time.Minute: func(h hanging) gpu.Backend { return h },
		3 * time.Second: func(h hanging) gpu.Backend { return strict{h} },
	} {
		synctest.Test(t, func(t *testing.T) {
			h := hanging{cpu.New(1 << 20), make(chan struct{})}
			d := gpu.New(wrap(h), 0)
			begin := time.Now()
			var after time.Duration
			d.OnHang(func() {
				after = time.Since(begin)
				close(h.end)
			})
			s := d.Session(0, ref)
			if _, err := s.Submit([]kernel.Command{{Op: kernel.Fill, M: 1, N: 1, Dst: at(alloc(t, s, 4), 0)}}); err != nil || after != want {
				t.Errorf("noticed after %v, want %v (%v)", after, want, err)
			}
		})
	}
}
