package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

// A lease is one run: its events go to whoever listens, its end is kept for those
// who come later. Starting it twice is listening to it twice.
type lease struct {
	signed record.Signed[record.Lease]
	job    record.Signed[record.Job]
	cancel context.CancelCauseFunc
	vram   uint64 // bytes of the device's that it has; on a processor zero is all

	mu      sync.Mutex
	last    *wire.LeaseEvent // newest progress
	spoke   time.Time        // when listeners had some last
	end     *wire.LeaseEvent
	err     error
	left    bool // the node closed before the end
	endedAt record.Millis
	told    bool         // somebody has heard the end
	unsent  bool         // the gateway had no room for the outputs
	noted   bool         // its receipt is in the journal
	outputs []record.Ref // that tenant and gateway may fetch
	ears    map[chan *wire.LeaseEvent]bool
	finish  chan struct{} // closed at the end
}

const (
	beatEvery  = 2 * time.Second
	hush       = 50 * time.Millisecond // between two tellings of progress
	keepFor    = 10 * 60_000           // milliseconds that a lease whose end was told answers
	keepUntold = 24 * 3_600_000        // milliseconds that one answers whose gateway is away
	maxEnded   = 4096                  // ended leases that answer
	maxInline  = 1 << 20               // bytes of a manifest that comes with its receipt; a larger one goes like an output
	ear        = 256                   // events that wait for one listener
)

var (
	errStopped = errors.New("stopped by the tenant")
	errClosing = errors.New("the node is closing")
)

// start runs a lease, or joins it when it runs or has run, and answers with its
// progress and, last, the receipt. The run goes on when the listener leaves.
func (p *Provider) start(ctx context.Context, c wire.Caller, q wire.StartRequest, send func(wire.LeaseEvent) error) error {
	l, err := p.lease(c, q)
	if err != nil {
		return err
	}
	events := make(chan *wire.LeaseEvent, ear)
	l.mu.Lock()
	if l.end == nil && l.err == nil {
		l.ears[events] = true
	}
	if l.last != nil { // for who comes late
		events <- l.last
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.ears, events)
		l.mu.Unlock()
	}()
	err = l.relay(ctx, events, send)
	if err != nil && !l.ended() {
		select {
		case p.again <- struct{}{}:
		default:
		}
	}
	return err
}

func (l *lease) relay(ctx context.Context, events chan *wire.LeaseEvent, send func(wire.LeaseEvent) error) error {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var sent *wire.LeaseEvent // progress
	for {
		var err error
		select {
		case e := <-events:
			if e.Channel == 0 {
				sent = e
			}
			err = send(*e)
		case <-beat.C:
			e := &wire.LeaseEvent{Beat: true}
			l.mu.Lock()
			if l.last != nil && l.last != sent { // it came too soon after another
				e, sent = l.last, l.last
			}
			l.mu.Unlock()
			err = send(*e)
		case <-ctx.Done():
			return ctx.Err()
		case <-l.finish:
			for len(events) > 0 && err == nil {
				err = send(*<-events)
			}
			if err == nil && l.left {
				return l.leave(ctx, send)
			}
			if err == nil && l.err == nil {
				err = send(*l.end)
			}
			l.mu.Lock()
			l.told = l.told || err == nil
			l.mu.Unlock()
			return errors.Join(err, l.err)
		}
		if err != nil {
			return err
		}
	}
}

