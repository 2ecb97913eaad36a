package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// replaceDir is where a verified copy lies until it is the store.
const replaceDir = "store.new"

// Checkpoint writes a copy of the store to dir, which must not exist and lie in the
// same file system, and returns the mark that the copy has at least. It shares the
// store's tables, so it costs next to nothing.
func (l *Ledger) Checkpoint(dir string) (mark uint64, err error) {
	release, err := l.hold()
	if err != nil {
		return 0, err
	}
	defer release()
	mark = l.stored()
	err = l.guard.within(l.guard.whenFull(), func() error { return l.db.Checkpoint(dir, pebble.WithFlushedWAL()) })
	if err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return mark, nil
}

// stored is the mark that is on disk, zero if it cannot be read.
func (l *Ledger) stored() uint64 {
	n, err := l.view().number([]byte(metaMark))
	if err != nil {
		return 0
	}
	return n
}

// Replace puts a copy of another keeper's store, as Checkpoint writes it, in the place
// of this ledger's, which it must extend. Everything in it is verified first, as by
// Verify, and it must lead to trusted, a head that the caller has verified. Whoever
// reads meanwhile gets ErrReplaced and asks again.
func (l *Ledger) Replace(dir string, trusted tree.Head) error {
	if l.key == nil {
		return ErrReadOnly
	}
	if err := l.vet(dir, trusted); err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-l.guard.stuck:
		return l.guard.usable()
	}
	l.setAway(true)
	defer l.setAway(false)
	l.users.Wait()
	if err := l.swap(dir); err != nil {
		return l.guard.fail(fmt.Errorf("replace: %w: start again", err))
	}
	return nil
}

// ErrReplaced is returned while a copy takes the store's place, and by readers that it
// interrupts.
var ErrReplaced = errors.New("the ledger is being replaced by a copy of another keeper's: try again")

func (l *Ledger) setAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
	if !away && !l.closed {
		close(l.grown)
		l.grown = make(chan struct{})
	}
}

// vet reads the copy in dir, which nobody may write to.
func (l *Ledger) vet(dir string, trusted tree.Head) error {
	c := &Ledger{cfg: l.cfg, mesh: l.mesh, guard: newGuard(l.cfg.FS, dir, l.cfg.MinFree, l.cfg.Log)}
	if err := c.openStore(dir, nil, true); err != nil {
		return corrupted(err)
	}
	return errors.Join(c.guard.within(nil, func() error { return l.compareCopy(c, trusted) }), c.guard.within(nil, c.db.Close))
}

func (l *Ledger) compareCopy(c *Ledger, trusted tree.Head) error {
	own := l.Head()
	s, err := c.look(keptHead{Size: own.Size})
	switch {
	case err != nil:
		return corrupted(err)
	case s.blank || s.mesh != l.mesh.Ref():
		return fmt.Errorf("%w: the copy is", ErrMesh)
	case s.head.Size < own.Size || s.kept != own.Root:
		return fmt.Errorf("%w: the copy, of %d entries, does not extend the log of %d", ErrCorrupt, s.head.Size, own.Size)
	case s.head.Size < trusted.Size:
		return fmt.Errorf("%w: the copy has %d entries, its tree head %d", ErrCorrupt, s.head.Size, trusted.Size)
	}
	root, err := tlog.TreeHash(int64(trusted.Size), c.view())
	if err != nil {
		return corrupted(err)
	}
	if record.Ref(root) != trusted.Root {
		return fmt.Errorf("%w: the copy does not lead to its tree head", ErrCorrupt)
	}
	_, err = auditStore(context.Background(), c.db, c.mesh.Value, nil)
	return err
}

// swap puts dir in the store's place. From the rename on, open does it.
func (l *Ledger) swap(dir string) error {
	fs := l.cfg.FS
	if err := fs.Rename(dir, fs.PathJoin(l.dir, replaceDir)); err != nil {
		return err
	}
	if err := syncDir(fs, l.dir); err != nil {
		return err
	}
	if err := l.closeFiles(); err != nil {
		return err
	}
	l.db, l.kept, l.lock = nil, nil, nil
	return l.open(l.dir)
}

// settle finishes a Replace that was cut off once its copy had been verified.
func (l *Ledger) settle(dir, store string) error {
	fs := l.cfg.FS
	from := fs.PathJoin(dir, replaceDir)
	if _, err := fs.Stat(from); err != nil {
		if errNotExist(err) {
			return nil
		}
		return err
	}
	if _, err := fs.Stat(store); err == nil {
		lock, err := pebble.LockDirectory(store, fs)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLocked, err)
		}
		if err := lock.Close(); err != nil {
			return err
		}
	}
	if err := fs.RemoveAll(store); err != nil {
		return err
	}
	if err := fs.Rename(from, store); err != nil {
		return err
	}
	return syncDir(fs, dir)
}
