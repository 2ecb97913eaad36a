package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
)

// refs names what the run has written.
func (r *run) refs() []record.Ref {
	var refs []record.Ref
	for _, b := range r.outputs {
		refs = append(refs, b.Ref)
	}
	return refs
}

// deliver hands over what a run came to and returns its receipt. All that a restart
// would need is on disk first, in syncs beside each other: nobody is told of a receipt
// that a crash could take back.
func (p *Provider) deliver(ctx context.Context, l *lease, gateway record.NodeID, r record.Receipt, outputs []record.Ref, sealed []byte) (wire.LeaseEvent, error) {
	ran, until := p.now(), (p.now() + l.job.Value.Retention).WholeHour()
	var (
		wg           sync.WaitGroup
		kept, pinned error
	)
	wg.Go(func() { _, kept = p.cfg.Blobs.PutAll(until, sealed) })
	if len(outputs) > 0 {
		wg.Go(func() { pinned = p.cfg.Blobs.PinAll(until, outputs...) })
	}
	if err := p.journal.write(note{Lease: l.signed, Job: l.job, Receipt: &r, Outputs: outputs, At: ran}); err != nil {
		p.cfg.Log.Warn("the receipt would not outlive a restart", "lease", l.signed.Ref(), "err", err)
	}
	l.mu.Lock()
	l.noted = true
	l.mu.Unlock()
	wg.Wait()
	if err := errors.Join(kept, pinned); err != nil {
		return wire.LeaseEvent{}, lost(fmt.Errorf("keep the outputs: %w", err))
	}
	return p.handOver(ctx, l, gateway, r, outputs, sealed)
}

// handOver puts the outputs on a second holder, the gateway, before the receipt says
// that they are there.
func (p *Provider) handOver(ctx context.Context, l *lease, gateway record.NodeID, r record.Receipt, outputs []record.Ref, sealed []byte) (wire.LeaseEvent, error) {
	begin := p.now()
	l.mu.Lock()
	l.outputs = append(outputs[:len(outputs):len(outputs)], r.Outputs)
	send := l.outputs
	l.mu.Unlock()
	if len(sealed) <= maxInline {
		send = outputs
	} else {
		sealed = nil
	}
	if gateway != p.cfg.Key.ID() { // else it is one store
		err := p.push(ctx, send, gateway)
		if noRoom(err) { // he pays all the same, and fetches them once he can
			p.cfg.Log.Warn("outputs stay here", "gateway", gateway.Short(), "err", err)
			l.mu.Lock()
			l.unsent = true
			l.mu.Unlock()
		} else if err != nil {
			return wire.LeaseEvent{}, lost(err)
		}
	}
	r.Phases.Return = p.now() - begin
	s, err := record.Sign(p.cfg.Key, r)
	return wire.LeaseEvent{Receipt: &s, Manifest: sealed}, err
}

// noRoom reports whether a gateway has refused a blob for want of room.
func noRoom(err error) bool { return errors.Is(err, blob.ErrFull) || errors.Is(err, blob.ErrQuota) }

// leave notes that the node's orderly stop ended a run: should its gateway ask for the
// lease again, which it does where both were stopped, the run begins anew under it, and
// the job has lost no attempt.
func (p *Provider) leave(ctx context.Context, l *lease) {
	l.mu.Lock()
	noted := l.noted
	l.mu.Unlock()
	if noted || ctx.Err() == nil || context.Cause(ctx) == errStopped || gone(ctx) != errClosing {
		return
	}
	if err := p.journal.write(note{Lease: l.signed, Job: l.job, Left: true, At: p.now()}); err != nil {
		p.cfg.Log.Warn("a run cannot go on after the restart", "lease", l.signed.Ref(), "err", err)
	}
}

// resumeLocked goes on with a lease from before a restart: its receipt is told again, or
// its run begins anew.
func (p *Provider) resumeLocked(c wire.Caller, q wire.StartRequest, n note) (*lease, error) {
	switch {
	case n.Job.Value.Delegate != c.ID:
		return nil, wire.Refuse(wire.Denied, "start: another gateway's lease")
	case p.life == nil:
		return nil, wire.Refuse(wire.Unavailable, "start: the node is starting")
	case p.life.Err() != nil || p.closed:
		return nil, lost(errClosing)
	case n.Receipt == nil && !n.Left:
		return nil, wire.Refuse(wire.NotFound, "start: the run was lost with the node")
	case n.Receipt == nil && p.claim.State == policy.Reclaimed:
		return nil, lost(fmt.Errorf("%w: %s", errReclaimed, p.claim.Why))
	}
	delete(p.notes, n.Lease.Ref())
	if n.Receipt == nil {
		return p.beginLocked(n.Lease, n.Job, p.fraction(n.Job.Value), func(ctx context.Context, l *lease) (wire.LeaseEvent, error) {
			// Once only, should the run be what ends the node without order.
			if err := p.journal.write(note{Lease: n.Lease, Job: n.Job, At: p.now()}); err != nil {
				return wire.LeaseEvent{}, lost(err)
			}
			return p.work(ctx, l, q, c.ID)
		}), nil
	}
	return p.beginLocked(n.Lease, n.Job, 0, func(ctx context.Context, l *lease) (wire.LeaseEvent, error) {
		sealed, err := p.cfg.Blobs.Bytes(n.Receipt.Outputs, maxManifest)
		if err != nil {
			return wire.LeaseEvent{}, lost(fmt.Errorf("the run was lost with the node: %w", err))
		}
		return p.handOver(ctx, l, c.ID, *n.Receipt, n.Outputs, sealed)
	}), nil
}

const maxManifest = 16 << 20 // bytes, sealed
