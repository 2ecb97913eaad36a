package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"

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
	a := newAudit(snap, l.mesh.Value)
	rep, err := a.run(ctx, progress)
	if err != nil {
		return rep, fmt.Errorf("verify: %w", l.guard.read(err))
	}
	if head := l.Head(); head.Size == rep.Head.Size {
		rep.Head = head // the signed form
	}
	return rep, nil
}

// An audit replays a store's entries and compares what follows from them.
type audit struct {
	view
	r      pebble.Reader
	states map[string][]byte // s/, recomputed
	keys   uint64            // others, recomputed
	time   record.Millis     // of the entry before
	differ error             // the first difference
}

func newAudit(r pebble.Reader, m record.Mesh) *audit {
	a := &audit{r: r, states: map[string][]byte{}}
	a.view = view{mesh: m, get: func(k []byte) ([]byte, error) {
		if k[0] == 's' { // never from the store: that is what is audited
			return a.states[string(k)], nil
		}
		return getFrom(r, k) // compared before it is read back
	}}
	return a
}

func (a *audit) run(ctx context.Context, progress func(done, total uint64)) (Report, error) {
	head, last, err := readHead(a.view)
	if err != nil {
		return Report{}, err
	}
	rep := Report{Head: head}
	for rep.Entries < head.Size {
		if err := ctx.Err(); err != nil {
			return rep, context.Cause(ctx)
		}
		n := min(chunk, head.Size-rep.Entries)
		if err := a.replay(rep.Entries, n); err != nil {
			return rep, err
		}
		rep.Entries += n
		if progress != nil {
			progress(rep.Entries, head.Size)
		}
	}
	if a.time != last {
		return rep, fmt.Errorf("%w: the head is of %d, the last entry of %d", ErrCorrupt, last, a.time)
	}
	root, err := tlog.TreeHash(int64(head.Size), a.view)
	if err != nil {
		return rep, err
	}
	if record.Ref(root) != head.Root {
		return rep, fmt.Errorf("%w: the entries do not lead to the tree head", ErrCorrupt)
	}
	rep.Keys, err = a.count()
	return rep, err
}

// replay checks entries from to from+n.
func (a *audit) replay(from, n uint64) error {
	leaves, times, raws := make([][]byte, n), make([]record.Millis, n), make([]record.Raw, n)
	for i := range n {
		leaf, err := a.leaf(from + i)
		if err != nil {
			return err
		}
		if leaves[i], err = record.Encode(leaf); err != nil { // decoded strictly: the same bytes
			return err
		}
		times[i], raws[i] = leaf.Time, leaf.Entry
	}
	for i, o := range openAll(raws, true) {
		at := placed{index: from + uint64(i), time: times[i], entry: o.entry, leaf: leaves[i], body: o.body}
		err := o.err
		if err == nil {
			err = a.one(at)
		}
		if err != nil {
			return fmt.Errorf("%w: entry %d: %w", ErrCorrupt, at.index, err)
		}
	}
	return nil
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
	if err := deriveTree(a.put, p, a.view); err != nil {
		return err
	}
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
	for it.First(); it.Valid(); it.Next() {
		switch k := it.Key(); {
		case string(k) == metaFormat || string(k) == metaHead || string(k) == metaMark:
		case k[0] == 's':
			states++
			if want, ok := a.states[string(k)]; !ok || !bytes.Equal(want, it.Value()) {
				return 0, cmp.Or(fmt.Errorf("%w: a %s does not follow from the entries", ErrCorrupt, name(k)), it.Close())
			}
		default:
			keys++
		}
	}
	if err := cmp.Or(it.Error(), it.Close()); err != nil {
		return 0, err
	}
	if keys != a.keys || states != len(a.states) {
		return 0, fmt.Errorf("%w: %d keys and %d states are stored, %d and %d follow from the entries",
			ErrCorrupt, keys, states, a.keys, len(a.states))
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
