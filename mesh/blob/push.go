package blob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"idlemesh/ledger/record"
)

// Push sends a blob to a peer, unless the peer says that he has it. progress, which
// may be nil, is called with the bytes that are there so far. The peer has it on disk
// when Push returns; a Push that was cut goes on where it was when it is called again.
func (s *Store) Push(ctx context.Context, ref record.Ref, to record.NodeID, progress func(int64)) error {
	return s.PushAll(ctx, []record.Ref{ref}, to, progress)
}

// PushAll pushes blobs in one stream, which saves round trips and syncs when they are
// small. progress gets the bytes of all of them.
func (s *Store) PushAll(ctx context.Context, refs []record.Ref, to record.NodeID, progress func(int64)) error {
	if progress == nil {
		progress = ignore
	}
	var before int64
	for len(refs) > 0 {
		n := min(len(refs), maxOffer)
		done, err := s.pushBatch(ctx, refs[:n], to, func(n int64) { progress(before + n) })
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("push blobs to %s: %w", to.Short(), err)
		}
		before += done
		refs = refs[n:]
	}
	return nil
}

// pushBatch returns the blobs' size.
func (s *Store) pushBatch(ctx context.Context, refs []record.Ref, to record.NodeID, progress func(int64)) (int64, error) {
	q := request{Version: version, Op: opPut}
	for _, ref := range refs {
		e, ok := s.lookup(ref)
		if !ok {
			return 0, fmt.Errorf("%w: %s", ErrMissing, ref)
		}
		q.Offers = append(q.Offers, offer{Ref: ref, Size: e.size})
	}
	c, err := s.dial(ctx, to)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := writeFrame(c, q); err != nil {
		return 0, err
	}
	var a answer
	if err := readAnswer(c, &a); err != nil {
		return 0, err
	}
	if len(a.Fates) != len(refs) {
		return 0, fmt.Errorf("peer answers %d offers, %d were made", len(a.Fates), len(refs))
	}
	return s.sendWanted(c, q.Offers, a.Fates, progress)
}

func readAnswer(c io.Reader, a *answer) error {
	if err := readFrame(c, a); err != nil {
		return err
	}
	return a.Status.err(a.Text)
}

func (s *Store) sendWanted(c *link, offers []offer, fates []fate, progress func(int64)) (int64, error) {
	var done int64
	sent := false
	for i, o := range offers {
		f := fates[i]
		if err := f.Status.err(""); err != nil {
			return 0, fmt.Errorf("%s: %w", o.Ref, err)
		}
		if f.Status == wanted {
			if f.From < 0 || f.From > groupsOf(o.Size) {
				return 0, fmt.Errorf("peer wants group %d of %d", f.From, groupsOf(o.Size))
			}
			sent = true
			if err := s.sendOne(c, o, f.From, func(n int64) { progress(done + n) }); err != nil {
				return 0, err
			}
		}
		done += o.Size
		progress(done)
	}
	if !sent {
		return done, nil
	}
	var a answer
	if err := readAnswer(c, &a); err != nil {
		return 0, err
	}
	return done, nil
}

func (s *Store) sendOne(c *link, o offer, from int64, progress func(int64)) error {
	r, err := s.Get(o.Ref)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := send(c, r, from, progress); err != nil {
		// The peer may have said why before it hung up.
		var a answer
		if readFrame(c, &a) == nil {
			err = errors.Join(a.Status.err(a.Text), err)
		}
		return err
	}
	return nil
}
