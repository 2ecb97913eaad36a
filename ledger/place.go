package ledger

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// A Checked is a batch whose signatures have been verified. Whoever orders entries for
// several keepers checks them before they are ordered, and need not do it again.
type Checked struct{ entries []opened }

// Check decodes and verifies a batch.
func Check(batch []record.Raw) Checked { return Checked{openAll(batch, false)} }

// Err returns why entry i is refused for its bytes alone, or nil.
func (c Checked) Err(i int) error { return c.entries[i].err }

// Good returns the entries that Err has nothing against.
func (c Checked) Good() Checked {
	var good Checked
	for _, o := range c.entries {
		if o.err == nil {
			good.entries = append(good.entries, o)
		}
	}
	return good
}

// A Place is where a batch stands in an order of batches that several keepers share.
type Place struct {
	Mark uint64        // grows from batch to batch; not zero
	Time record.Millis // stamped by whoever ordered it
}

// ErrPlaced is returned by Place for a batch that is in the ledger.
var ErrPlaced = errors.New("batch was placed before")

// Place appends a batch where an order of keepers has put it: like Apply, but by the
// time that it was stamped with, and once for each mark. Equal batches at equal places
// make equal ledgers.
func (l *Ledger) Place(c Checked, at Place) ([]Outcome, error) {
	if l.key == nil {
		return nil, ErrReadOnly
	}
	return l.append(c.entries, stamp{at.Time, at.Mark})
}

// Mark returns the place of the last batch, zero where none came by Place. The mark of
// a batch of which every entry was refused may be forgotten at the next start.
func (l *Ledger) Mark() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mark
}

// Grown returns a channel that is closed when the log grows or the ledger is closed.
func (l *Ledger) Grown() <-chan struct{} {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.grown
}

// Await returns once the log has size entries.
func (l *Ledger) Await(ctx context.Context, size uint64) error {
	for {
		l.mu.RLock()
		grown, closed, have := l.grown, l.closed, l.head.Size
		l.mu.RUnlock()
		switch {
		case have >= size:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// HeadAt returns the head that the log had at a size it has reached, signed. The size
// is durable, so the keeper will never sign another root for it.
func (l *Ledger) HeadAt(size uint64) (h tree.Head, err error) {
	if l.key == nil {
		return h, ErrReadOnly
	}
	release, err := l.hold()
	if err != nil {
		return h, err
	}
	defer release()
	switch head := l.Head(); {
	case size == head.Size:
		return head, nil
	case size > head.Size:
		return h, fmt.Errorf("%w: a head of %d entries, the log has %d", ErrNotFound, size, head.Size)
	}
	root, err := tlog.TreeHash(int64(size), l.view())
	if err != nil {
		return h, l.guard.read(err)
	}
	return tree.Sign(l.key, l.mesh.Ref(), size, record.Ref(root))
}

// A stamp is the time of a batch, and its place in the keepers' order if it has one.
type stamp struct {
	time record.Millis
	mark uint64
}

// place completes a stamp, for whoever has the turn.
func (l *Ledger) place(at *stamp) error {
	mark, now := l.Mark(), l.Time()
	switch {
	case at.mark == 0:
		at.mark, at.time = mark, record.At(l.cfg.Now())
	case at.mark <= mark:
		return fmt.Errorf("%w: place %d, the ledger is at %d", ErrPlaced, at.mark, mark)
	}
	at.time = max(at.time, now)
	return nil
}

// passed notes a batch that changed nothing.
func (l *Ledger) passed(at stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark = at.mark
}
