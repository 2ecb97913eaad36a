package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// A Report says what Verify has checked.
type Report struct {
	Entries uint64
	Keys    uint64 // stored keys that were recomputed and found equal
	Head    tree.Head
}

// chunk is how many entries are read and their signatures checked at a time.
const chunk = 512

// Verify recomputes the whole ledger from its entries alone: every signature, number,
// rule, balance, hash and index, and compares it byte for byte with what is stored. It
// sees the ledger as it was when it began. A difference is an ErrCorrupt that names
// it. Progress, unless nil, is told after each piece of work.
func (l *Ledger) Verify(ctx context.Context, progress func(done, total uint64)) (Report, error) {
	release, err := l.hold()
	if err != nil {
		return Report{}, err
	}
	defer release()
	snap := l.db.NewSnapshot()
	defer snap.Close()
	rep, err := auditStore(ctx, snap, l.mesh.Value, progress)
	if err != nil {
		return rep, fmt.Errorf("verify: %w", l.guard.read(err))
	}
	if head := l.Head(); head.Size == rep.Head.Size {
		rep.Head = head // the signed form
	}
	return rep, nil
}

// auditStore recomputes r from its entries. What follows from them and what is stored
// are compared as two sums over all keys and values, which takes one pass over the
// store. Where they differ, a second, slower audit looks each key up and names the
// first that is wrong.
func auditStore(ctx context.Context, r pebble.Reader, m record.Mesh, progress func(done, total uint64)) (Report, error) {
	a := newAudit(r, m)
	a.sum = newSum()
	rep, err := a.run(ctx, progress)
	if err == nil || ctx.Err() != nil {
		return rep, err
	}
	exact := newAudit(r, m)
	if rep, named := exact.run(ctx, nil); named != nil {
		return rep, named
	}
	return rep, err
}

// An audit replays a store's entries and compares what follows from them.
type audit struct {
	view
	r      pebble.Reader
	states map[string][]byte // s/, recomputed
	edge   edge
	sum    *sum              // of all that follows; nil looks each key up instead
	write  func(k, v []byte) // what follows, in place of comparing it; may be nil
	keys   uint64            // recomputed, but states
	time   record.Millis     // of the entry before
	differ error             // the first difference
}

func newAudit(r pebble.Reader, m record.Mesh) *audit {
	a := &audit{r: r, states: map[string][]byte{}}
	a.view = view{mesh: m, get: func(k []byte) ([]byte, error) {
		if k[0] == 's' { // never from the store: that is what is audited
			return a.states[string(k)], nil
		}
		return getFrom(r, k)
	}}
	return a
}

func (a *audit) run(ctx context.Context, progress func(done, total uint64)) (Report, error) {
	rep, err := a.replayed(ctx, progress)
	if err == nil {
		rep.Keys, err = a.count()
	}
	return rep, err
}

// replayed replays all entries, which must lead to the head.
func (a *audit) replayed(ctx context.Context, progress func(done, total uint64)) (Report, error) {
	head, last, err := readHead(a.view)
	if err != nil {
		return Report{}, err
	}
	rep := Report{Head: head}
	if err := a.replayAll(ctx, &rep, progress); err != nil {
		return rep, err
	}
	if a.time != last {
		return rep, fmt.Errorf("%w: the head is of %d, the last entry of %d", ErrCorrupt, last, a.time)
	}
	if a.edge.root() != head.Root {
		return rep, fmt.Errorf("%w: the entries do not lead to the tree head", ErrCorrupt)
	}
	return rep, nil
}

// replayAll replays one piece of the log while the next is read and its signatures are
// verified.
func (a *audit) replayAll(ctx context.Context, rep *Report, progress func(done, total uint64)) error {
	size := rep.Head.Size
	read := func(from uint64) <-chan piece {
		c := make(chan piece, 1)
		go func() { c <- a.piece(from, min(chunk, size-min(from, size))) }()
		return c
	}
	next := read(0)
	defer func() { <-next }() // nothing that was started is left
	for rep.Entries < size {
		p := <-next
		next = read(rep.Entries + uint64(len(p.placed)))
		if err := cmp.Or(context.Cause(ctx), p.err); err != nil {
			return err
		}
		for _, at := range p.placed {
			if err := a.one(at); err != nil {
				return fmt.Errorf("%w: entry %d: %w", ErrCorrupt, at.index, err)
			}
		}
		rep.Entries += uint64(len(p.placed))
		if progress != nil {
			progress(rep.Entries, size)
		}
	}
	return nil
}

// A piece is part of the log, in order, its signatures verified.
type piece struct {
	placed []placed
	err    error
}

