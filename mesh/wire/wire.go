// Package wire is the protocol: every verb that nodes answer, its body and reply,
// and who may ask it, in one table.
//
// A peer is whom its TLS key says. Verbs that change something carry a signed
// record, which the ledger can keep; verbs that only ask carry no signature of
// their own. Mux refuses what the table does not allow before a handler sees it.
package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/ledger/record"
)

// Protocol is the ALPN that verbs travel on.
const Protocol = "idlemesh/1"

// An Opener opens streams to nodes; *mesh.Endpoint is one.
type Opener interface {
	Open(ctx context.Context, to record.NodeID, proto string) (io.ReadWriteCloser, error)
}

// A Verb is a request with body Q that is answered by one or more R.
type Verb[Q, R any] struct {
	name string
	may  Role
}

// Name returns the verb's name on the wire.
func (v Verb[Q, R]) Name() string { return v.name }

type request struct {
	Verb  string          `cbor:"1,keyasint"`
	Body  cbor.RawMessage `cbor:"2,keyasint"`
	Trace string          `cbor:"3,keyasint,omitempty"` // W3C traceparent
}

type reply struct {
	Body cbor.RawMessage `cbor:"1,keyasint,omitempty"`
	Err  *Error          `cbor:"2,keyasint,omitempty"`
	End  bool            `cbor:"3,keyasint,omitempty"` // nothing follows
}

// Call asks v of a node and returns its one answer.
func Call[Q, R any](ctx context.Context, o Opener, to record.NodeID, v Verb[Q, R], q Q) (R, error) {
	for r, err := range Stream(ctx, o, to, v, q) {
		return r, err
	}
	var none R
	return none, &Error{Code: Internal, Text: v.name + ": no answer"}
}

// Stream asks v of a node and yields its answers as they come. Leaving the loop or
// ending ctx tells the node to stop. A refusal, or a peer that cannot be reached
// (Unavailable), comes as an *Error.
func Stream[Q, R any](ctx context.Context, o Opener, to record.NodeID, v Verb[Q, R], q Q) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		s, err := o.Open(ctx, to, Protocol)
		if err != nil {
			if ctx.Err() == nil {
				err = &Error{Code: Unavailable, Text: fmt.Sprintf("%s: %v", v.name, err)}
			}
			yield(none, err)
			return
		}
		defer s.Close()
		stop := context.AfterFunc(ctx, func() { hurry(s) })
		defer stop()
		if err := ask(s, v, q); err != nil {
			yield(none, broken(ctx, v.name, err))
			return
		}
		for {
			r, end, err := answer[R](ctx, s, v.name)
			if end || !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// hurry makes what is blocked on s return at once. Closing it would not do: a stream
// must not be closed while it is written to.
func hurry(s io.Closer) {
	if d, ok := s.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Unix(1, 0))
		return
	}
	s.Close()
}

func ask[Q, R any](s io.Writer, v Verb[Q, R], q Q) error {
	body, err := record.Encode(q)
	if err != nil {
		return err
	}
	return writeFrame(s, []byte{version}, request{Verb: v.name, Body: body})
}

// answer reads one reply; end means that there was none left.
func answer[R any](ctx context.Context, s io.Reader, verb string) (r R, end bool, err error) {
	var rep reply
	if err := readFrame(s, &rep); err != nil {
		return r, false, broken(ctx, verb, err)
	}
	if rep.Err != nil {
		return r, false, rep.Err
	}
	if rep.Body == nil {
		return r, true, nil
	}
	if err := record.Decode(rep.Body, &r); err != nil {
		return r, false, &Error{Code: Internal, Text: fmt.Sprintf("%s: answer: %v", verb, err)}
	}
	return r, false, nil
}

// broken says what a cut stream means: the caller's own end, or the peer's.
func broken(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the peer hung up")
	}
	return &Error{Code: Unavailable, Text: fmt.Sprintf("%s: %v", verb, err)}
}
