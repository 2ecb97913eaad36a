package blob

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"idlemesh/ledger/record"
)

// A Reader reads a blob. ReadAt may be called concurrently, Read may not. What a
// Reader hands out has been checked; when the bytes on disk turn out to be others it
// returns ErrMissing and the blob is gone. It reads on when the blob is deleted.
type Reader struct {
	s      *Store
	e      *entry
	size   int64
	mem    []byte   // the whole blob, or:
	f      *os.File // its file
	leaves []leaf
	good   []atomic.Bool // groups found to be right
	off    int64         // of Read
}

// Get returns a reader of a blob that is here, or ErrMissing. Close it.
func (s *Store) Get(ref record.Ref) (*Reader, error) {
	s.mu.Lock()
	e, ok := s.lookupLocked(ref)
	if !ok {
		s.mu.Unlock()
		return nil, fmt.Errorf("get blob: %w: %s", ErrMissing, ref)
	}
	r := &Reader{s: s, e: e, size: e.size, mem: e.mem}
	seg, off := e.seg, e.off
	if seg != nil {
		seg.use.RLock() // so that compaction lets it be
	}
	s.mu.Unlock()
	var err error
	switch {
	case seg != nil:
		err = r.load(seg, off)
	case s.dir != "":
		err = r.open()
	}
	if err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	return r, nil
}

// Bytes returns a blob of at most max bytes.
func (s *Store) Bytes(ref record.Ref, max int64) ([]byte, error) {
	r, err := s.Get(ref)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.size > max {
		return nil, fmt.Errorf("get blob: %s has %d bytes, want at most %d", ref, r.size, max)
	}
	b := make([]byte, r.size)
	if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

func (r *Reader) load(seg *segment, off int64) error {
	defer seg.use.RUnlock()
	b := make([]byte, r.size)
	if _, err := seg.f.ReadAt(b, off); err != nil && err != io.EOF {
		return err
	}
	if Sum(b) != r.e.ref {
		return r.s.damaged(r.e, "its hash is another")
	}
	r.mem = b
	return nil
}

// open reads the leaves, which the blob's name authenticates.
func (r *Reader) open() error {
	f, err := os.Open(r.s.largePath(r.e.ref))
	if errors.Is(err, os.ErrNotExist) {
		return r.s.damaged(r.e, "its file is gone")
	}
	if err != nil {
		return err
	}
	n := groupsOf(r.size)
	b := make([]byte, n*int64(len(leaf{})))
	r.leaves, r.good = make([]leaf, n), make([]atomic.Bool, n)
	_, err = f.ReadAt(b, r.size)
	for i := range r.leaves {
		r.leaves[i] = leaf(b[i*len(leaf{}):])
	}
	if err != nil && err != io.EOF || root(r.leaves) != r.e.ref {
		f.Close()
		return r.s.damaged(r.e, "its tree is another")
	}
	r.f = f
	return nil
}

// Size is the blob's size in bytes.
func (r *Reader) Size() int64 { return r.size }

// Close releases the reader.
func (r *Reader) Close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.off)
	r.off += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt. It reads and checks the whole group of 1 MiB that it
// touches first.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("read blob: negative offset")
	}
	for n < len(p) && off < r.size {
		i := off / group
		end := min(r.size, (i+1)*group)
		m, err := r.readGroup(p[n:min(int64(len(p)), int64(n)+end-off)], off, i)
		n += m
		off += int64(m)
		if err != nil {
			return n, err
		}
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// readGroup reads bytes that lie in group i.
func (r *Reader) readGroup(p []byte, off, i int64) (int, error) {
	switch {
	case r.f == nil:
		return copy(p, r.mem[off:]), nil
	case r.good[i].Load():
		n, err := r.f.ReadAt(p, off)
		if n == len(p) {
			err = nil
		}
		return n, err
	case len(p) == groupSize(r.size, i):
		return len(p), r.verify(p, i)
	}
	buf := r.s.groups.Get().(*[group]byte)
	defer r.s.groups.Put(buf)
	b := buf[:groupSize(r.size, i)]
	if err := r.verify(b, i); err != nil {
		return 0, err
	}
	return copy(p, b[off-i*group:]), nil
}

// verify fills b with group i and checks it.
func (r *Reader) verify(b []byte, i int64) error {
	if _, err := r.f.ReadAt(b, i*group); err != nil && err != io.EOF {
		return err
	}
	if !checkGroup(r.leaves, i, b) {
		clear(b)
		return r.s.damaged(r.e, fmt.Sprintf("bytes %d to %d", i*group, i*group+int64(len(b))))
	}
	r.good[i].Store(true)
	return nil
}

func (r *Reader) checkGroup(i int64) error {
	_, err := r.readGroup(make([]byte, 1), i*group, i)
	return err
}
