package blob

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"idlemesh/ledger/record"
)

// A stream carries one request. Frames are a length of four bytes and canonical
// CBOR; leaves and blobs' bytes follow them bare, since both sides know how many.
//
//	get:  request → answer{size} leaves bytes
//	put:  request → answer{an offer's fate each} → per wanted blob: leaves bytes → answer
const (
	version  = 1
	maxFrame = 256 << 10
	maxOffer = 4096 // blobs in one put
)

const (
	opGet = 1
	opPut = 2
)

type request struct {
	Version uint8   `cbor:"1,keyasint"`
	Op      uint8   `cbor:"2,keyasint"`
	Offers  []offer `cbor:"3,keyasint"` // of a get, the one that is wanted
}

type offer struct {
	Ref  record.Ref `cbor:"1,keyasint"`
	Size int64      `cbor:"2,keyasint"` // of a get, -1 when unknown
	From int64      `cbor:"3,keyasint"` // of a get, the group to begin with
}

type answer struct {
	Status status `cbor:"1,keyasint"`
	Size   int64  `cbor:"2,keyasint"`           // of a get
	Fates  []fate `cbor:"3,keyasint,omitempty"` // of a put
	Text   string `cbor:"4,keyasint,omitempty"`
}

// A fate says what the receiver does with an offered blob.
type fate struct {
	Status status `cbor:"1,keyasint"`
	From   int64  `cbor:"2,keyasint"` // the group to begin with, when wanted
}

type status uint8

const (
	fine    status = iota // the peer has it
	wanted                // send it
	missing               // the peer has it not
	denied
	noRoom
	refused // for the reason in the text
	overQuota
)

// err returns what the caller may branch on.
func (s status) err(text string) error {
	switch s {
	case fine, wanted:
		return nil
	case missing:
		return ErrMissing
	case denied:
		return ErrDenied
	case noRoom:
		return ErrFull
	case overQuota:
		return ErrQuota
	}
	return fmt.Errorf("peer refuses: %q", text)
}

// statusOf is what a peer is told of an error.
func statusOf(err error) status {
	switch {
	case err == nil:
		return fine
	case errors.Is(err, ErrMissing):
		return missing
	case errors.Is(err, ErrFull), isNoSpace(err):
		return noRoom
	}
	return refused
}

func writeFrame(w io.Writer, v any) error {
	b, err := record.Encode(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...))
	return err
}

func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return fmt.Errorf("frame of %d bytes, the most is %d", n, maxFrame)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return record.Decode(b, v)
}

func readRequest(r io.Reader) (request, error) {
	var q request
	if err := readFrame(r, &q); err != nil {
		return q, err
	}
	switch {
	case q.Version != version:
		return q, fmt.Errorf("version %d, this node speaks %d", q.Version, version)
	case q.Op != opGet && q.Op != opPut:
		return q, fmt.Errorf("unknown request %d", q.Op)
	case len(q.Offers) == 0, q.Op == opGet && len(q.Offers) > 1, len(q.Offers) > maxOffer:
		return q, fmt.Errorf("%d blobs in a request, the most is %d", len(q.Offers), maxOffer)
	}
	for _, o := range q.Offers {
		if o.Size < 0 && q.Op == opPut || o.From < 0 || o.From > groupsOf(o.Size) && o.Size >= 0 {
			return q, fmt.Errorf("blob of %d bytes from group %d", o.Size, o.From)
		}
	}
	return q, nil
}

// A link is a stream that breaks when it stands still, or when its context ends.
type link struct {
	io.ReadWriteCloser
	stall time.Duration
	timer *time.Timer
	stop  func() bool
}

func newLink(ctx context.Context, c io.ReadWriteCloser, stall time.Duration) *link {
	// A stream of QUIC must not be closed while it is written to; its deadline may be set.
	cut := func() { c.Close() }
	if d, ok := c.(interface{ SetDeadline(time.Time) error }); ok {
		cut = func() { _ = d.SetDeadline(time.Unix(1, 0)) }
	}
	return &link{c, stall, time.AfterFunc(stall, cut), context.AfterFunc(ctx, cut)}
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.ReadWriteCloser.Read(p)
	l.timer.Reset(l.stall)
	return n, err
}

// Write moves at most 64 KiB at once, so that a slow peer is not taken for a dead one.
func (l *link) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = l.ReadWriteCloser.Write(p[n:min(len(p), n+64<<10)])
		n += m
		l.timer.Reset(l.stall)
	}
	return n, err
}

func (l *link) Close() error {
	l.timer.Stop()
	l.stop()
	return l.ReadWriteCloser.Close()
}

// dial opens a stream to a peer.
func (s *Store) dial(ctx context.Context, to record.NodeID) (*link, error) {
	if s.opener == nil {
		return nil, errors.New("this store cannot reach other nodes")
	}
	c, err := s.opener.Open(ctx, to, Protocol)
	if err != nil {
		return nil, err
	}
	return newLink(ctx, c, s.cfg.Stall), nil
}
