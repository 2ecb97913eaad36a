package blob

import (
	"errors"
	"os"
	"path/filepath"

	"idlemesh/ledger/record"
)

// A draft is a blob that is being written: its groups, then its leaves, all in one
// file that is renamed when it is whole.
type draft struct {
	s    *Store
	f    *os.File // nil in memory
	mem  []byte
	have int64 // bytes written
	room int64 // bytes reserved
	tree tree  // of a Put
	ref  record.Ref
	part bool // keep what came of it
}

// draft begins a blob whose name is not known yet.
func (s *Store) draft() (*draft, error) {
	d := &draft{s: s}
	if s.dir == "" {
		return d, nil
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "put-*")
	d.f = f
	return d, err
}

// resume begins, or goes on with, the transfer of a blob. The caller holds moving.
func (s *Store) resume(ref record.Ref, size int64) (*draft, error) {
	s.mu.Lock()
	p := s.parts[ref]
	delete(s.parts, ref)
	s.mu.Unlock()
	d := &draft{s: s, ref: ref, part: true}
	if p != nil {
		d.have, d.room, d.mem = p.have, p.have, p.mem
	}
	if err := d.reserve(size + recHead); err != nil {
		d.discard()
		return nil, err
	}
	if s.dir == "" {
		return d, nil
	}
	f, err := os.OpenFile(s.partPath(ref), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		d.discard()
		return nil, err
	}
	d.f = f
	return d, nil
}

// reserve makes the draft's room n bytes in all.
func (d *draft) reserve(n int64) error {
	if n <= d.room {
		return nil
	}
	if err := d.s.reserve(n - d.room); err != nil {
		return err
	}
	d.room = n
	return nil
}

// add writes the next group of a Put.
func (d *draft) add(b []byte) error {
	if d.have+int64(len(b)) > d.s.cfg.MaxBlob {
		return errTooLarge(d.s.cfg.MaxBlob)
	}
	if err := d.reserve(d.have + int64(len(b)) + recHead); err != nil {
		return err
	}
	d.tree.add(b)
	return d.write(b)
}

func (d *draft) write(b []byte) error {
	if d.f == nil {
		d.mem = append(d.mem[:d.have], b...)
	} else if _, err := d.s.log.write(d.f, b, d.have); err != nil {
		return err
	}
	d.have += int64(len(b))
	return nil
}

// readAt reads a group that was written.
func (d *draft) readAt(b []byte, off int64) error {
	if d.f == nil {
		copy(b, d.mem[off:])
		return nil
	}
	_, err := d.f.ReadAt(b, off)
	return err
}

// name returns the name of what add was given.
func (d *draft) name() record.Ref {
	ref, _ := d.tree.sum()
	return ref
}

// finish makes a Put's blob visible.
func (d *draft) finish(ref record.Ref) error {
	_, leaves := d.tree.sum()
	return d.publish(ref, leaves)
}

// publish makes the blob visible, on disk first.
func (d *draft) publish(ref record.Ref, leaves []leaf) error {
	e := &entry{ref: ref, size: d.have, mem: d.mem, checked: true}
	if d.f != nil {
		if err := d.seal(ref, leaves); err != nil {
			return err
		}
	}
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.f != nil {
		// Under the lock, so that it cannot cross with the deletion of an older copy;
		// closed, since some systems do not rename open files.
		if err := errors.Join(d.f.Close(), os.Rename(d.f.Name(), s.largePath(ref))); err != nil {
			return err
		}
	}
	s.used -= d.room - e.cost()
	s.insertLocked(e)
	d.f, d.mem, d.have, d.room, d.part = nil, nil, 0, 0, false
	return nil
}

// seal completes the file and makes the folder for it.
func (d *draft) seal(ref record.Ref, leaves []leaf) error {
	tail := make([]byte, 0, len(leaves)*len(leaf{}))
	for _, l := range leaves {
		tail = append(tail, l[:]...)
	}
	_, err := d.s.log.write(d.f, tail, d.have)
	if err == nil {
		err = d.f.Truncate(d.have + int64(len(tail)))
	}
	if err == nil {
		err = d.s.log.sync(d.f)
	}
	if err != nil {
		return err
	}
	dir := filepath.Dir(d.s.largePath(ref))
	if err := os.Mkdir(dir, 0o700); err == nil {
		return syncDir(filepath.Dir(dir))
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// discard ends a draft that was not published; of a transfer it keeps whole groups.
func (d *draft) discard() {
	d.have -= d.have % group
	keep := d.part && d.have > 0
	if d.f != nil {
		d.f.Close()
		if !keep {
			remove(d.f.Name())
		}
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if keep {
		d.s.parts[d.ref] = &part{have: d.have, mem: d.mem, cut: d.s.cfg.Now()}
		d.room -= d.have
	}
	d.s.used -= d.room
	d.room = 0
}
