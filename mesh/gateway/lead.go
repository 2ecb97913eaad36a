package gateway

import (
	"context"
	"errors"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/market"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

const (
	silence = 10 * time.Second // after which a provider is lost
	// comeBack is how long a restarted gateway waits for a provider's next advert: it
	// may be that only he can dial.
	comeBack = 16 * time.Second
	staging  = time.Hour // that a run may take beyond its limit, to fetch and to hand over
	skew     = 30_000    // ms by which the ledger's clock may differ from this node's
)

// lead takes one task from its award to its settlement.
func (g *Gateway) lead(ctx context.Context, j *job, a market.Award, bid record.Signed[record.Bid], beacon record.Ref) {
	lease, err := g.sign(j, a, bid, beacon)
	if err == nil {
		err = g.carry(ctx, j, lease, true)
	}
	g.mu.Lock()
	g.book.Release(a.Task)
	g.mu.Unlock()
	g.done(ctx, j, record.Lease{Bid: bid, Shard: a.Task.Shard}, err)
}

// done lets go of a task that was led or resumed.
func (g *Gateway) done(ctx context.Context, j *job, l record.Lease, err error) {
	g.mu.Lock()
	delete(j.placing, l.Shard)
	if err != nil && ctx.Err() == nil {
		text := err.Error()
		j.loss = text[:min(len(text), maxText)]
	}
	if err != nil && j.state.Tasks[l.Shard].Phase == plan.Leased {
		g.restLocked(j, err) // it could not be ended either: not again at once
	}
	g.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		g.cfg.Log.Warn("task", "job", j.ref.JobID(), "shard", l.Shard, "node", l.Bid.By().Short(), "err", err)
	}
	g.want(j)
}

// sign accepts the winning bid as the tenant's delegate.
func (g *Gateway) sign(j *job, a market.Award, bid record.Signed[record.Bid], beacon record.Ref) (record.Signed[record.Lease], error) {
	g.mu.Lock()
	reserve := j.state.Reserve()
	g.mu.Unlock()
	return record.Sign(g.cfg.Key, record.Lease{Bid: bid, Job: j.ref, Shard: a.Task.Shard, Attempt: a.Task.Attempt,
		Rate: a.Rate, Reserve: reserve, Beacon: beacon})
}

// carry sees a lease through. A fresh one is written to the log while the provider
// already fetches what the task needs: both parties have signed it.
func (g *Gateway) carry(ctx context.Context, j *job, lease record.Signed[record.Lease], fresh bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	booked := make(chan error, 1)
	c := g.carried(j, lease, fresh)
	begin := g.now() - c.took
	if fresh {
		go func() {
			err := g.enter(ctx, j, lease)
			if err != nil {
				cancel(err)
			}
			booked <- err
		}()
	} else {
		booked <- nil
	}
	end, err := g.run(ctx, j, c)
	if e := <-booked; e != nil {
		g.halt(lease) // nobody would pay for the run
		return e
	}
	if err == nil {
		c.took = g.now() - begin
		err = g.settle(ctx, j, c, end)
	}
	if err != nil && context.Cause(ctx) == nil && g.runs(j, lease) {
		g.halt(lease)
		err = errors.Join(err, g.cut(ctx, j, lease))
	}
	return err
}

// carried is what this gateway knows of a lease at its start, or of one that it takes
// up again, whose time is the ledger's.
func (g *Gateway) carried(j *job, lease record.Signed[record.Lease], fresh bool) carried {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := carried{lease: lease, terms: j.signed.Value, body: j.body}
	if !fresh {
		c.again = true
		c.took = g.now() - j.state.Tasks[lease.Value.Shard].Since + skew
	}
	return c
}

// runs reports whether the log, as far as it is known, has the lease running.
func (g *Gateway) runs(j *job, lease record.Signed[record.Lease]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &j.state.Tasks[lease.Value.Shard]
	return t.Phase == plan.Leased && t.Lease == lease.Ref()
}

// enter writes a lease to the log. When the ledger refuses it the job rests, for
// nothing else keeps it from being tried again at once, with another provider's work.
func (g *Gateway) enter(ctx context.Context, j *job, lease record.Signed[record.Lease]) error {
	e := record.Entry{Kind: record.TypeLease, Stream: j.ref, Idem: lease.Ref(), Lease: &lease}
	err := g.write(ctx, j, e)
	g.mu.Lock()
	if err != nil && ctx.Err() == nil {
		g.restLocked(j, err)
	}
	late := err == nil && j.cancelled
	g.mu.Unlock()
	if late { // the tenant's Cancel did not see it
		g.halt(lease)
	}
	return err
}

