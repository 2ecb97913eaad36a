package blob

import (
	"bytes"
	"fmt"
	"path/filepath"
	"time"

	"idlemesh/ledger/record"
)

// A pin keeps a blob until then; its record stands in seg.
type pin struct {
	until record.Millis
	seg   *segment
}

// A part is what came of a blob before its transfer was cut.
type part struct {
	have int64 // bytes, whole groups
	mem  []byte
	cut  time.Time
}

// cost is what an entry takes of the store's size.
func (e *entry) cost() int64 { return e.size + recHead }

// reserve makes room for n bytes, or returns ErrFull.
func (s *Store) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used+n > s.cfg.Size {
		if s.dropPartLocked() {
			continue
		}
		last := s.lru.Back()
		if last == nil || n > s.cfg.Size {
			return fmt.Errorf("%w: %d bytes wanted, %d of %d in use by pinned blobs; raise the store's size or wait for retention to end",
				ErrFull, n, s.used, s.cfg.Size)
		}
		s.dropLocked(last.Value.(*entry))
	}
	s.used += n
	return nil
}

func (s *Store) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// dropPartLocked drops some part that nobody is working on.
func (s *Store) dropPartLocked() bool {
	for ref, p := range s.parts {
		if s.moving[ref] == nil {
			s.forgetPartLocked(ref, p)
			return true
		}
	}
	return false
}

func (s *Store) forgetPartLocked(ref record.Ref, p *part) {
	delete(s.parts, ref)
	s.used -= p.have
	if s.dir != "" {
		remove(s.partPath(ref))
	}
}

// insertLocked takes an entry whose room is reserved, in place of an older one.
func (s *Store) insertLocked(e *entry) {
	if old := s.blobs[e.ref]; old != nil {
		s.forgetLocked(old)
	}
	if e.seg != nil {
		e.seg.live += e.cost()
	}
	s.blobs[e.ref] = e
	if s.pins[e.ref].until == 0 {
		e.elem = s.lru.PushFront(e)
	}
}

func (s *Store) forgetLocked(e *entry) {
	delete(s.blobs, e.ref)
	s.used -= e.cost()
	if e.seg != nil {
		e.seg.live -= e.cost()
	}
	if e.elem != nil {
		s.lru.Remove(e.elem)
		e.elem = nil
	}
}

// dropLocked deletes a blob.
func (s *Store) dropLocked(e *entry) {
	s.forgetLocked(e)
	if e.seg == nil && s.dir != "" {
		remove(s.largePath(e.ref))
	}
}

func (s *Store) pinLocked(ref record.Ref, until record.Millis, seg *segment) {
	old := s.pins[ref]
	if until <= old.until {
		return
	}
	if old.seg != nil {
		old.seg.live -= recHead
	}
	if seg != nil {
		seg.live += recHead
	}
	s.pins[ref] = pin{until, seg}
	if e := s.blobs[ref]; e != nil && e.elem != nil {
		s.lru.Remove(e.elem)
		e.elem = nil
	}
}

// lookup returns an entry and marks it as used.
func (s *Store) lookup(ref record.Ref) (*entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookupLocked(ref)
}

func (s *Store) lookupLocked(ref record.Ref) (*entry, bool) {
	e, ok := s.blobs[ref]
	if ok && e.elem != nil {
		s.lru.MoveToFront(e.elem)
	}
	return e, ok
}

// holds reports whether the blob is here and its bytes are what was written. Only
// the first question after Open reads them.
func (s *Store) holds(ref record.Ref) bool {
	s.mu.Lock()
	e, ok := s.lookupLocked(ref)
	checked := ok && e.checked
	s.mu.Unlock()
	if !ok || checked {
		return ok
	}
	if s.check(ref) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.checked = true
	return true
}

// check reads all of a blob.
func (s *Store) check(ref record.Ref) error {
	r, err := s.Get(ref)
	if err != nil {
		return err
	}
	defer r.Close()
	for off := int64(0); off < r.size; off += group {
		if err := r.checkGroup(off / group); err != nil {
			return err
		}
	}
	return nil
}

// damaged drops a blob whose bytes are not those that its name promises.
func (s *Store) damaged(e *entry, why string) error {
	s.mu.Lock()
	if s.blobs[e.ref] == e {
		s.dropLocked(e)
	}
	s.mu.Unlock()
	s.cfg.Log.Warn("blob was damaged and is dropped", "ref", e.ref, "size", e.size, "why", why)
	return fmt.Errorf("%w: %s was damaged on disk (%s) and is dropped; fetch it again", ErrMissing, e.ref, why)
}

// putSmall writes records whose data, if any, is small or kept in memory.
func (s *Store) putSmall(recs []rec, durable bool) error {
	recs, cost := s.needed(recs)
	if len(recs) == 0 {
		return nil
	}
	if err := s.reserve(cost); err != nil {
		return err
	}
	if s.dir == "" {
		s.insertAll(recs, nil, nil)
		return nil
	}
	b, at := s.log.append(recs, durable)
	if b.err != nil {
		s.release(cost)
		return b.err
	}
	s.insertAll(recs, b.seg, b.offs[at:])
	b.seg.late.Add(-int64(len(recs)))
	return nil
}

// needed leaves out what the store has already, and sums what the rest takes.
func (s *Store) needed(recs []rec) (need []rec, cost int64) {
	for _, r := range recs {
		if !r.pin && s.holds(r.ref) {
			r = rec{ref: r.ref, until: r.until, pin: true}
		}
		s.mu.Lock()
		pinned := r.until <= s.pins[r.ref].until
		s.mu.Unlock()
		if r.pin && pinned {
			continue
		}
		if !r.pin {
			cost += r.size()
		}
		need = append(need, r)
	}
	return need, cost
}

func (s *Store) insertAll(recs []rec, seg *segment, offs []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range recs {
		s.pinLocked(r.ref, r.until, seg)
		if r.pin {
			continue
		}
		e := &entry{ref: r.ref, size: int64(len(r.data)), seg: seg, checked: true}
		if seg == nil {
			e.mem = bytes.Clone(r.data)
		} else {
			e.off = offs[i]
		}
		s.insertLocked(e)
	}
}

// Pin keeps a blob until then at least, whether it is here already or comes later. A
// pin never ends sooner than one that was given before, and outlives the process.
func (s *Store) Pin(ref record.Ref, until record.Millis) error { return s.PinAll(until, ref) }

// PinAll pins blobs as Pin does, with one sync for all.
func (s *Store) PinAll(until record.Millis, refs ...record.Ref) error {
	recs := make([]rec, len(refs))
	for i, ref := range refs {
		recs[i] = rec{ref: ref, until: until, pin: true}
	}
	if err := s.putSmall(recs, true); err != nil {
		return fmt.Errorf("pin blobs: %w", full(err))
	}
	return nil
}

// Size returns how long a blob that is here is, in bytes.
func (s *Store) Size(ref record.Ref) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.blobs[ref]
	if e == nil {
		return 0, false
	}
	return e.size, true
}

func (s *Store) largePath(ref record.Ref) string {
	name := ref.String()
	return filepath.Join(s.dir, "large", name[:2], name)
}

func (s *Store) partPath(ref record.Ref) string { return filepath.Join(s.dir, "part", ref.String()) }
