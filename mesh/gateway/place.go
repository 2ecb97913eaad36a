package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/market"
	"idlemesh/mesh/wire"
)

const (
	bidTime = 1500 * time.Millisecond // that a provider has for a bid
	silence = 10 * time.Second        // after which a provider is lost
	// comeBack is how long a restarted gateway waits for a provider's next advert.
	comeBack = 16 * time.Second
)

// want tells the market which tasks of a job wait, and closes a job that has none
// left.
func (g *Gateway) want(j *job) {
	g.mu.Lock()
	if j.ended != 0 || j.closing || g.life == nil || g.life.Err() != nil {
		g.mu.Unlock()
		return
	}
	now := g.now()
	var tasks []market.Task
	for _, w := range j.state.Todo(now) {
		if !j.placing[w.Shard] {
			tasks = append(tasks, market.Task{Job: j.state.ID, Terms: j.signed.Value, Shard: w.Shard, Attempt: w.Attempt, Since: w.Since, Avoid: w.Avoid})
		}
	}
	g.book.Want(now, tasks...)
	why, over := j.state.End(now)
	over = over && len(j.placing) == 0
	j.closing = over
	life := g.life
	g.mu.Unlock()
	if over {
		g.work.Go(func() { g.close(life, j, why) })
	}
	g.wake()
}

// close refunds what is left of the escrow.
func (g *Gateway) close(ctx context.Context, j *job, why record.Reason) {
	g.mu.Lock()
	g.book.Drop(j.state.ID)
	g.mu.Unlock()
	e := record.Entry{Kind: record.TypeClose, Stream: j.state.ID, Idem: idem("close", j.state.ID), Close: &record.Close{Job: j.state.ID, Why: why}}
	at, err := g.append(ctx, e)
	if err != nil {
		g.cfg.Log.Error("close", "job", j.state.ID.JobID(), "err", err)
		return
	}
	g.learn(j, e, at)
}

// idem is the key of an entry that a job or lease has one of.
func idem(what string, ref record.Ref) record.Ref {
	return sha256.Sum256(append([]byte(what), ref[:]...))
}

// append writes an entry and does not give up while keepers cannot be reached.
func (g *Gateway) append(ctx context.Context, e record.Entry) (author.Place, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		at, err := g.cfg.Author.Append(ctx, e)
		if !wire.Is(err, wire.Unavailable) {
			return at, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return at, context.Cause(ctx)
		}
	}
}

// place takes the tasks of one step from their auction on.
func (g *Gateway) place(ctx context.Context, s market.Step) {
	g.mu.Lock()
	j := g.jobs[s.Tasks[0].Job]
	g.mu.Unlock()
	if s.Err != nil {
		g.giveUp(ctx, j, s.Err)
		return
	}
	begin := g.now()
	bids := g.solicit(ctx, j, s)
	res, beacon, err := g.decide(ctx, s, bids)
	if err != nil {
		g.cfg.Log.Error("auction", "job", j.state.ID.JobID(), "err", err)
		return
	}
	g.auctioned(j, s, len(bids), len(res.Awards), g.now()-begin)
	for _, a := range res.Awards {
		g.work.Go(func() { g.lead(ctx, j, a, bids[key(a.Bid)], beacon) })
	}
	if len(res.Awards) == 0 {
		g.wait(j)
	}
}

// giveUp ends a job that nobody can serve.
func (g *Gateway) giveUp(ctx context.Context, j *job, err error) {
	cause := &wire.Error{Code: wire.NoMatch, Text: err.Error()}
	var none *market.NoMatchError
	if errors.As(err, &none) {
		cause.Next = none.Next()
	}
	g.mu.Lock()
	over := !j.closing && j.ended == 0 && j.state.Live() == 0 && len(j.placing) == 0
	if over {
		j.closing, j.cause = true, cause
	}
	g.mu.Unlock()
	if over {
		g.close(ctx, j, record.Expired)
	}
}

type bidKey struct {
	by    record.NodeID
	nonce uint64
}

func key(b market.Bid) bidKey { return bidKey{b.By, b.Nonce} }

// solicit returns the live bids of those that answer in time.
func (g *Gateway) solicit(ctx context.Context, j *job, s market.Step) map[bidKey]record.Signed[record.Bid] {
	ctx, cancel := context.WithTimeout(ctx, bidTime)
	defer cancel()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		bids = map[bidKey]record.Signed[record.Bid]{}
	)
	for _, id := range s.Ask {
		wg.Go(func() {
			r, err := wire.Call(ctx, g.cfg.Open, id, wire.Solicit, wire.Solicitation{Job: j.signed, N: uint32(len(s.Tasks))})
			mu.Lock()
			defer mu.Unlock()
			if wire.Is(err, wire.Denied) {
				g.mu.Lock()
				g.book.Decline(j.state.ID, id)
				g.mu.Unlock()
			}
			if err != nil {
				return
			}
			for _, b := range r.Bids[:min(len(r.Bids), len(s.Tasks))] {
				if b.By() == id && b.Value.Job == j.state.ID {
					bids[bidKey{id, b.Value.Nonce}] = b
				}
			}
		})
	}
	wg.Wait()
	return bids
}

