package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/market"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

// want tells the market which tasks of a job wait, takes up leases that nobody sees
// through, and closes a job that has nothing left.
func (g *Gateway) want(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if j.ended != 0 || j.closing || now < j.rest || !g.openLocked() {
		return
	}
	g.resumeLocked(j)
	var tasks []market.Task
	for _, w := range j.state.Todo(now) {
		if !j.placing[w.Shard] {
			tasks = append(tasks, market.Task{Job: j.ref, Terms: j.signed.Value, Shard: w.Shard, Attempt: w.Attempt, Since: w.Since, Avoid: w.Avoid})
		}
	}
	why, over := j.state.End(now)
	if j.refused > maxRefused && j.state.Live() == 0 {
		why, over = record.GivenUp, true
	}
	if over && len(j.placing) == 0 {
		j.closing = true
		g.spawnLocked(func(ctx context.Context) { g.close(ctx, j, why) })
		return
	}
	g.book.Want(now, tasks...)
	if len(tasks) > 0 && now > tasks[0].Since+untold {
		g.waitLocked(j)
	}
	g.wake()
}

// untold is how long a task waits, in milliseconds, before those who watch hear why.
const untold = 2000

// resumeLocked takes up leases that run and that this process does not see through:
// those from before a restart, or whose end the log did not take.
func (g *Gateway) resumeLocked(j *job) {
	if j.state.Live() == 0 {
		return
	}
	for i := range j.tasks {
		shard, l := uint32(i), j.tasks[i].lease
		if l == nil || j.placing[shard] || j.state.Tasks[i].Phase != plan.Leased {
			continue
		}
		j.placing[shard] = true
		g.spawnLocked(func(ctx context.Context) { g.done(ctx, j, l.Value, g.carry(ctx, j, *l, false)) })
	}
}

// maxRefused is how many refusals of the ledger in a row end a job: half a minute's.
const maxRefused = 6

// restLocked lets a job rest after the ledger refused an entry of it: half a second,
// doubled each time.
func (g *Gateway) restLocked(j *job, err error) {
	now := g.now()
	if now < j.rest || j.ended != 0 {
		return // of the same moment
	}
	j.rest = now + 500<<min(j.refused, 8)
	j.refused++
	if j.cause == nil && j.refused > maxRefused {
		j.cause = wire.Refuse(wire.Internal, "the ledger refuses the job's entries: "+err.Error())
	}
	g.book.Drop(j.ref)
}

// close refunds what is left of the escrow.
func (g *Gateway) close(ctx context.Context, j *job, why record.Reason) {
	g.mu.Lock()
	g.book.Drop(j.ref)
	g.mu.Unlock()
	e := record.Entry{Kind: record.TypeClose, Stream: j.ref, Idem: idem("close", j.ref), Close: &record.Close{Job: j.ref, Why: why, Detail: g.keepCause(j, why)}}
	err := g.write(ctx, j, e)
	g.mu.Lock()
	defer g.mu.Unlock()
	if j.ended == 0 && ctx.Err() == nil {
		g.cfg.Log.Error("close", "job", j.ref.JobID(), "err", err)
		j.closing = false
		g.restLocked(j, errors.Join(err, errors.New("it is not closed")))
	}
}

// idem is the key of an entry that a job or lease has one of.
func idem(what string, ref record.Ref) record.Ref {
	return sha256.Sum256(append([]byte(what), ref[:]...))
}

// write appends an entry of a job and folds it. After a refusal it folds what it may
// have missed: what another party wrote, or itself before its answer was lost.
func (g *Gateway) write(ctx context.Context, j *job, e record.Entry) error {
	at, err := g.append(ctx, e)
	if err == nil && g.learn(j, e, at) || ctx.Err() != nil {
		return err
	}
	if e := g.catchUp(ctx, j); e != nil {
		g.cfg.Log.Warn("read the log", "job", j.ref.JobID(), "err", e)
	}
	return err
}

// append writes an entry and does not give up while keepers cannot be reached or have
// no room, for what has been done must be paid.
func (g *Gateway) append(ctx context.Context, e record.Entry) (author.Place, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		at, err := g.cfg.Author.Append(ctx, e)
		full := wire.Is(err, wire.Funds) && e.Lease == nil // a lease alone may ask for too much
		if !wire.Is(err, wire.Unavailable) && !wire.Is(err, wire.Internal) && !full {
			return at, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return at, context.Cause(ctx)
		}
	}
}

// settle posts the receipt with the last voucher; payout, fee, holdback and refund
// follow from it by ledger/account.
func (g *Gateway) settle(ctx context.Context, j *job, c carried, end wire.LeaseEvent) error {
	r, l := *end.Receipt, c.lease.Value
	g.mu.Lock()
	c.stop = j.cancelled
	g.mu.Unlock()
	if err := c.check(r.Value); err != nil {
		return err
	}
	if err := g.keepManifest(ctx, j, c, r.Value, end.Manifest); err != nil {
		return err
	}
	v := record.Voucher{Lease: c.lease.Ref(), Epoch: l.Epoch, N: 1, Receipt: r.Ref()}
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
	return g.write(ctx, j, record.Entry{Kind: record.TypeSettle, Stream: j.ref, Idem: r.Ref(),
		Settle: &record.Settle{Receipt: r, Voucher: signed, Last: last}})
}

// cut ends a lease that came to nothing, so that the task can be leased again.
func (g *Gateway) cut(ctx context.Context, j *job, lease record.Signed[record.Lease]) error {
	return g.write(ctx, j, record.Entry{Kind: record.TypeCut, Stream: j.ref, Idem: idem("cut", lease.Ref()), Cut: &record.Cut{Lease: lease.Ref()}})
}

// cancel ends a job for its tenant: what runs is stopped and paid as far as it came,
// what waits is dropped. It stands in the log first, for a stop that a restart forgot
// would let the job go on.
func (g *Gateway) cancel(ctx context.Context, _ wire.Caller, q wire.CancelRequest) (wire.Ack, error) {
	ref := q.Cancel.Value.Job
	j, err := g.find(ctx, ref)
	switch {
	case err != nil:
		return wire.Ack{}, err
	case q.Cancel.By() != j.signed.By():
		return wire.Ack{}, wire.Refuse(wire.Denied, "cancel: signed by another than the job's tenant")
	case g.dropped(j):
		return wire.Ack{}, nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, silence, &wire.Error{Code: wire.Unavailable,
		Text: "cancel: the ledger does not answer, and the job goes on", Next: "try again"})
	defer stop()
	err = g.write(ctx, j, record.Entry{Kind: record.TypeCancel, Stream: ref, Idem: idem("cancel", ref), Cancel: &q.Cancel})
	if err != nil && !g.dropped(j) { // it may have ended meanwhile
		return wire.Ack{}, err
	}
	g.want(j)
	return wire.Ack{}, nil
}

// dropped reports whether nothing more of the job is wanted.
func (g *Gateway) dropped(j *job) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return j.ended != 0 || j.cancelled
}
