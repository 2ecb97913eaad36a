package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A team is the goroutine of one launch and helpers, which share out the blocks of one
// command after another. Together they are never more than GOMAXPROCS. Helpers start
// with the first command that has several blocks and end with the launch. Between
// commands, which often follow within microseconds, they look for work for a while
// before they sleep.
type team struct {
	size    int
	o       *call
	do      func(o *call, block int)
	n       int
	claim   atomic.Uint64 // the command's number, and how many of its blocks nobody took
	left    atomic.Int64  // blocks that are not done
	closed  atomic.Bool
	asleep  atomic.Int32 // including the launch's own goroutine, when that waits
	helpers sync.WaitGroup

	mu   sync.Mutex
	wake sync.Cond
}

const (
	unclaimed = 1<<32 - 1 // bits of claim
	// looks is how often an idle member looks before it sleeps, giving others the
	// processor each time.
	looks = 100
)

// share runs do for each block below n and waits.
func (t *team) share(o *call, n int, do func(o *call, block int)) {
	t.hire()
	t.o, t.n, t.do = o, n, do
	t.left.Store(int64(n))
	t.claim.Store((t.claim.Load() | unclaimed) + 1 | uint64(n))
	t.rouse()
	t.work()
	t.await(func() bool { return t.left.Load() == 0 })
}

// hire starts the helpers.
func (t *team) hire() {
	if t.wake.L == nil {
		t.wake.L = &t.mu
	}
	if t.size > 0 {
		return
	}
	t.size = runtime.GOMAXPROCS(0)
	for range t.size - 1 {
		t.helpers.Go(func() {
			for !t.closed.Load() {
				t.work()
				t.await(func() bool { return t.claim.Load()&unclaimed != 0 || t.closed.Load() })
			}
		})
	}
}

// dismiss ends the helpers, and leaves the team as new.
func (t *team) dismiss() {
	if t.size == 0 {
		return
	}
	t.closed.Store(true)
	t.rouse()
	t.helpers.Wait()
	t.closed.Store(false)
	t.size, t.o, t.do = 0, nil, nil
}

// work does blocks until all are taken. What they are may be read only once one was
// claimed, since the launch goes on when the last is done.
func (t *team) work() {
	for {
		c := t.claim.Load()
		if c&unclaimed == 0 {
			return
		}
		if !t.claim.CompareAndSwap(c, c-1) {
			continue
		}
		if !stopped(t.o.stop) {
			t.do(t.o, t.n-int(c&unclaimed))
		}
		if t.left.Add(-1) == 0 {
			t.rouse()
		}
	}
}

func (t *team) await(ready func() bool) {
	for range looks {
		if ready() {
			return
		}
		runtime.Gosched()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asleep.Add(1)
	for !ready() {
		t.wake.Wait()
	}
	t.asleep.Add(-1)
}

func (t *team) rouse() {
	if t.asleep.Load() > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wake.Broadcast()
	}
}