// piece reads entries from to from+n.
func (a *audit) piece(from, n uint64) (p piece) {
	raws := make([]record.Raw, n)
	p.placed = make([]placed, n)
	if n == 0 {
		return p
	}
	it, err := a.r.NewIter(&pebble.IterOptions{LowerBound: key(keyEntry, u64(from)), UpperBound: key(keyEntry, u64(from+n))})
	if err != nil {
		return piece{err: err}
	}
	it.First()
	for i := range n {
		at := from + i
		if !it.Valid() || binary.BigEndian.Uint64(it.Key()[len(keyEntry):]) != at {
			err := cmp.Or(it.Error(), fmt.Errorf("%w: entry %d is missing", ErrCorrupt, at))
			return piece{err: cmp.Or(err, it.Close())}
		}
		var leaf record.Leaf
		if err := record.Decode(it.Value(), &leaf); err != nil {
			return piece{err: cmp.Or(fmt.Errorf("%w: entry %d: %w", ErrCorrupt, at, err), it.Close())}
		}
		p.placed[i] = placed{index: at, time: leaf.Time, leaf: bytes.Clone(it.Value())} // canonical, so the bytes that follow from it
		raws[i] = leaf.Entry
		it.Next()
	}
	if err := it.Close(); err != nil {
		return piece{err: err}
	}
	for i, o := range openAll(raws, true) {
		if o.err != nil {
			return piece{err: fmt.Errorf("%w: entry %d: %w", ErrCorrupt, from+uint64(i), o.err)}
		}
		p.placed[i].entry, p.placed[i].body = o.entry, o.body
	}
	return p
}

func (a *audit) one(p placed) error {
	by, e := p.entry.By(), p.entry.Value
	next, err := a.nextSeq(by, e.Stream)
	switch {
	case err != nil:
		return err
	case e.Seq != next:
		return &SequenceError{Have: e.Seq, Want: next}
	case p.time < a.time:
		return fmt.Errorf("ledger time goes back from %d to %d", a.time, p.time)
	}
	a.time = p.time
	eff, err := account.Apply(a.view, by, p.time, e)
	if err != nil {
		return err
	}
	if err := derive(a.put, p, eff); err != nil {
		return err
	}
	deriveTree(a.put, p, &a.edge)
	return a.differ
}

// put keeps a state and compares everything else with the store. A key that two
// entries claim, such as an idempotency key, differs for one of them.
func (a *audit) put(k, v []byte) {
	if k[0] == 's' {
		a.states[string(k)] = v
		return
	}
	a.keys++
	if a.write != nil {
		a.write(k, v)
		return
	}
	if a.sum != nil {
		a.sum.add(k, v)
		return
	}
	have, err := getFrom(a.r, k)
	switch {
	case a.differ != nil:
	case err != nil:
		a.differ = err
	case have == nil:
		a.differ = fmt.Errorf("its %s is missing", name(k))
	case !bytes.Equal(have, v):
		a.differ = fmt.Errorf("its %s differs", name(k))
	}
}

// count walks the whole store: nothing may be there that does not follow from the
// entries, and every state must be the one that follows.
func (a *audit) count() (uint64, error) {
	it, err := a.r.NewIter(nil)
	if err != nil {
		return 0, err
	}
	keys, states := uint64(0), 0
	var stored *sum
	if a.sum != nil {
		stored = a.sum.fresh()
	}
	for it.First(); it.Valid(); it.Next() {
		switch k := it.Key(); {
		case string(k) == metaFormat || string(k) == metaHead || string(k) == metaMark:
		case k[0] == 's':
			states++
			if want, ok := a.states[string(k)]; !ok || !bytes.Equal(want, it.Value()) {
				return 0, cmp.Or(fmt.Errorf("%w: a %s does not follow from the entries", ErrCorrupt, name(k)), it.Close())
			}
		default:
			if keys++; stored != nil {
				stored.add(k, it.Value())
			}
		}
	}
	if err := cmp.Or(it.Error(), it.Close()); err != nil {
		return 0, err
	}
	if keys != a.keys || states != len(a.states) {
		return 0, fmt.Errorf("%w: %d keys and %d states are stored, %d and %d follow from the entries",
			ErrCorrupt, keys, states, a.keys, len(a.states))
	}
	if stored != nil && stored.total != a.sum.total {
		return 0, fmt.Errorf("%w: what is stored is not what follows from the entries", ErrCorrupt)
	}
	return keys + uint64(states), nil
}

// name says what a key is, for people.
func name(k []byte) string {
	names := map[string]string{
		keyEntry: "log leaf", keyHash: "tree hash", keyRef: "hash index", keySeq: "author index", keyIdem: "idempotency key",
		keyBalance: "balance", keyJob: "job index", keyLease: "lease index", keyNode: "party index", keyKind: "type index",
		keyMinute: "time index",
	}
	if n, ok := names[string(k[:min(2, len(k))])]; ok && len(k) > 10 {
		return fmt.Sprintf("%s at %d", n, binary.BigEndian.Uint64(k[len(k)-8:]))
	}
	return fmt.Sprintf("state %.4q", k)
}
