package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/ledger/record"
)

// A Caller is who asks.
type Caller struct {
	ID    record.NodeID
	Roles Role
}

// A Mux finds the handler of a verb, after it has found that the caller may ask.
// Register everything before serving; then it is safe for concurrent use.
type Mux struct {
	// Roles returns what a peer is to this mesh.
	Roles func(record.NodeID) Role
	// Owner returns who owns an object. Nil means that nobody owns anything.
	Owner func(context.Context, record.Ref) (record.NodeID, error)

	handlers map[string]handler
	held     atomic.Int64 // bytes of large requests in hand
}

type handler func(ctx context.Context, c Caller, body cbor.RawMessage, send func(any) error) error

// Handle answers v with one reply.
func Handle[Q, R any](m *Mux, v Verb[Q, R], f func(context.Context, Caller, Q) (R, error)) {
	HandleStream(m, v, func(ctx context.Context, c Caller, q Q, send func(R) error) error {
		r, err := f(ctx, c, q)
		if err != nil {
			return err
		}
		return send(r)
	})
}

// HandleStream answers v with as many replies as f sends. The context ends when the
// caller leaves.
func HandleStream[Q, R any](m *Mux, v Verb[Q, R], f func(ctx context.Context, c Caller, q Q, send func(R) error) error) {
	if m.handlers == nil {
		m.handlers = map[string]handler{}
	}
	m.handlers[v.name] = func(ctx context.Context, c Caller, body cbor.RawMessage, send func(any) error) error {
		var q Q
		if err := record.Decode(body, &q); err != nil {
			return &Error{Code: Invalid, Text: v.name + ": " + err.Error()}
		}
		c.Roles |= m.owns(ctx, c.ID, q)
		if !allowed(v.may, c.Roles) {
			return &Error{Code: Denied, Text: fmt.Sprintf("%s: not allowed for %s", v.name, c.ID.Short())}
		}
		return f(ctx, c, q, func(r R) error { return send(r) })
	}
}

// Bounds of the memory that requests take together. Strangers open a thousand streams
// a connection, and a large request may take its time.
const (
	large   = 64 << 10
	maxHeld = 256 << 20
)

// patience is how long a stream may take to bring its request.
const patience = 10 * time.Second

// Serve answers one stream; it is a mesh.Handler.
func (m *Mux) Serve(ctx context.Context, from record.NodeID, s io.ReadWriteCloser) {
	defer s.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := bufio.NewReaderSize(s, 4096)
	late := time.AfterFunc(patience, func() { hurry(s) })
	defer late.Stop()
	var (
		req  request
		head [1]byte
	)
	_, err := io.ReadFull(in, head[:])
	if err == nil && head[0] != version {
		writeFrame(s, nil, reply{Err: &Error{Code: Invalid, Text: fmt.Sprintf("protocol version %d: this node speaks %d", head[0], version),
			Next: "use the same release on both sides"}, End: true})
		return
	}
	n := 0
	if err == nil {
		n, err = readLength(in)
	}
	if n > large {
		defer m.held.Add(-int64(n))
		if m.held.Add(int64(n)) > maxHeld {
			writeFrame(s, nil, reply{Err: &Error{Code: Unavailable, Text: "this node has too many large requests in hand", Next: "try again"}, End: true})
			return
		}
	}
	if err == nil {
		err = readBody(in, n, &req)
	}
	if !late.Stop() || err != nil {
		return
	}
	gone := make(chan struct{})
	go func() { // a caller says nothing more: what comes is his leaving
		defer close(gone)
		in.ReadByte()
		cancel()
	}()
	m.reply(ctx, from, req, s)
	s.Close()
	<-gone
}

func (m *Mux) reply(ctx context.Context, from record.NodeID, req request, s io.Writer) {
	h, ok := m.handlers[req.Verb]
	if !ok {
		writeFrame(s, nil, reply{Err: &Error{Code: Invalid, Text: fmt.Sprintf("this node does not answer %.40q", req.Verb)}, End: true})
		return
	}
	send := func(v any) error {
		b, err := record.Encode(v)
		if err != nil {
			return err
		}
		return writeFrame(s, nil, reply{Body: b})
	}
	if err := h(ctx, Caller{from, m.Roles(from)}, req.Body, send); err != nil {
		writeFrame(s, nil, reply{Err: asError(err), End: true})
		return
	}
	writeFrame(s, nil, reply{End: true})
}

func (m *Mux) owns(ctx context.Context, from record.NodeID, q any) Role {
	o, ok := q.(Owned)
	if !ok || m.Owner == nil {
		return 0
	}
	if id, err := m.Owner(ctx, o.Object()); err != nil || id != from {
		return 0
	}
	return Owner
}
