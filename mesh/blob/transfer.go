package blob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"idlemesh/ledger/record"
)

// errBytes is returned when a peer sends other bytes than the name promises.
var errBytes = errors.New("peer sent other bytes than the blob's name promises")

// begin claims the transfer of a blob to here and returns how to end it, or waits for
// one that goes on and returns nil.
func (s *Store) begin(ctx context.Context, ref record.Ref) (end func(), err error) {
	s.mu.Lock()
	busy := s.moving[ref]
	if busy == nil {
		done := make(chan struct{})
		s.moving[ref] = done
		s.mu.Unlock()
		return func() {
			s.mu.Lock()
			delete(s.moving, ref)
			s.mu.Unlock()
			close(done)
		}, nil
	}
	s.mu.Unlock()
	select {
	case <-busy:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send writes a blob from that group on. Leaves come first, all of them.
func send(w io.Writer, r *Reader, from int64, progress func(int64)) error {
	if len(r.leaves) > 1 || r.size > group {
		for _, l := range r.tree() {
			if _, err := w.Write(l[:]); err != nil {
				return err
			}
		}
	}
	// A peer may make us wait here, so little memory waits with us.
	buf := make([]byte, min(r.size, 64<<10))
	for off := from * group; off < r.size; {
		n, err := r.ReadAt(buf, off)
		if err != nil && err != io.EOF {
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
		progress(off)
	}
	return nil
}

// tree returns the leaves; a blob in memory has none yet.
func (r *Reader) tree() []leaf {
	if r.f != nil {
		return r.leaves
	}
	var t tree
	for b := r.mem; len(b) > 0; b = b[min(len(b), group):] {
		t.add(b[:min(len(b), group)])
	}
	_, leaves := t.sum()
	return leaves
}

// receiveLeaves reads what send writes first.
func receiveLeaves(c io.Reader, ref record.Ref, size int64) ([]leaf, error) {
	n := groupsOf(size)
	if n == 1 {
		return []leaf{leaf(ref)}, nil
	}
	var leaves []leaf // grows with what comes, not with what was announced
	var buf [128]leaf
	for int64(len(leaves)) < n {
		part := buf[:min(int64(len(buf)), n-int64(len(leaves)))]
		for i := range part {
			if _, err := io.ReadFull(c, part[i][:]); err != nil {
				return nil, err
			}
		}
		leaves = append(leaves, part...)
	}
	if root(leaves) != ref {
		return nil, errBytes
	}
	return leaves, nil
}

// receive reads the groups that the draft lacks, and publishes the blob.
func (s *Store) receive(c io.Reader, d *draft, leaves []leaf, size int64, progress func(int64)) error {
	buf := s.groups.Get().(*[group]byte)
	defer s.groups.Put(buf)
	for i := d.have / group; i < groupsOf(size); i++ {
		b := buf[:groupSize(size, i)]
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if !checkGroup(leaves, i, b) {
			return errBytes
		}
		if err := d.write(b); err != nil {
			return full(err)
		}
		progress(d.have)
	}
	return full(d.publish(d.ref, leaves))
}

// receiveSmall reads a blob that shares a segment.
func receiveSmall(c io.Reader, ref record.Ref, size int64) ([]byte, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	if Sum(b) != ref {
		return nil, errBytes
	}
	return b, nil
}

// trim cuts a draft back to the groups that are right.
func (s *Store) trim(d *draft, leaves []leaf) error {
	buf := s.groups.Get().(*[group]byte)
	defer s.groups.Put(buf)
	for i := range d.have / group {
		if err := d.readAt(buf[:], i*group); err != nil || i >= int64(len(leaves)) || !checkGroup(leaves, i, buf[:]) {
			d.have = i * group
			return fmt.Errorf("group %d of what came before is damaged", i)
		}
	}
	return nil
}

func ignore(int64) {}
