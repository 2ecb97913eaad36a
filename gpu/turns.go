package gpu

import (
	"slices"
	"sync"
	"time"
)

// turns decides whose piece of work a device runs next: the share that has had least of
// its time. Who was idle does not save up: he begins where those who waited are. A run
// has one list on its way at a time, so between two it is not in the queue; if it came
// back soon the last time, and has had less than all who wait, its turn is kept for it for
// as long. Else who has long lists would have as many turns as who has short ones.
type turns struct {
	mu    sync.Mutex
	busy  bool          // a piece runs, or the turn is kept
	kept  *share        // for whom; nil while a piece runs
	had   time.Duration // of the share that began last, before it began
	queue []*ticket     // in the order they came
}

// A share is one run's part of a device's time. Its fields are under turns.mu.
type share struct {
	had    time.Duration
	left   time.Time // its last turn ended
	prompt bool      // it came back soon after the one before
	turns  uint64
}

// soon is how long a turn is kept: a guest's own work between two lists of a token.
const soon = 2 * time.Millisecond

type ticket struct {
	*share
	turn chan struct{} // closed when it is its turn
}

// take waits for s's turn; false means that stop was closed before.
func (t *turns) take(s *share, stop <-chan struct{}) bool {
	t.mu.Lock()
	s.prompt = time.Since(s.left) <= soon
	if t.kept == s || !t.busy {
		t.kept, t.busy = nil, true
		t.had = max(t.had, s.had)
		s.had = t.had
		t.mu.Unlock()
		return true
	}
	s.had = max(s.had, t.had)
	k := &ticket{s, make(chan struct{})}
	t.queue = append(t.queue, k)
	t.mu.Unlock()
	select {
	case <-k.turn:
		return true
	case <-stop:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queue, k)
	if i < 0 { // its turn came at the same moment
		t.nextLocked()
		return false
	}
	t.queue = slices.Delete(t.queue, i, i+1)
	return false
}

// give ends s's turn, which took so long.
func (t *turns) give(s *share, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.had += took
	s.left = time.Now()
	s.turns++
	if len(t.queue) > 0 && s.prompt && s.had < t.queue[least(t.queue)].had {
		t.kept = s
		turn := s.turns
		time.AfterFunc(soon, func() { t.expire(s, turn) })
		return
	}
	t.nextLocked()
}

// expire gives a turn to the next that was kept for s, who did not come.
func (t *turns) expire(s *share, turn uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == s && s.turns == turn {
		t.kept = nil
		t.nextLocked()
	}
}

func (t *turns) nextLocked() {
	if t.busy = len(t.queue) > 0; !t.busy {
		return
	}
	i := least(t.queue)
	k := t.queue[i]
	t.queue = slices.Delete(t.queue, i, i+1)
	t.had = max(t.had, k.had)
	close(k.turn)
}

// least returns the first of those that have had least.
func least(queue []*ticket) int {
	best := 0
	for i, k := range queue {
		if k.had < queue[best].had {
			best = i
		}
	}
	return best
}
