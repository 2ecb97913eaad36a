package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// Limits of one Apply.
const (
	// MaxEntry is the size of a signed entry in bytes.
	MaxEntry = 16 << 10
	// MaxBatch is how many bytes of entries one Apply takes.
	MaxBatch = 16 << 20
)

// An Outcome is what became of one entry of a batch.
type Outcome struct {
	Index uint64
	Time  record.Millis // ledger time
	Known bool          // it was there already, and this copy took no number
	Err   error         // this entry's refusal; the others of the batch stand
}

// Apply appends a batch in one durable write: what it returns without an error is on
// disk. It is deterministic: equal batches at equal times make equal ledgers. After an
// error of the whole batch its fate is unknown: apply it again.
func (l *Ledger) Apply(batch []record.Raw) ([]Outcome, error) {
	if l.key == nil {
		return nil, ErrReadOnly
	}
	size := 0
	for _, raw := range batch {
		size += len(raw)
	}
	if size > MaxBatch {
		return nil, fmt.Errorf("append: batch of %d bytes, at most %d", size, MaxBatch)
	}
	return l.append(openAll(batch, false), stamp{})
}

func (l *Ledger) append(batch []opened, at stamp) ([]Outcome, error) {
	outs, err := l.apply(batch, at)
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	l.count.observe(outs)
	return outs, nil
}

// Order implements Orderer for a mesh with a single keeper: it is its own order.
func (l *Ledger) Order(_ context.Context, batch []record.Raw) ([]Outcome, error) {
	return l.Apply(batch)
}

// An opened is an entry whose signatures have been checked, or why it is refused.
type opened struct {
	entry record.Signed[record.Entry]
	body  record.Ref
	err   error
}

// openAll decodes and verifies a batch, a part on each processor: signatures verified
// together cost a third.
func openAll(batch []record.Raw, afresh bool) []opened {
	out := make([]opened, len(batch))
	parts := min(runtime.GOMAXPROCS(0), len(batch)/4+1)
	var wg sync.WaitGroup
	for i := range parts {
		from, to := i*len(batch)/parts, (i+1)*len(batch)/parts
		if i == parts-1 {
			openPart(batch[from:to], out[from:to], afresh)
			continue
		}
		wg.Go(func() { openPart(batch[from:to], out[from:to], afresh) })
	}
	wg.Wait()
	return out
}

func openPart(batch []record.Raw, out []opened, afresh bool) {
	fit := make([]record.Raw, len(batch))
	for i, raw := range batch {
		if len(raw) <= MaxEntry {
			fit[i] = raw
		}
	}
	entries, errs := record.OpenEntries(fit, afresh)
	for i, e := range entries {
		o := &out[i]
		if o.entry, o.err = e, errs[i]; len(batch[i]) > MaxEntry {
			o.err = fmt.Errorf("%w: %d bytes, at most %d", account.ErrEntry, len(batch[i]), MaxEntry)
		}
		if o.err == nil {
			o.body, o.err = bodyHash(e.Value)
		}
	}
}

// apply takes its turn, plans the batch and commits the plan.
func (l *Ledger) apply(batch []opened, at stamp) ([]Outcome, error) {
	if err := l.guard.writable(); err != nil {
		return nil, err
	}
	full := l.guard.whenFull()
	select {
	case l.turn <- struct{}{}:
	case <-l.guard.stuck:
		return nil, l.guard.usable()
	case <-full:
		return nil, l.guard.writable()
	case <-l.guard.closing:
		return nil, ErrClosed
	}
	release, err := l.hold() // with the turn: who has it may wait for all that hold
	if err != nil {
		<-l.turn
		return nil, err
	}
	leave := func() { <-l.turn; release() }
	if err := l.place(&at); err != nil {
		leave()
		return nil, err
	}
	p, outs, err := l.plan(batch, at)
	if err != nil || len(p.raws) == 0 {
		if err == nil {
			l.passed(at)
		}
		leave()
		return outs, l.guard.read(err)
	}
	err = l.guard.within(full, func() error {
		defer leave()
		return l.commit(p)
	})
	return outs, err
}

// A plan is a batch's outcome before it is written.
type plan struct {
	view
	batch *pebble.Batch
	fresh map[string][]byte // what later entries of the batch read back
	head  tree.Head
	edge  edge
	now   record.Millis
	mark  uint64
	raws  []record.Raw // entries taken
	// failed is set when the store could not be read: what a rule says then is no
	// refusal.
	failed error
}

