package gateway

import (
	"context"
	"fmt"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/wire"
)

// recover folds the log into the jobs that this gateway is the delegate of, and takes
// up those that have not ended: leases that ran are joined where they still run, cut
// where they do not.
func (g *Gateway) recover(ctx context.Context) error {
	if err := g.fold(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("gateway: read the log: %w", err)
	}
	close(g.ready)
	for _, j := range g.open() {
		g.takeUp(ctx, j)
	}
	return nil
}

// fold reads the log as far as it goes now; where a stream breaks, it goes on.
func (g *Gateway) fold(ctx context.Context) error {
	head, err := g.firstHead(ctx)
	next := uint64(0)
	for err == nil && next < head.Size {
		was := next
		if err = g.foldFrom(ctx, &next, head.Size); wire.Is(err, wire.Unavailable) && (next > was || g.pause(ctx)) {
			err = nil
		}
	}
	return err
}

// pause waits a second and reports whether ctx goes on.
func (g *Gateway) pause(ctx context.Context) bool {
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

func (g *Gateway) foldFrom(ctx context.Context, next *uint64, size uint64) error {
	for leaf, err := range wire.AskStream(ctx, g.keepers, wire.Follow, wire.FollowRequest{From: *next}) {
		if err != nil {
			return err
		}
		if err := g.foldLeaf(leaf); err != nil {
			return fmt.Errorf("entry %d: %w", leaf.Index, err)
		}
		if *next = leaf.Index + 1; *next >= size {
			return nil
		}
	}
	return wire.Refuse(wire.Unavailable, "the keeper ended early")
}

// catchUp folds what the log has of one job.
func (g *Gateway) catchUp(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	for row, err := range wire.AskStream(ctx, g.keepers, wire.Query, wire.QueryRequest{Job: j.ref}) {
		if err != nil {
			return err
		}
		e, err := record.Open[record.Entry](row.Entry)
		if err != nil {
			return fmt.Errorf("entry %d: %w", row.Index, err)
		}
		g.learn(j, e.Value, author.Place{Index: row.Index, Time: row.Time, Known: true})
	}
	return nil
}

// firstHead waits for a keeper: at a start it may come up later than its gateway.
func (g *Gateway) firstHead(ctx context.Context) (wire.HeadReply, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		head, err := g.head(ctx)
		if !wire.Is(err, wire.Unavailable) {
			return head, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return head, context.Cause(ctx)
		}
	}
}

func (g *Gateway) foldLeaf(l wire.Leaf) error {
	var leaf record.Leaf
	if err := record.Decode(l.Raw, &leaf); err != nil {
		return err
	}
	signed, err := record.Open[record.Entry](leaf.Entry)
	if err != nil {
		return err
	}
	e, at := signed.Value, author.Place{Index: l.Index, Time: leaf.Time, Known: true}
	j := g.jobOf(e)
	if e.Kind == record.TypeJob && j == nil && e.Job.Value.Delegate == g.cfg.Key.ID() {
		j = newJob(*e.Job)
		if err := g.readBody(j); err != nil {
			g.cfg.Log.Warn("job", "job", j.ref.JobID(), "err", err)
		}
		g.mu.Lock()
		g.jobs[j.ref] = j
		g.grantLocked(j)
		g.mu.Unlock()
	}
	if j == nil {
		g.mu.Lock()
		g.book.Observe(leaf.Time, e)
		g.mu.Unlock()
		return nil
	}
	if e.Close != nil {
		cause := g.readCause(e.Close.Detail)
		g.mu.Lock()
		j.cause = cause
		g.mu.Unlock()
	}
	if g.learn(j, e, at) && e.Settle != nil {
		g.foldOutputs(j, leaf.Time, e.Settle.Receipt.Value)
	}
	return nil
}

// foldOutputs lets the tenant fetch what a task left, while it is kept.
func (g *Gateway) foldOutputs(j *job, at record.Millis, r record.Receipt) {
	until := (at + j.signed.Value.Retention).WholeHour()
	if r.Outputs == (record.Ref{}) || until < g.now() {
		return
	}
	m, err := g.readManifest(r.Outputs)
	if err != nil {
		g.owe(debt{j, r, g.providerOf(j, r), until}, err)
		return
	}
	g.grantOutputs(j, r, m, until)
}

func (g *Gateway) providerOf(j *job, r record.Receipt) record.NodeID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return j.tasks[r.Shard].info.Node
}

// jobOf returns the job that an entry is about, nil when it is another gateway's. Its
// body says so, whatever stream its author put it in.
func (g *Gateway) jobOf(e record.Entry) *job {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case e.Job != nil:
		return g.jobs[e.Job.Ref()]
	case e.Lease != nil:
		return g.jobs[e.Lease.Value.Job]
	case e.Settle != nil:
		return g.jobs[e.Settle.Receipt.Value.Job]
	case e.Cut != nil:
		return g.leases[e.Cut.Lease].job
	case e.Close != nil:
		return g.jobs[e.Close.Job]
	case e.Cancel != nil:
		return g.jobs[e.Cancel.Value.Job]
	case e.Voucher != nil:
		return g.leases[e.Voucher.Value.Lease].job
	case e.TopUp != nil:
		return g.jobs[e.TopUp.Job]
	case e.Adopt != nil:
		return g.jobs[e.Adopt.Job]
	}
	return nil
}

func (g *Gateway) readBody(j *job) error {
	sealed, err := g.cfg.Blobs.Bytes(j.signed.Value.Body, maxBody)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if j.body, err = g.unseal(sealed); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	j.name, j.labels = j.body.Name, j.body.Labels
	return nil
}

// takeUp goes on with a job from where the log has it.
func (g *Gateway) takeUp(ctx context.Context, j *job) {
	g.mu.Lock()
	whole := j.body.Module.Ref != (record.Ref{})
	g.mu.Unlock()
	if !whole {
		g.lostBody(ctx, j)
	}
	g.want(j)
}

// lostBody ends a job whose body is gone: what it was to run, nobody knows.
func (g *Gateway) lostBody(ctx context.Context, j *job) {
	g.mu.Lock()
	j.cancelLocked(wire.Refuse(wire.NotFound, "the job's body is no longer on this gateway; submit it again"))
	leases := j.running()
	g.mu.Unlock()
	for _, l := range leases {
		if err := g.cut(ctx, j, l); err != nil {
			g.cfg.Log.Error("job", "job", j.ref.JobID(), "err", err)
		}
	}
}
