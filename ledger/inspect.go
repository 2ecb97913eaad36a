package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// remedy is what helps against damaged files.
const remedy = "nothing was changed; restore the folder from a backup, or move it away and join the mesh again if another keeper has the ledger"

// A stored is what a look at the store found, without changing a byte.
type stored struct {
	blank bool // no store, or one that never took an entry of ours
	mesh  record.Ref
	head  tree.Head
	time  record.Millis
	mark  uint64
	kept  record.Ref // root at the kept head's size, where the store reaches so far
}

// inspect opens the store for reading. Opened for writing at once, Pebble would delete
// the tables that a damaged MANIFEST no longer names.
func (l *Ledger) inspect(store string, lock *pebble.Lock, best keptHead) (s stored, err error) {
	desc, err := pebble.Peek(store, l.cfg.FS)
	if err != nil {
		return s, fmt.Errorf("%w: %w; %s", ErrCorrupt, err, remedy)
	}
	if !desc.Exists {
		return stored{blank: true}, nil
	}
	if err := l.openStore(store, lock, true); err != nil {
		return s, fmt.Errorf("%w; %s", corrupted(err), remedy)
	}
	err = l.guard.within(nil, func() (err error) {
		s, err = l.look(best)
		return err
	})
	db := l.db
	l.db = nil
	closing := l.guard.within(nil, db.Close)
	if err = cmp.Or(l.guard.usable(), err, closing); err != nil {
		return s, fmt.Errorf("%w; %s", corrupted(err), remedy)
	}
	return s, nil
}

// look reads the head and checks that the log below it is whole.
func (l *Ledger) look(best keptHead) (s stored, err error) {
	v := l.view()
	form, err := v.get([]byte(metaFormat))
	if err != nil {
		return s, err
	}
	if form == nil {
		return stored{blank: true}, nil
	}
	if len(form) != 33 || form[0] != format {
		return s, fmt.Errorf("%w: format %x, this program knows %d", ErrCorrupt, form[:min(1, len(form))], format)
	}
	s.mesh = record.Ref(form[1:])
	if s.head, s.time, err = readHead(v); err != nil {
		return s, err
	}
	if s.mark, err = v.number([]byte(metaMark)); err != nil {
		return s, err
	}
	root, err := tlog.TreeHash(int64(s.head.Size), v)
	if err != nil {
		return s, err
	}
	if record.Ref(root) != s.head.Root {
		return s, fmt.Errorf("%w: the tree does not lead to its head", ErrCorrupt)
	}
	if best.Size <= s.head.Size {
		root, err := tlog.TreeHash(int64(best.Size), v)
		if err != nil {
			return s, err
		}
		s.kept = record.Ref(root)
	}
	return s, l.whole(s.head.Size)
}

// whole counts the entries by their smallest index. All keys of a commit reach the
// tables by one edit of the MANIFEST, so an edit that was lost under a newer WAL leaves
// a hole here, which the head alone would not show.
func (l *Ledger) whole(size uint64) error {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte(keyKind), UpperBound: after(keyKind)})
	if err != nil {
		return err
	}
	n := uint64(0)
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	if err := cmp.Or(it.Error(), it.Close()); err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("%w: %d of %d entries are there", ErrCorrupt, n, size)
	}
	return nil
}

// compare decides whether the store is all that has been acknowledged.
func (s stored) compare(mesh record.Ref, best keptHead, kept, readOnly bool) error {
	switch {
	case !s.blank && s.mesh != mesh:
		return fmt.Errorf("%w: of %v", ErrMesh, s.mesh)
	case kept && best.Mesh != mesh:
		return fmt.Errorf("%w: of %v", ErrMesh, best.Mesh)
	case s.blank && kept:
		return fmt.Errorf("%w: the log is gone, its head was kept at size %d; %s", ErrCorrupt, best.Size, remedy)
	case s.blank && readOnly:
		return fmt.Errorf("%w: the ledger has never been started", ErrNotFound)
	case s.blank || !kept && s.head.Size == 0:
		return nil // fresh, or cut off while it was made
	case !kept:
		return fmt.Errorf("%w: neither copy of the kept head is readable, so nobody knows whether %d entries are all; %s",
			ErrCorrupt, s.head.Size, remedy)
	case s.head.Size >= best.Size && s.kept == best.Root:
		return nil
	case s.head.Size >= best.Size:
		return fmt.Errorf("%w: the log differs from its kept head at size %d; %s", ErrCorrupt, best.Size, remedy)
	case s.head.Size == best.Before && s.head.Root == best.Prior && readOnly:
		return fmt.Errorf("%w: the last batch is only in the kept head; start the node once to repair that", ErrCorrupt)
	case s.head.Size == best.Before && s.head.Root == best.Prior:
		return nil // the kept head has the batch that is missing
	}
	return fmt.Errorf("%w: the log has %d entries where %d were acknowledged; %s", ErrCorrupt, s.head.Size, best.Size, remedy)
}

func headValue(h tree.Head, t record.Millis) []byte {
	v := append(u64(h.Size), h.Root[:]...)
	return binary.BigEndian.AppendUint64(v, uint64(t))
}

func readHead(v view) (h tree.Head, t record.Millis, err error) {
	p, err := v.get([]byte(metaHead))
	if err != nil {
		return h, 0, err
	}
	if len(p) != 48 {
		return h, 0, corrupt("tree head", p)
	}
	h = tree.Head{Size: binary.BigEndian.Uint64(p), Root: record.Ref(p[8:40])}
	return h, record.Millis(binary.BigEndian.Uint64(p[40:])), nil
}

// after returns the end of the keys that begin with prefix.
func after(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