func (l *Ledger) plan(batch []opened, at stamp) (*plan, []Outcome, error) {
	p := &plan{batch: l.db.NewBatch(), fresh: map[string][]byte{}, now: at.time, mark: at.mark, head: tree.Head{Size: l.Head().Size}}
	p.view = view{mesh: l.mesh.Value, get: func(k []byte) ([]byte, error) {
		if v, ok := p.fresh[string(k)]; ok {
			return v, nil
		}
		v, err := getFrom(l.db, k)
		if err != nil {
			p.failed = err
		} else if bytes.HasPrefix(k, []byte(stateFact)) {
			p.fresh[string(k)] = v // few keys sign much: nobody else writes meanwhile
		}
		return v, err
	}}
	outs := make([]Outcome, len(batch))
	var err error
	if p.edge, err = readEdge(p.head.Size, p.view); err != nil {
		return p, nil, err
	}
	for i, o := range batch {
		if outs[i], err = p.add(o); err != nil {
			return p, nil, err
		}
	}
	if len(p.raws) == 0 {
		return p, outs, nil
	}
	p.head.Root = p.edge.root()
	if err := p.batch.Set([]byte(metaMark), u64(p.mark), nil); err != nil {
		return p, nil, err
	}
	return p, outs, p.batch.Set([]byte(metaHead), headValue(p.head, p.now), nil)
}

// add decides one entry. An error is of the store, not of the entry.
func (p *plan) add(o opened) (Outcome, error) {
	if o.err != nil {
		return Outcome{Err: o.err}, nil
	}
	by, e := o.entry.By(), o.entry.Value
	at, body, known, err := p.idem(by, e.Idem)
	switch {
	case err != nil:
		return Outcome{}, err
	case known && body != o.body:
		return Outcome{Err: fmt.Errorf("%w, %d", ErrConflict, at)}, nil
	case known:
		return p.known(at)
	}
	next, err := p.nextSeq(by, e.Stream)
	if err != nil {
		return Outcome{}, err
	}
	if e.Seq != next {
		return Outcome{Err: &SequenceError{Have: e.Seq, Want: next}}, nil
	}
	eff, err := account.Apply(p.view, by, p.now, e)
	switch {
	case p.failed != nil:
		return Outcome{}, p.failed
	case errors.Is(err, ErrCorrupt):
		return Outcome{}, err
	case err != nil:
		return Outcome{Err: err}, nil
	}
	return p.take(o, eff)
}

func (p *plan) known(at uint64) (Outcome, error) {
	leaf, _, err := p.leaf(at)
	return Outcome{Index: at, Time: leaf.Time, Known: true}, err
}

// take gives an entry its index.
func (p *plan) take(o opened, eff account.Effects) (Outcome, error) {
	leaf, err := record.Encode(record.Leaf{Time: p.now, Entry: o.entry.Raw()})
	if err != nil {
		return Outcome{}, err
	}
	at := placed{index: p.head.Size, time: p.now, entry: o.entry, leaf: leaf, body: o.body}
	if err := derive(p.put, at, eff); err != nil {
		return Outcome{}, err
	}
	deriveTree(p.put, at, &p.edge)
	p.head.Size++
	p.raws = append(p.raws, o.entry.Raw())
	return Outcome{Index: at.index, Time: p.now}, nil
}

// put adds to the batch. Only states, numbers and entries are read back within it.
func (p *plan) put(k, v []byte) {
	if err := p.batch.Set(k, v, nil); err != nil {
		panic(fmt.Sprintf("ledger: set in an open batch: %v", err))
	}
	switch k[0] {
	case 's', 'k', 'e':
		p.fresh[string(k)] = v
	}
}

// commit makes a plan durable, then publishes its head. The kept head and Pebble's WAL
// are synced side by side; see kept.
func (l *Ledger) commit(p *plan) error {
	start := time.Now()
	before := l.Head()
	if err := l.db.ApplyNoSyncWait(p.batch, pebble.Sync); err != nil {
		return l.guard.fail(written(err))
	}
	err := l.kept.write(keptHead{
		Mesh: l.mesh.Ref(), Before: before.Size, Prior: before.Root,
		Size: p.head.Size, Root: p.head.Root, Time: p.now, Batch: p.raws, Mark: p.mark,
	})
	if waited := p.batch.SyncWait(); err == nil {
		err = waited
	}
	if err != nil {
		return l.guard.fail(written(err))
	}
	head, err := tree.Sign(l.key, l.mesh.Ref(), p.head.Size, p.head.Root)
	if err != nil {
		return err
	}
	l.publish(head, stamp{p.now, p.mark})
	l.count.commit.Observe(time.Since(start).Seconds())
	return p.batch.Close()
}

// written says what to do after a failed write: nobody knows how much of it is on disk.
func written(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: free some space and start again: %w", ErrFull, err)
	}
	return fmt.Errorf("write the log: %w: start again, and look at the disk if it stays so", err)
}

func (l *Ledger) publish(head tree.Head, at stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.time, l.mark = head, at.time, at.mark
	if !l.closed {
		close(l.grown)
		l.grown = make(chan struct{})
	}
}