// decide lets the market award the tasks. A tie is drawn with the tree head's root
// after the bids have closed, which none of the bidders could know.
func (g *Gateway) decide(ctx context.Context, s market.Step, signed map[bidKey]record.Signed[record.Bid]) (res market.Result, beacon record.Ref, err error) {
	var bids []market.Bid
	for k, b := range signed {
		bids = append(bids, market.Bid{By: k.by, Bid: b.Value})
	}
	award := func() (market.Result, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		res, err := g.book.Decide(g.now(), s, bids, beacon)
		for _, a := range res.Awards {
			g.jobs[a.Task.Job].placing[a.Task.Shard] = true
		}
		return res, err
	}
	if res, err = award(); !errors.Is(err, market.ErrTie) {
		return res, beacon, err
	}
	head, err := g.head(ctx)
	if err != nil {
		return res, beacon, err
	}
	beacon = head.Root
	res, err = award()
	return res, beacon, err
}

func (g *Gateway) head(ctx context.Context) (head wire.HeadReply, err error) {
	for _, k := range g.cfg.Mesh.Keepers {
		if head, err = wire.Call(ctx, g.cfg.Open, k.Key.ID(), wire.Head, wire.HeadRequest{}); err == nil {
			break
		}
	}
	return head, err
}

// lead takes one task from its award to its settlement.
func (g *Gateway) lead(ctx context.Context, j *job, a market.Award, bid record.Signed[record.Bid], beacon record.Ref) {
	lease, err := g.sign(j, a, bid, beacon)
	if err == nil {
		err = g.carry(ctx, j, lease, true)
	}
	g.mu.Lock()
	delete(j.placing, a.Task.Shard)
	g.book.Release(a.Task)
	g.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		g.cfg.Log.Warn("task", "job", j.state.ID.JobID(), "shard", a.Task.Shard, "node", bid.By().Short(), "err", err)
	}
	if ctx.Err() == nil {
		g.want(j)
	}
}

// sign accepts the winning bid as the tenant's delegate.
func (g *Gateway) sign(j *job, a market.Award, bid record.Signed[record.Bid], beacon record.Ref) (record.Signed[record.Lease], error) {
	g.mu.Lock()
	reserve := j.state.Reserve()
	g.mu.Unlock()
	return record.Sign(g.cfg.Key, record.Lease{Bid: bid, Job: j.state.ID, Shard: a.Task.Shard, Attempt: a.Task.Attempt,
		Rate: a.Rate, Reserve: reserve, Beacon: beacon})
}

// carry sees a lease through. A fresh one is written to the log while the provider
// already fetches what the task needs: both parties have signed it.
func (g *Gateway) carry(ctx context.Context, j *job, lease record.Signed[record.Lease], fresh bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	booked := make(chan error, 1)
	if fresh {
		go func() {
			err := g.book1(ctx, j, lease)
			if err != nil {
				cancel(err)
			}
			booked <- err
		}()
	} else {
		booked <- nil
	}
	run := g.run
	if !fresh {
		run = g.rejoin
	}
	end, err := run(ctx, j, lease)
	if e := <-booked; e != nil {
		return e
	}
	if err == nil {
		err = g.settle(ctx, j, lease, end)
	}
	if err != nil && context.Cause(ctx) == nil {
		return errors.Join(err, g.cut(ctx, j, lease))
	}
	return err
}

func (g *Gateway) book1(ctx context.Context, j *job, lease record.Signed[record.Lease]) error {
	e := record.Entry{Kind: record.TypeLease, Stream: j.state.ID, Idem: lease.Ref(), Lease: &lease}
	at, err := g.append(ctx, e)
	if err == nil {
		g.learn(j, e, at)
	}
	return err
}

// run starts a task, or joins it where it runs, and passes on what it says until its
// receipt comes. A provider that is silent for ten seconds is lost.
func (g *Gateway) run(ctx context.Context, j *job, lease record.Signed[record.Lease]) (wire.LeaseEvent, error) {
	req, err := g.startRequest(j, lease)
	if err != nil {
		return wire.LeaseEvent{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(wire.Refuse(wire.Unavailable, "the provider is silent")) })
	defer watch.Stop()
	for e, err := range wire.Stream(ctx, g.cfg.Open, lease.Value.Bid.By(), wire.Start, req) {
		if err != nil {
			return e, err
		}
		watch.Reset(silence)
		if e.Receipt != nil {
			return e, nil
		}
		if !e.Beat {
			g.said(j, lease.Value, e)
		}
	}
	return wire.LeaseEvent{}, wire.Refuse(wire.Unavailable, "the provider sent no receipt")
}

// rejoin waits for a provider that has not yet come back to a gateway that restarted:
// his run goes on meanwhile.
func (g *Gateway) rejoin(ctx context.Context, j *job, lease record.Signed[record.Lease]) (wire.LeaseEvent, error) {
	late := g.now() + record.Span(comeBack)
	for {
		end, err := g.run(ctx, j, lease)
		if !wire.Is(err, wire.Unavailable) || g.now() > late {
			return end, err
		}
		select {
		case <-time.After(comeBack / 64):
		case <-ctx.Done():
			return end, err
		}
	}
}

