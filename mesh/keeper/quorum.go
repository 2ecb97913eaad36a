package keeper

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/wire"
)

// A Quorum orders and signs what several keepers keep; *quorum.Member is one.
type Quorum interface {
	ledger.Orderer
	// Leader names who orders now, if one does.
	Leader() (record.NodeID, bool)
	// Fresh returns once the ledger has all that was acknowledged by now.
	Fresh(context.Context) error
	// Head returns the newest tree head that counts.
	Head(context.Context) tree.Head
	// HeadAt returns the one of an older size.
	HeadAt(context.Context, uint64) (tree.Head, error)
	// Prove proves an entry under such a head.
	Prove(context.Context, uint64) (tree.Proof, error)
}

// alone is the quorum of a mesh with one keeper: its ledger.
type alone struct {
	*ledger.Ledger
	id record.NodeID
}

func (a alone) Leader() (record.NodeID, bool)  { return a.id, true }
func (a alone) Fresh(context.Context) error    { return nil }
func (a alone) Head(context.Context) tree.Head { return a.Ledger.Head() }
func (a alone) HeadAt(_ context.Context, size uint64) (tree.Head, error) {
	return a.Ledger.HeadAt(size)
}
func (a alone) Prove(_ context.Context, i uint64) (tree.Proof, error) {
	return a.Ledger.Prove(i)
}

// promised is how long a keeper gives itself until a tree head that counts is there.
const promised = 60_000

// promise gives this keeper's word for the entries that were just taken.
func (k *Keeper) promise(entries []record.Raw, rep wire.Appended) (record.Raw, error) {
	p := tree.Promise{Mesh: k.cfg.Mesh, Size: rep.Size}
	for i, r := range rep.Results {
		if r.Err == nil && !r.Known { // what was there already may have had another number
			p.Entries = append(p.Entries, tree.Promised{Entry: sha256.Sum256(entries[i]), Index: r.Index})
			p.Deadline = max(p.Deadline, r.Time+promised)
		}
	}
	if k.cfg.Key == nil || len(p.Entries) == 0 {
		return nil, nil
	}
	s, err := record.Sign(k.cfg.Key, p)
	return s.Raw(), err
}

const (
	// patience is how long an append waits for somebody to lead. It is shorter than what
	// callers give a keeper, so that they hear of it.
	patience = 4 * time.Second
	// fresh is how long a reader waits for what others have; then it gets what is here.
	fresh = time.Second
	again = 20 * time.Millisecond
)

// order has the entries ordered by whoever leads, here or elsewhere. When a leader is
// lost under them, they go to the next: their idempotency keys let them stand once.
func (k *Keeper) order(ctx context.Context, q wire.AppendRequest) (rep wire.Appended, err error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		leader, ok := k.cfg.Quorum.Leader()
		switch {
		case ok && leader == k.cfg.ID:
			rep, err = k.commitHere(ctx, q)
		case ok && !q.Direct:
			rep, err = k.passOn(ctx, leader, q)
		default:
			err = ledger.ErrUnordered
		}
		if err == nil || q.Direct || !errors.Is(err, ledger.ErrUnordered) && !wire.Is(err, wire.Unavailable) {
			return rep, err
		}
		select {
		case <-time.After(again):
		case <-late.C:
			return rep, err
		case <-ctx.Done():
			return rep, err
		}
	}
}

// passOn asks the leader, and answers once this keeper has what it acknowledged: who
// writes here reads here.
func (k *Keeper) passOn(ctx context.Context, leader record.NodeID, q wire.AppendRequest) (wire.Appended, error) {
	one, cancel := context.WithTimeoutCause(ctx, patience/2, wire.Refuse(wire.Unavailable, "append: the leader is silent"))
	defer cancel()
	one, lost := context.WithCancelCause(one)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		k.watch(one, leader, lost)
	}()
	defer func() { lost(nil); <-watched }()
	rep, err := wire.Call(one, k.cfg.Open, leader, wire.Append, wire.AppendRequest{Entries: q.Entries, Direct: true})
	if err != nil {
		return rep, err
	}
	_ = k.ledger.Await(one, rep.Size) // if it takes too long, the entries are durable all the same
	return rep, nil
}

// watch calls lost once another keeper leads, until ctx ends: a leader that was killed
// does not say so.
func (k *Keeper) watch(ctx context.Context, leader record.NodeID, lost context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if id, ok := k.cfg.Quorum.Leader(); ok && id != leader {
			lost(wire.Refuse(wire.Unavailable, "append: another keeper leads"))
			return
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

// catchUp waits until what is read here is as new as anywhere. Where nobody leads, the
// reader gets what this keeper has: a log that once was.
func (k *Keeper) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, fresh)
	defer cancel()
	_ = k.cfg.Quorum.Fresh(ctx)
}
