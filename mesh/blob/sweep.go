package blob

import (
	"errors"
	"fmt"
	"io"
	"time"

	"idlemesh/ledger/record"
)

// partLife is how long what came of a cut transfer waits for the rest.
const partLife = 24 * time.Hour

// Sweep deletes the blobs whose pins have ended by now, and what came of transfers
// that nobody went on with for a day, and gives back the disk space of small blobs
// that are gone. Blobs that were never pinned stay as long as there is room. Call it
// each minute or so.
func (s *Store) Sweep(now record.Millis) error {
	s.expire(now)
	if s.log == nil {
		return nil
	}
	var errs []error
	for _, seg := range s.log.sealed() {
		s.mu.Lock()
		spare := seg.live <= (seg.size-int64(segHead))/2
		s.mu.Unlock()
		if spare {
			errs = append(errs, s.compact(seg))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep blobs: %w", full(err))
	}
	return nil
}

func (s *Store) expire(now record.Millis) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, p := range s.pins {
		if p.until > now {
			continue
		}
		delete(s.pins, ref)
		if p.seg != nil {
			p.seg.live -= recHead
		}
		if e := s.blobs[ref]; e != nil {
			s.dropLocked(e)
		}
	}
	for ref, p := range s.parts {
		if s.moving[ref] == nil && record.At(p.cut.Add(partLife)) <= now {
			s.forgetPartLocked(ref, p)
		}
	}
}

// sealed lists the segments that nothing is written to any more.
func (j *journal) sealed() []*segment {
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []*segment
	for seg := range j.all {
		if seg != j.active && seg.late.Load() == 0 {
			list = append(list, seg)
		}
	}
	return list
}

// compact writes what is needed of a segment to the active one and deletes it.
func (s *Store) compact(seg *segment) error {
	var batch []moved
	var n int64
	var failed error
	flush := func() {
		if failed == nil && len(batch) > 0 {
			failed = s.move(seg, batch)
		}
		batch, n = nil, 0
	}
	_, _, err := scan(io.NewSectionReader(seg.f, 0, seg.size), seg.size, func(r rec, off, size int64) {
		if m, ok := s.keep(seg, r, off, size); ok && failed == nil {
			batch = append(batch, m)
			if n += m.size(); n >= group {
				flush()
			}
		}
	})
	flush()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	seg.use.Lock() // until those who read from it are done
	defer seg.use.Unlock()
	s.log.mu.Lock()
	delete(s.log.all, seg)
	s.log.mu.Unlock()
	remove(seg.f.Name())
	return seg.f.Close()
}

type moved struct {
	rec
	e *entry
}

// keep reports what of a record is still needed.
func (s *Store) keep(seg *segment, r rec, off, size int64) (moved, bool) {
	s.mu.Lock()
	p := s.pins[r.ref]
	e := s.blobs[r.ref]
	s.mu.Unlock()
	if p.seg != seg || p.until != r.until {
		r.until = 0
	}
	if r.pin || e == nil || e.seg != seg || e.off != off {
		r.pin = true
		return moved{r, nil}, r.until != 0
	}
	r.data = make([]byte, size)
	if _, err := seg.f.ReadAt(r.data, off); err != nil || Sum(r.data) != r.ref {
		_ = s.damaged(e, "found when its segment was compacted") // it logs
		return moved{rec{ref: r.ref, until: r.until, pin: true}, nil}, r.until != 0
	}
	return moved{r, e}, true
}

// move appends records again and points the index at them. It syncs, since the next
// thing may be that their first copies are deleted.
func (s *Store) move(seg *segment, batch []moved) error {
	recs := make([]rec, len(batch))
	for i, m := range batch {
		recs[i] = m.rec
	}
	b, at := s.log.append(recs, true)
	if b.err != nil {
		return b.err
	}
	s.mu.Lock()
	for i, m := range batch {
		if p := s.pins[m.ref]; m.until != 0 && p.seg == seg && p.until == m.until {
			seg.live -= recHead
			b.seg.live += recHead
			s.pins[m.ref] = pin{p.until, b.seg}
		}
		if m.e != nil && s.blobs[m.ref] == m.e && m.e.seg == seg {
			seg.live -= m.e.cost()
			b.seg.live += m.e.cost()
			m.e.seg, m.e.off = b.seg, b.offs[at+i]
		}
	}
	s.mu.Unlock()
	b.seg.late.Add(-int64(len(recs)))
	return nil
}
