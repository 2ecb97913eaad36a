package wire

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"idlemesh/ledger/record"
)

// Keepers are the nodes that keep one mesh's log. Any of them will do, so a question goes
// to the one that answered last, and on to another when that one is silent. It is safe
// for concurrent use.
type Keepers struct {
	open Opener
	ids  []record.NodeID
	last atomic.Int32 // index of the one that answered last
}

// share is how long a keeper may be silent while there is another to ask: longer than it
// takes to elect a leader, when the one that is asked waits for that.
const share = 1500 * time.Millisecond

// KeepersOf returns m's keepers, reached through o. The caller's own node is asked
// first, where it is one.
func KeepersOf(m record.Mesh, o Opener, me record.NodeID) *Keepers {
	k := &Keepers{open: o}
	for _, x := range m.Keepers {
		k.ids = append(k.ids, x.Key.ID())
	}
	k.last.Store(int32(max(0, slices.Index(k.ids, me))))
	return k
}

// Ask asks v of a keeper and returns its answer: the first that is not Unavailable.
func Ask[Q, R any](ctx context.Context, k *Keepers, v Verb[Q, R], q Q) (R, error) {
	for r, err := range AskStream(ctx, k, v, q) {
		return r, err
	}
	var none R
	return none, &Error{Code: Internal, Text: v.name + ": no answer"}
}

// AskStream asks v of a keeper and yields its answers as they come. Another is asked
// only as long as none has come. When no other can answer, one that was only slow is
// given all the time that ctx leaves.
func AskStream[Q, R any](ctx context.Context, k *Keepers, v Verb[Q, R], q Q) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		first, slow := int(k.last.Load()), -1
		for n := range k.ids {
			at, more := (first+n)%len(k.ids), n+1 < len(k.ids) || slow >= 0
			settled, silent := askOne(ctx, k, at, more, v, q, yield)
			if settled {
				return
			}
			if silent && slow < 0 {
				slow = at
			}
		}
		if slow >= 0 {
			askOne(ctx, k, slow, false, v, q, yield)
		}
	}
}

var errSilent = errors.New("the keeper is silent")

// askOne asks one keeper, and reports whether that settles it, or was cut short because
// there are more to ask.
func askOne[Q, R any](ctx context.Context, k *Keepers, at int, more bool, v Verb[Q, R], q Q, yield func(R, error) bool) (settled, silent bool) {
	one, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if more {
		late := time.AfterFunc(share, func() { cancel(errSilent) })
		defer late.Stop()
		whole := yield
		yield = func(r R, err error) bool { late.Stop(); return whole(r, err) }
	}
	for r, err := range Stream(one, k.open, k.ids[at], v, q) {
		silent = errors.Is(context.Cause(one), errSilent)
		if err != nil && more && !settled && ctx.Err() == nil && (silent || Is(err, Unavailable)) {
			return false, silent
		}
		if settled = true; err == nil {
			k.last.Store(int32(at))
		}
		if !yield(r, err) || err != nil {
			return true, false
		}
	}
	return true, false // it had nothing to say
}

// A QuorumRequest asks a keeper what it knows of all keepers of the mesh file.
type QuorumRequest struct{}

// A KeeperInfo is what is known of one.
type KeeperInfo struct {
	ID     record.NodeID `cbor:"1,keyasint" json:"node"`
	Member bool          `cbor:"2,keyasint,omitempty" json:"member"` // it gets every entry
	Votes  bool          `cbor:"3,keyasint,omitempty" json:"votes"`  // and counts
	Leads  bool          `cbor:"4,keyasint,omitempty" json:"leads"`  // and orders
	Up     bool          `cbor:"5,keyasint,omitempty" json:"up"`     // it answers
	Size   uint64        `cbor:"6,keyasint,omitempty" json:"entries"`
	Ahead  record.Millis `cbor:"7,keyasint,omitempty" json:"clock_ahead_ms"` // of the answering keeper's
}

// A Seating makes a keeper that the mesh file names a member of the quorum, or ends
// that. A keeper signs it.
type Seating struct {
	Mesh   record.Ref    `cbor:"1,keyasint"`
	Keeper record.NodeID `cbor:"2,keyasint"`
	Remove bool          `cbor:"3,keyasint,omitempty"`
	At     record.Millis `cbor:"4,keyasint"`
}

// Type implements record.Record.
func (Seating) Type() record.Type { return "idlemesh/seating" }

// seatTime is how old, or ahead, a Seating may be.
const seatTime = 5 * 60_000

// Check refuses a Seating that is not by a keeper of mesh, or not of now.
func (r SeatRequest) Check(mesh record.Signed[record.Mesh], now record.Millis) error {
	s := r.Seating
	_, ok := mesh.Value.Keeper(s.By())
	switch {
	case !ok:
		return Refuse(Denied, "seat: "+s.By().Short()+" is not a keeper of this mesh")
	case s.Value.Mesh != mesh.Ref():
		return Refuse(Denied, "seat: the order is for another mesh")
	case s.Value.At < now-seatTime || s.Value.At > now+seatTime:
		return &Error{Code: Denied, Text: "seat: the order is not of now", Next: "set the clocks"}
	}
	return nil
}

// A SeatRequest brings a Seating.
type SeatRequest struct {
	Seating record.Signed[Seating] `cbor:"1,keyasint"`
	// Direct is set by a keeper that passes it on to the leader.
	Direct bool `cbor:"2,keyasint,omitempty"`
}