// startRequest seals the job's body to the provider that runs it.
func (g *Gateway) startRequest(j *job, lease record.Signed[record.Lease]) (wire.StartRequest, error) {
	g.mu.Lock()
	body, created := j.body, j.created
	g.mu.Unlock()
	plain, err := record.Encode(body)
	if err != nil {
		return wire.StartRequest{}, err
	}
	g.mu.Lock()
	g.permitLocked(lease.Value.Bid.By(), body)
	g.mu.Unlock()
	sealed, err := g.sealer.Seal(plain, wire.SealBody, lease.Value.Bid.Key)
	return wire.StartRequest{Lease: lease, Body: sealed, Time: created}, err
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

// settle posts the receipt with the last voucher; payout, fee, holdback and refund
// follow from it by ledger/account.
func (g *Gateway) settle(ctx context.Context, j *job, lease record.Signed[record.Lease], end wire.LeaseEvent) error {
	r, l := *end.Receipt, lease.Value
	if err := g.keepManifest(j, r.Value, end.Manifest); err != nil {
		return err
	}
	v := record.Voucher{Lease: lease.Ref(), Epoch: l.Epoch, N: 1, Receipt: r.Ref()}
	if r.Value.End.Paid() {
		v.Work = r.Value.Usage.Work
		v.Amount = min(account.Charge(l.Rate, v.Work), l.Reserve)
	}
	signed, err := record.Sign(g.cfg.Key, v)
	if err != nil {
		return err
	}
	g.mu.Lock()
	last := j.state.Last(r)
	g.mu.Unlock()
	e := record.Entry{Kind: record.TypeSettle, Stream: j.state.ID, Idem: r.Ref(),
		Settle: &record.Settle{Receipt: r, Voucher: signed, Last: last}}
	at, err := g.append(ctx, e)
	if err != nil {
		return err
	}
	g.learn(j, e, at)
	return nil
}

// cut ends a lease that came to nothing, so that the task can be leased again.
func (g *Gateway) cut(ctx context.Context, j *job, lease record.Signed[record.Lease]) error {
	e := record.Entry{Kind: record.TypeCut, Stream: j.state.ID, Idem: idem("cut", lease.Ref()), Cut: &record.Cut{Lease: lease.Ref()}}
	at, err := g.append(ctx, e)
	if err == nil {
		g.learn(j, e, at)
	}
	return err
}

// cancel ends a job for its tenant: what runs is stopped and paid as far as it came,
// what waits is dropped.
func (g *Gateway) cancel(ctx context.Context, _ wire.Caller, q wire.JobQuery) (wire.Ack, error) {
	g.mu.Lock()
	j := g.jobs[q.Job]
	if j == nil {
		g.mu.Unlock()
		return wire.Ack{}, wire.Refuse(wire.NotFound, "no such job")
	}
	j.state.Cancel()
	g.book.Drop(q.Job)
	var leases []record.Signed[record.Lease]
	for _, t := range j.tasks {
		if t.info.State == "running" {
			leases = append(leases, t.lease)
		}
	}
	g.mu.Unlock()
	var errs []error
	for _, l := range leases {
		_, err := wire.Call(ctx, g.cfg.Open, l.Value.Bid.By(), wire.Stop, wire.StopRequest{Lease: l.Ref()})
		if err != nil && !wire.Is(err, wire.NotFound) {
			errs = append(errs, err)
		}
	}
	g.want(j)
	return wire.Ack{}, errors.Join(errs...)
}

// auctioned tells those who watch how an auction went.
func (g *Gateway) auctioned(j *job, s market.Step, bids, won int, took record.Millis) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.book.Quote(g.now(), j.signed.Value, 0)
	a := auction(q)
	a.Fit, a.Bids, a.Won, a.Took = max(a.Fit, uint32(len(s.Ask))), uint32(bids), uint32(won), took
	if won > 0 && !j.auctioned {
		j.auctioned = true
		g.tellLocked(j, wire.JobEvent{Kind: wire.Auctioned, Auction: &a})
	}
}

func auction(q market.Quote) wire.Auction {
	a := wire.Auction{Nodes: uint32(q.Nodes), Fit: uint32(q.Fits + q.Busy)}
	for why, n := range q.Counts {
		a.Others = append(a.Others, wire.Count{N: uint32(n), Why: why.String()})
	}
	slices.SortFunc(a.Others, func(x, y wire.Count) int { return int(y.N) - int(x.N) })
	return a
}

// wait tells those who watch, once, that everybody who fits is busy.
func (g *Gateway) wait(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if j.waited {
		return
	}
	j.waited = true
	a := auction(g.book.Quote(g.now(), j.signed.Value, 0))
	g.tellLocked(j, wire.JobEvent{Kind: wire.Waiting, Auction: &a})
}
