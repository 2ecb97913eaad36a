package cli

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"

	"idlemesh/ledger/record"
)

// A spout prints a stream that comes in pieces, live and perhaps more than once, and
// then whole: each byte is printed once and in order.
type spout struct {
	w    io.Writer
	n    uint64    // bytes printed
	sum  hash.Hash // of them
	lost bool      // a piece is missing: the rest waits for the whole
}

func newSpout(w io.Writer) *spout { return &spout{w: w, sum: sha256.New()} }

// take prints what is new of a piece at offset.
func (s *spout) take(offset uint64, piece []byte) error {
	switch end := offset + uint64(len(piece)); {
	case offset > s.n:
		s.lost = true
	case end <= s.n || end < offset:
		return nil
	}
	if s.lost {
		return nil
	}
	return s.print(piece[s.n-offset:])
}

func (s *spout) print(b []byte) error {
	n, err := s.w.Write(b)
	s.n += uint64(n)
	s.sum.Write(b[:n])
	return err
}

// finish prints what is left of the whole. It returns false when the whole does not
// start with what was printed: the task was run again and said something else.
func (s *spout) finish(ctx context.Context, b record.Blob, read func(context.Context, record.Blob, *tail) error) (bool, error) {
	if b.Size == s.n && s.n == 0 {
		return true, nil
	}
	tail := &tail{spout: s, skip: s.n, sum: sha256.New()}
	if err := read(ctx, b, tail); err != nil {
		return true, err
	}
	return tail.skip == 0 && !tail.differs, nil
}

// A tail passes on a stream behind what its spout has printed, as long as the
// stream starts like it.
type tail struct {
	spout   *spout
	skip    uint64
	sum     hash.Hash
	differs bool
}

func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	if t.skip > 0 {
		m := min(t.skip, uint64(len(b)))
		t.sum.Write(b[:m])
		t.skip -= m
		b = b[m:]
		if t.skip == 0 {
			t.differs = string(t.sum.Sum(nil)) != string(t.spout.sum.Sum(nil))
		}
	}
	if len(b) == 0 || t.differs {
		return n, nil
	}
	return n, t.spout.print(b)
}