// leave tells a listener that the node closes, and waits for him to hang up: what is on
// its way when the socket closes is lost.
func (l *lease) leave(ctx context.Context, send func(wire.LeaseEvent) error) error {
	err := send(wire.LeaseEvent{Lost: l.err.Error()})
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// farewell returns once nobody listens any more, or after a second.
func (p *Provider) farewell() {
	for range 50 {
		if !p.heard() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// heard reports whether anybody listens to a lease.
func (p *Provider) heard() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leases {
		l.mu.Lock()
		n := len(l.ears)
		l.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// lease finds the run of a lease, or begins it after the checks that a stranger's
// paper needs.
func (p *Provider) lease(c wire.Caller, q wire.StartRequest) (*lease, error) {
	ref, v := q.Lease.Ref(), q.Lease.Value
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.leases[ref]; l != nil {
		if q.Lease.By() != c.ID && l.job.Value.Delegate != c.ID {
			return nil, wire.Refuse(wire.Denied, "start: another gateway's lease")
		}
		return l, nil
	}
	if n, known := p.notes[ref]; known {
		return p.resumeLocked(c, q, n)
	}
	bid := v.Bid.Ref()
	h := p.holds[bid]
	if err := p.refuseLocked(q.Lease, h); err != nil {
		return nil, err
	}
	delete(p.holds, bid)
	return p.beginLocked(q.Lease, h.job, h.vram, func(ctx context.Context, l *lease) (wire.LeaseEvent, error) {
		return p.work(ctx, l, q, c.ID)
	}), nil
}

// beginLocked lets a lease, with so many bytes of the device's memory, be carried out by do.
func (p *Provider) beginLocked(signed record.Signed[record.Lease], job record.Signed[record.Job], vram uint64, do func(context.Context, *lease) (wire.LeaseEvent, error)) *lease {
	ctx, cancel := context.WithCancelCause(p.life)
	l := &lease{signed: signed, job: job, cancel: cancel, vram: vram, ears: map[chan *wire.LeaseEvent]bool{}, finish: make(chan struct{})}
	p.leases[signed.Ref()] = l
	p.running++
	p.vram += l.vram
	p.runs.Go(func() {
		defer cancel(nil)
		p.carryOut(ctx, l, do)
	})
	return l
}

// refuseLocked says why a lease of a held bid is not run.
func (p *Provider) refuseLocked(l record.Signed[record.Lease], h hold) error {
	v := l.Value
	switch {
	case v.Bid.By() != p.cfg.Key.ID():
		return wire.Refuse(wire.Denied, "start: the bid is another node's")
	case h.expires < p.now(): // zero when there is none
		return wire.Refuse(wire.NotFound, "start: the bid has expired")
	case v.Job != h.job.Ref() || v.Bid.Value.Job != v.Job || v.Shard >= h.job.Value.Shards:
		return wire.Refuse(wire.Invalid, "start: the lease is for another job")
	case l.By() != h.job.By() && l.By() != h.job.Value.Delegate:
		return wire.Refuse(wire.Denied, "start: signed by neither the tenant nor his delegate")
	case record.MulDiv(uint64(v.Rate), uint64(v.Bid.Value.Device.Speed), 1000) < uint64(v.Bid.Value.Ask):
		return wire.Refuse(wire.Invalid, "start: the rate is below the bid's ask")
	case v.Reserve == 0:
		return wire.Refuse(wire.Invalid, "start: the lease reserves nothing to pay from")
	case p.life == nil || p.life.Err() != nil || p.closed:
		return lost(errClosing)
	case p.claim.State == policy.Reclaimed:
		return lost(fmt.Errorf("%w: %s", errReclaimed, p.claim.Why))
	}
	return nil
}

// lost is what listeners hear of a run that the node lost. After Unavailable a gateway
// would ask again; this is for good.
func lost(err error) error { return wire.Refuse(wire.Internal, err.Error()) }

// gone is why a run's context ended, in words for the gateway.
func gone(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errReclaimed) || errors.Is(err, errUnpaid) {
		return err
	}
	return errClosing
}

// carryOut runs the lease to its receipt.
func (p *Provider) carryOut(ctx context.Context, l *lease, do func(context.Context, *lease) (wire.LeaseEvent, error)) {
	log := p.cfg.Log.With("job", l.signed.Value.Job.JobID(), "shard", l.signed.Value.Shard)
	log.Debug("lease begun", "rate", l.signed.Value.Rate)
	end, err := p.assured(ctx, l, do)
	if err != nil {
		log.Debug("lease ended without pay", "why", err)
	} else {
		r := end.Receipt.Value
		log.Debug("lease ended", "exit", r.Exit, "work", r.Usage.Work, "took", r.Phases.Run.Duration(), "earns", l.earns(r.Usage.Work))
	}
	if err != nil {
		p.leave(ctx, l)
	}
	l.mu.Lock()
	l.err, l.endedAt = err, p.now()
	l.left = err != nil && ctx.Err() != nil && context.Cause(ctx) != errStopped
	if err == nil {
		l.end = &end
	}
	close(l.finish)
	l.mu.Unlock()
	p.mu.Lock()
	p.done++
	p.running--
	p.vram -= l.vram
	p.ended = append(p.ended, l.signed.Ref())
	if len(p.ended) > maxEnded {
		delete(p.leases, p.ended[0])
		p.ended = p.ended[1:]
	}
	p.mu.Unlock()
}

func (p *Provider) work(ctx context.Context, l *lease, q wire.StartRequest, gateway record.NodeID) (wire.LeaseEvent, error) {
	begin := p.now()
	p.mu.Lock()
	life := p.life
	p.mu.Unlock()
	body, err := p.open(q.Body, l.job)
	if err != nil {
		return wire.LeaseEvent{}, err
	}
	run, spec, err := p.stage(ctx, l, body, q.Time, gateway)
	defer run.close()
	if err != nil && !errors.Is(err, errBody) {
		return wire.LeaseEvent{}, lost(fmt.Errorf("stage: %w", err))
	}
	staged := p.now()
	res := sandbox.Result{End: sandbox.BadModule}
	if err != nil {
		res.Error = err.Error()
	} else if res, err = p.cfg.Pool.Execute(ctx, l.job.By().String(), spec, run); err != nil {
		return wire.LeaseEvent{}, lost(fmt.Errorf("run: %w", err))
	}
	if res.End == sandbox.Cancelled && context.Cause(ctx) != errStopped {
		return wire.LeaseEvent{}, lost(gone(ctx))
	}
	ran := p.now()
	sealed, err := p.manifest(run, l, gateway, res)
	if err != nil {
		return wire.LeaseEvent{}, lost(fmt.Errorf("manifest: %w", err))
	}
	r := p.receipt(l, run, body, res)
	r.Outputs = blob.Sum(sealed)
	r.Started, r.Phases = begin, record.Phases{Stage: staged - begin, Run: ran - staged}
	// What was done is handed over even when the tenant has stopped it.
	return p.deliver(life, l, gateway, r, run.refs(), sealed)
}

// say gives an event to every listener that keeps up; the outputs have it all anyway.
func (l *lease) say(e wire.LeaseEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Channel == 0 {
		l.last = &e
		now := time.Now()
		if now.Sub(l.spoke) < hush {
			return // listeners have it at the next beat, unless newer comes before
		}
		l.spoke = now
	}
	for c := range l.ears {
		select {
		case c <- &e:
		default:
		}
	}
}

// earns is what work comes to at the lease's rate, before fees.
func (l *lease) earns(w record.Work) record.Amount {
	const hour = uint64(time.Hour)
	return min(record.Amount(record.MulDiv(uint64(l.signed.Value.Rate), uint64(w), hour)), l.signed.Value.Reserve)
}

func (l *lease) ended() bool {
	select {
	case <-l.finish:
		return true
	default:
		return false
	}
}

// stop ends a run for the tenant's sake; what it has done is paid.
func (p *Provider) stop(_ context.Context, c wire.Caller, q wire.StopRequest) (wire.Ack, error) {
	p.mu.Lock()
	l := p.leases[q.Lease]
	p.mu.Unlock()
	if l == nil {
		return wire.Ack{}, wire.Refuse(wire.NotFound, "stop: no such lease here")
	}
	if l.job.Value.Delegate != c.ID {
		return wire.Ack{}, wire.Refuse(wire.Denied, "stop: another gateway's lease")
	}
	l.cancel(errStopped)
	return wire.Ack{}, nil
}

// forget drops leases that ended long ago.
func (p *Provider) forget() {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref, l := range p.leases {
		if l.ended() && l.until() < now {
			delete(p.leases, ref)
		}
	}
	for ref, n := range p.notes {
		if n.At+keepUntold < now {
			delete(p.notes, ref)
		}
	}
}

// until is how long a lease that has ended answers.
func (l *lease) until() record.Millis {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told && !l.unsent {
		return l.endedAt + keepFor
	}
	return l.endedAt + keepUntold
}

// MayRead reports whether a peer may fetch a blob: the outputs of its own job's
// leases, as tenant or gateway.
func (p *Provider) MayRead(peer record.NodeID, ref record.Ref) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.notes {
		if (n.Job.By() == peer || n.Job.Value.Delegate == peer) && n.Receipt != nil && (n.Receipt.Outputs == ref || slices.Contains(n.Outputs, ref)) {
			return true
		}
	}
	for _, l := range p.leases {
		if l.job.By() != peer && l.job.Value.Delegate != peer {
			continue
		}
		l.mu.Lock()
		mine := slices.Contains(l.outputs, ref)
		l.mu.Unlock()
		if mine {
			return true
		}
	}
	return false
}
