package ledger

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// headName is a file of copies: the newest tree head that a quorum of keepers has signed
// and that the copy leads to. A keeper signs his own heads and keeps none.
const headName = "head"

// Backup writes a copy of the ledger to dir, which must not exist, while the ledger goes
// on. The copy can be opened as the ledger itself can, and proves entries under head, a
// signed head of this log that is durable. On the same file system the copy shares
// tables with the store, so a second disk is reached by copying dir there.
func (l *Ledger) Backup(dir string, head tree.Head) error {
	if _, err := l.cfg.FS.Stat(dir); !errNotExist(err) {
		return fmt.Errorf("back up to %s: %w", dir, errors.Join(err, fs.ErrExist))
	}
	if err := l.backup(dir, head); err != nil {
		return errors.Join(fmt.Errorf("back up to %s: %w", dir, err), l.cfg.FS.RemoveAll(dir))
	}
	return nil
}

func (l *Ledger) backup(dir string, head tree.Head) error {
	files := l.cfg.FS
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := l.Checkpoint(files.PathJoin(dir, storeDir)); err != nil {
		return err
	}
	c := &Ledger{cfg: l.cfg, dir: dir, mesh: l.mesh, guard: newGuard(files, dir, l.cfg.MinFree, l.cfg.Log)}
	s, err := c.seen(head)
	if err != nil {
		return err
	}
	if err := c.keepStored(s); err != nil {
		return err
	}
	if err := writeFile(files, dir, headName, []byte(head.Note)); err != nil {
		return err
	}
	return syncDir(files, files.PathDir(dir))
}

// seen looks at a copy of the store that nobody writes to, which must lead to head.
func (l *Ledger) seen(head tree.Head) (s stored, err error) {
	if err := l.openStore(l.cfg.FS.PathJoin(l.dir, storeDir), nil, true); err != nil {
		return s, corrupted(err)
	}
	err = l.guard.within(nil, func() (err error) {
		if s, err = l.look(keptHead{}); err != nil {
			return err
		}
		return l.leads(head)
	})
	return s, errors.Join(err, l.guard.within(nil, l.db.Close))
}

// leads reports whether the log has head's root at head's size.
func (l *Ledger) leads(head tree.Head) error {
	v := l.view()
	have, _, err := readHead(v)
	if err != nil {
		return err
	}
	if head.Size > have.Size {
		return fmt.Errorf("%w: a tree head of %d entries, and %d are here", ErrCorrupt, head.Size, have.Size)
	}
	root, err := tlog.TreeHash(int64(head.Size), v)
	if err != nil {
		return err
	}
	if record.Ref(root) != head.Root {
		return fmt.Errorf("%w: the log does not lead to the tree head of %d", ErrCorrupt, head.Size)
	}
	return nil
}

// keepStored writes the kept head of what a look has found.
func (l *Ledger) keepStored(s stored) error {
	k, err := openKept(l.cfg.FS, l.dir, -1)
	if err != nil {
		return err
	}
	h := keptHead{Mesh: s.mesh, Before: s.head.Size, Prior: s.head.Root, Size: s.head.Size, Root: s.head.Root, Time: s.time, Mark: s.mark}
	for range k.files {
		if err := k.write(h); err != nil {
			return errors.Join(err, k.close())
		}
	}
	return k.close()
}

// KeepHead remembers a head that the mesh's keepers have signed, for a ledger that is a
// copy: it proves entries under that head when it is opened for reading. The log must
// lead to it.
func (l *Ledger) KeepHead(head tree.Head) error {
	release, err := l.hold()
	if err != nil {
		return err
	}
	defer release()
	signed, err := tree.Open(head.Note, l.mesh)
	if err == nil && (signed.Size != head.Size || signed.Root != head.Root) {
		err = tree.ErrHead
	}
	if err == nil {
		err = l.leads(head)
	}
	if err == nil {
		err = writeFile(l.cfg.FS, l.dir, headName, []byte(head.Note))
	}
	if err != nil {
		return fmt.Errorf("keep tree head: %w", err)
	}
	return nil
}

// Signed returns the newest head known here that a quorum of the mesh's keepers has
// signed, for proofs. It may be older than Head; it is empty where none is known.
func (l *Ledger) Signed() tree.Head {
	if l.key == nil {
		return l.signed
	}
	return l.Head()
}

// readSigned reads the head that was kept beside a copy. A bad one is as good as none:
// only proofs need it.
func (l *Ledger) readSigned(dir string) error {
	b, err := readFile(l.cfg.FS, l.cfg.FS.PathJoin(dir, headName))
	if errNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	head, err := tree.Open(string(b), l.mesh)
	if err == nil {
		err = l.guard.within(nil, func() error { return l.leads(head) })
	}
	if err != nil {
		l.cfg.Log.Warn("ledger: the tree head beside the copy is of no use, so nothing can be proved", "err", err)
		return nil
	}
	l.signed = head
	return nil
}

// writeFile makes a small file durable, whole or not at all.
func writeFile(files vfs.FS, dir, name string, b []byte) error {
	fresh := files.PathJoin(dir, name+".new")
	f, err := files.Create(fresh, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := files.Rename(fresh, files.PathJoin(dir, name)); err != nil {
		return err
	}
	return syncDir(files, dir)
}
