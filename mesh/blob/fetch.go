package blob

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"idlemesh/ledger/record"
)

// Fetch brings a blob of that size here, unless it is here; -1 is any size up to
// Config.MaxBlob. It asks the holders in turn, goes on where a transfer was cut, with
// the same holder or the next, now or in a later Fetch, and believes none of them:
// each group of 1 MiB is checked as it comes. progress, which may be nil, is called
// with the bytes that are here so far. Fetches of one blob at a time share one transfer.
func (s *Store) Fetch(ctx context.Context, ref record.Ref, size int64, progress func(int64), holders ...record.NodeID) error {
	if progress == nil {
		progress = ignore
	}
	if size > s.cfg.MaxBlob {
		return fmt.Errorf("fetch blob: %w", errTooLarge(s.cfg.MaxBlob))
	}
	for {
		if s.holds(ref) {
			return nil
		}
		end, err := s.begin(ctx, ref)
		if err != nil {
			return fmt.Errorf("fetch blob: %w", err)
		}
		if end == nil {
			continue
		}
		err = s.fetchAny(ctx, ref, size, progress, holders)
		end()
		if err != nil {
			return fmt.Errorf("fetch blob %s: %w", ref, err)
		}
		return nil
	}
}

// fetchAny asks one holder after the other, and all of them again as long as the
// blob grows.
func (s *Store) fetchAny(ctx context.Context, ref record.Ref, size int64, progress func(int64), holders []record.NodeID) error {
	if s.holds(ref) { // another's transfer ended in between
		return nil
	}
	var failed []error
	holders = slices.Clone(holders)
	for i := 0; i < len(holders); {
		before := s.partOf(ref)
		err := s.fetchFrom(ctx, ref, size, progress, holders[i])
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrFull):
			return err
		}
		failed = append(failed, fmt.Errorf("holder %s: %w", holders[i].Short(), err))
		if i++; errors.Is(err, errBytes) {
			i--
			holders = slices.Delete(holders, i, i+1) // not asked again
		}
		// It grew; or it shrank, since what came before was damaged here.
		if s.partOf(ref) != before {
			i, failed = 0, failed[:0]
		}
	}
	if len(failed) == 0 {
		return fmt.Errorf("%w, and no holder is known", ErrMissing)
	}
	return errors.Join(failed...)
}

func (s *Store) partOf(ref record.Ref) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parts[ref]; p != nil {
		return p.have
	}
	return 0
}

func (s *Store) fetchFrom(ctx context.Context, ref record.Ref, size int64, progress func(int64), from record.NodeID) error {
	c, err := s.dial(ctx, from)
	if err != nil {
		return err
	}
	defer c.Close()
	have := s.partOf(ref) / group
	if err := writeFrame(c, request{version, opGet, []offer{{ref, size, have}}}); err != nil {
		return err
	}
	var a answer
	if err := readFrame(c, &a); err != nil {
		return err
	}
	if err := a.Status.err(a.Text); err != nil {
		return err
	}
	if a.Size < 0 || size >= 0 && a.Size != size || a.Size > s.cfg.MaxBlob {
		return fmt.Errorf("holder has a blob of %d bytes, want %d", a.Size, size)
	}
	if a.Size <= small {
		b, err := receiveSmall(c, ref, a.Size)
		if err != nil {
			return err
		}
		// No sync: after a crash it is fetched again, unless a pin has synced it since.
		if err := s.putSmall([]rec{{ref: ref, data: b}}, false); err != nil {
			return full(err)
		}
		progress(a.Size)
		return nil
	}
	return s.fetchLarge(c, ref, a.Size, progress)
}

func (s *Store) fetchLarge(c *link, ref record.Ref, size int64, progress func(int64)) error {
	leaves, err := receiveLeaves(c, ref, size)
	if err != nil {
		return err
	}
	d, err := s.resume(ref, size)
	if err != nil {
		return full(err)
	}
	defer d.discard()
	if err := s.trim(d, leaves); err != nil {
		return err // the next round begins where the good groups end
	}
	progress(d.have)
	return s.receive(c, d, leaves, size, progress)
}
