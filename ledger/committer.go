package ledger

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"idlemesh/ledger/record"
)

// An Orderer puts batches of entries into the one order that all keepers apply.
// *Ledger is one for a single keeper.
type Orderer interface {
	Order(ctx context.Context, batch []record.Raw) ([]Outcome, error)
}

// ErrUnordered is what an Orderer returns while it cannot order, or when it does not
// know whether it did: append the batch again, under the same idempotency keys.
var ErrUnordered = errors.New("no order now")

// A Committer gathers concurrent appends into batches, so that many entries share one
// sync, and hands them to its Orderer. Whoever finds nobody committing commits for all
// that wait, in the order they came, so there is no goroutine to run and none starves.
// It is safe for concurrent use.
type Committer struct {
	to   Orderer
	max  int
	turn chan struct{} // holds one token: whoever has put it in commits

	mu    sync.Mutex
	queue []*waiting
}

type waiting struct {
	batch []record.Raw
	done  chan committed
}

type committed struct {
	outs []Outcome
	err  error
}

// NewCommitter returns a committer that orders up to max entries at once, more only
// when one append alone has more; zero means 512.
func NewCommitter(to Orderer, max int) *Committer {
	return &Committer{to: to, max: cmp.Or(max, 512), turn: make(chan struct{}, 1)}
}

// Append returns when the entries are durable, in the order given. After an error
// their fate is unknown: append them again, under the same idempotency keys. An append
// whose ctx ends before its turn is not made.
func (c *Committer) Append(ctx context.Context, batch []record.Raw) ([]Outcome, error) {
	w := &waiting{batch, make(chan committed, 1)}
	c.mu.Lock()
	c.queue = append(c.queue, w)
	c.mu.Unlock()
	for {
		select {
		case r := <-w.done: // before the turn: who has his answer must not commit for others
			return r.outs, r.err
		default:
		}
		select {
		case c.turn <- struct{}{}:
			c.commit(context.WithoutCancel(ctx))
			<-c.turn
		case r := <-w.done:
			return r.outs, r.err
		case <-ctx.Done():
			c.leave(w)
			return nil, context.Cause(ctx)
		}
	}
}

// leave takes w out of the queue, if it still waits there.
func (c *Committer) leave(w *waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, x := range c.queue {
		if x == w {
			c.queue = append(c.queue[:i:i], c.queue[i+1:]...)
			return
		}
	}
}

// commit orders what waits, as one batch.
func (c *Committer) commit(ctx context.Context) {
	group, batch := c.take()
	if len(group) == 0 {
		return
	}
	outs, err := c.to.Order(ctx, batch)
	for _, w := range group {
		r := committed{err: err}
		if err == nil {
			r.outs, outs = outs[:len(w.batch):len(w.batch)], outs[len(w.batch):]
		}
		w.done <- r
	}
}

func (c *Committer) take() (group []*waiting, batch []record.Raw) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 && (len(group) == 0 || len(batch)+len(c.queue[0].batch) <= c.max) {
		group, batch = append(group, c.queue[0]), append(batch, c.queue[0].batch...)
		c.queue = c.queue[1:]
	}
	return group, batch
}