// run starts a task, or joins it where it runs, and passes on what it says until its
// receipt comes. A provider that is silent for ten seconds is lost; one whose stream
// breaks is asked again until then.
func (g *Gateway) run(ctx context.Context, j *job, c carried) (wire.LeaseEvent, error) {
	req, err := g.startRequest(j, c)
	if err != nil {
		return wire.LeaseEvent{}, err
	}
	longest := min(record.Millis(c.terms.Limits.Wall).Duration(), maxWall*time.Millisecond) + staging
	ctx, cancel := context.WithTimeoutCause(ctx, longest, wire.Refuse(wire.Invalid, "the provider has sent no receipt long after the job's time limit"))
	defer cancel()
	heard, p := time.Now(), &pace{}
	if c.again {
		heard = heard.Add(comeBack - silence)
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		end, err := g.hear(ctx, j, c.lease.Value, req, &heard, p)
		if !wire.Is(err, wire.Unavailable) || time.Since(heard) >= silence {
			return end, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return end, context.Cause(ctx)
		}
	}
}

// hear follows one stream of a run. It notes when it heard of it last.
func (g *Gateway) hear(ctx context.Context, j *job, l record.Lease, req wire.StartRequest, heard *time.Time, p *pace) (wire.LeaseEvent, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence-time.Since(*heard), func() { cancel(wire.Refuse(wire.Unavailable, "the provider is silent")) })
	defer watch.Stop()
	var stopped time.Time
	for e, err := range wire.Stream(ctx, g.cfg.Open, l.Bid.By(), wire.Start, req) {
		if err == nil {
			err = checkEvent(e)
		}
		if err != nil {
			return e, err
		}
		*heard = time.Now()
		watch.Reset(silence)
		if e.Lost != "" {
			return e, wire.Refuse(wire.Internal, "the provider: "+e.Lost)
		}
		if e.Receipt != nil {
			return e, nil
		}
		if !e.Beat {
			g.said(j, l, e)
		}
		if err := p.wait(ctx); err != nil {
			return e, err
		}
		g.mu.Lock()
		stop := j.cancelled
		g.mu.Unlock()
		if stop && time.Since(stopped) > time.Second { // the last Stop may have come before the Start
			stopped = time.Now()
			g.halt(req.Lease)
		}
	}
	return wire.LeaseEvent{}, wire.Refuse(wire.Unavailable, "the provider sent no receipt")
}

// halt tells a provider to end a run, if he can be told.
func (g *Gateway) halt(lease record.Signed[record.Lease]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.haltLocked(lease)
}

func (g *Gateway) haltLocked(lease record.Signed[record.Lease]) {
	if !g.openLocked() {
		return
	}
	g.spawnLocked(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		_, err := wire.Call(ctx, g.cfg.Open, lease.Value.Bid.By(), wire.Stop, wire.StopRequest{Lease: lease.Ref()})
		if err != nil && !wire.Is(err, wire.NotFound) {
			g.cfg.Log.Debug("stop", "lease", lease.Ref(), "err", err)
		}
	})
}

// startRequest seals the job's body to the provider that runs it.
func (g *Gateway) startRequest(j *job, c carried) (wire.StartRequest, error) {
	bid := c.lease.Value.Bid
	g.mu.Lock()
	created := j.created
	g.permitLocked(bid.By(), kept(c.terms), c.body.Blobs()...)
	g.takeFromLocked(bid.By(), c.terms)
	g.mu.Unlock()
	plain, err := record.Encode(c.body)
	if err != nil {
		return wire.StartRequest{}, err
	}
	sealed, err := g.sealer.Seal(plain, wire.SealBody, bid.Key)
	return wire.StartRequest{Lease: c.lease, Body: sealed, Time: created}, err
}

// said passes on what a running task says, and remembers how far it is.
func (g *Gateway) said(j *job, l record.Lease, e wire.LeaseEvent) {
	ev := wire.JobEvent{Kind: wire.Progress, Shard: l.Shard, Attempt: l.Attempt, Node: l.Bid.By(), Done: e.Done, Total: e.Total, Text: e.Text}
	if e.Channel != 0 {
		ev = wire.JobEvent{Kind: wire.Said, Shard: l.Shard, Attempt: l.Attempt, Node: ev.Node, Stream: e.Channel, Offset: e.Offset, Data: e.Data}
	} else {
		g.mu.Lock()
		t := &j.tasks[l.Shard].info
		t.Done, t.Total, t.Text = e.Done, e.Total, e.Text
		g.mu.Unlock()
	}
	g.pass(j, ev)
}
