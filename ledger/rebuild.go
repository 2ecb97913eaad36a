package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
)

// Rebuild makes a ledger in dir, which must not exist, from this one's entries alone,
// and compares the two stores byte for byte. A difference is an ErrCorrupt; the rebuilt
// ledger, whose indexes follow from its entries, is left in dir then. Progress, unless
// nil, is told after each piece of work.
func (l *Ledger) Rebuild(ctx context.Context, dir string, progress func(done, total uint64)) (Report, error) {
	if _, err := l.cfg.FS.Stat(dir); !errNotExist(err) {
		return Report{}, fmt.Errorf("rebuild in %s: %w", dir, errors.Join(err, fs.ErrExist))
	}
	release, err := l.hold()
	if err != nil {
		return Report{}, err
	}
	defer release()
	snap := l.db.NewSnapshot()
	defer snap.Close()
	to := &Ledger{cfg: l.cfg, dir: dir, mesh: l.mesh, guard: newGuard(l.cfg.FS, dir, l.cfg.MinFree, l.cfg.Log)}
	rep, err := to.rebuild(ctx, snap, progress)
	if err != nil {
		return rep, fmt.Errorf("rebuild in %s: %w", dir, l.guard.read(err))
	}
	return rep, nil
}

func (l *Ledger) rebuild(ctx context.Context, from pebble.Reader, progress func(done, total uint64)) (rep Report, err error) {
	store := l.cfg.FS.PathJoin(l.dir, storeDir)
	if err := l.cfg.FS.MkdirAll(store, 0o700); err != nil {
		return rep, err
	}
	if err := l.openStore(store, nil, false); err != nil {
		return rep, err
	}
	defer func() { err = cmp.Or(err, l.guard.within(nil, l.db.Close)) }()
	r := rebuilding{to: l.db, batch: l.db.NewBatch()}
	a := newAudit(from, l.mesh.Value)
	a.write = r.put
	if rep, err = a.replayed(ctx, progress); err != nil {
		return rep, err
	}
	if err := r.finish(a, from); err != nil {
		return rep, err
	}
	if rep.Keys, err = sameStore(from, l.db); err != nil {
		return rep, err
	}
	s, err := l.look(keptHead{})
	if err != nil {
		return rep, err
	}
	return rep, l.keepStored(s)
}

// A rebuilding writes what follows from entries.
type rebuilding struct {
	to    *pebble.DB
	batch *pebble.Batch
	err   error // the first of a write
}

const rebuildBatch = 4 << 20 // bytes

func (r *rebuilding) put(k, v []byte) {
	if r.err == nil {
		r.err = r.batch.Set(k, v, nil)
	}
	if r.err == nil && r.batch.Len() > rebuildBatch {
		r.err = r.batch.Commit(pebble.NoSync)
		r.batch = r.to.NewBatch()
	}
}

// finish writes the states, and what is of the store itself.
func (r *rebuilding) finish(a *audit, from pebble.Reader) error {
	for k, v := range a.states {
		r.put([]byte(k), v)
	}
	for _, k := range []string{metaFormat, metaHead, metaMark} {
		v, err := getFrom(from, []byte(k))
		if err != nil {
			return err
		}
		if v != nil {
			r.put([]byte(k), v)
		}
	}
	if r.err != nil {
		return r.err
	}
	return errors.Join(r.batch.Commit(pebble.Sync), r.to.Flush())
}

// sameStore compares two stores key by key.
func sameStore(a, b pebble.Reader) (keys uint64, err error) {
	x, err := a.NewIter(nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, x.Close()) }()
	y, err := b.NewIter(nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, y.Close()) }()
	for more, also := x.First(), y.First(); more || also; more, also = x.Next(), y.Next() {
		switch {
		case !also || more && bytes.Compare(x.Key(), y.Key()) < 0:
			return keys, fmt.Errorf("%w: %s does not follow from the entries", ErrCorrupt, name(x.Key()))
		case !more || bytes.Compare(x.Key(), y.Key()) > 0:
			return keys, fmt.Errorf("%w: %s is missing", ErrCorrupt, name(y.Key()))
		case !bytes.Equal(x.Value(), y.Value()):
			return keys, fmt.Errorf("%w: %s differs", ErrCorrupt, name(x.Key()))
		}
		keys++
	}
	return keys, cmp.Or(x.Error(), y.Error())
}
