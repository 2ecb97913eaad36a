package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"idlemesh/ledger/record"
)

// load finds what an earlier process left in the folder.
func (s *Store) load() error {
	s.log = &journal{dir: filepath.Join(s.dir, "small"), write: (*os.File).WriteAt, sync: syncData, all: map[*segment]bool{}}
	// What stands in tmp belongs to puts that never ended.
	if err := os.RemoveAll(filepath.Join(s.dir, "tmp")); err != nil {
		return err
	}
	for _, sub := range []string{"small", "large", "part", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			return err
		}
	}
	if err := errors.Join(s.loadLarge(), s.loadParts()); err != nil {
		return err
	}
	return s.loadSegments()
}

func (s *Store) loadLarge() error {
	return filepath.WalkDir(filepath.Join(s.dir, "large"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		ref, err := record.ParseRef(d.Name())
		if err != nil || path != s.largePath(ref) {
			return nil // not ours
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		e := &entry{ref: ref, size: sizeOf(i.Size())}
		if e.size < 0 {
			remove(path)
			return nil
		}
		s.used += e.cost()
		s.insertLocked(e)
		return nil
	})
}

// sizeOf returns the size of the blob in a file of that size, which ends with a leaf
// for each group.
func sizeOf(file int64) int64 {
	const l = int64(len(leaf{}))
	return file - (file+group+l-1)/(group+l)*l
}

func (s *Store) loadParts() error {
	list, err := os.ReadDir(filepath.Join(s.dir, "part"))
	if err != nil {
		return err
	}
	for _, d := range list {
		ref, err := record.ParseRef(d.Name())
		if err != nil {
			continue
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		p := &part{have: i.Size() - i.Size()%group, cut: i.ModTime()}
		if p.have == 0 {
			remove(s.partPath(ref))
			continue
		}
		s.used += p.have
		s.parts[ref] = p
	}
	return nil
}

func (s *Store) loadSegments() error {
	list, err := filepath.Glob(filepath.Join(s.dir, "small", "????????.seg"))
	if err != nil {
		return err
	}
	slices.Sort(list)
	for i, path := range list {
		var id uint32
		if _, err := fmt.Sscanf(filepath.Base(path), "%08d.seg", &id); err != nil {
			continue
		}
		s.log.last = max(s.log.last, id)
		if err := s.loadSegment(path, id, i == len(list)-1); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// loadSegment indexes a segment. What a crash left half-written at the end of the
// last is cut off, and it is written on.
func (s *Store) loadSegment(path string, id uint32, last bool) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	i, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	seg := &segment{f: f, id: id}
	salt, end, err := scan(f, i.Size(), func(r rec, off, n int64) {
		s.pinLocked(r.ref, r.until, seg)
		if !r.pin {
			e := &entry{ref: r.ref, size: n, seg: seg, off: off}
			s.used += e.cost()
			s.insertLocked(e)
		}
	})
	if salt == nil {
		// Its head never came to disk, or is damaged: nothing in it can be told apart.
		s.cfg.Log.Warn("blob segment is damaged and left out", "file", path, "err", err)
		f.Close()
		return os.Rename(path, path+".damaged")
	}
	if err != nil {
		f.Close()
		return err
	}
	seg.salt, seg.size = slices.Clone(salt), end
	s.log.all[seg] = true
	if last && end < segSize {
		s.log.active = seg
		return f.Truncate(end)
	}
	return nil
}
