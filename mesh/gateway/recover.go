package gateway

import (
	"context"
	"errors"
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
	g.mu.Lock()
	var open []*job
	for _, j := range g.jobs {
		if j.ended == 0 {
			open = append(open, j)
		}
	}
	g.mu.Unlock()
	for _, j := range open {
		g.takeUp(ctx, j)
	}
	return nil
}

func (g *Gateway) fold(ctx context.Context) error {
	head, err := g.firstHead(ctx)
	if err != nil || head.Size == 0 {
		return err
	}
	for leaf, err := range wire.Stream(ctx, g.cfg.Open, g.cfg.Mesh.Keepers[0].Key.ID(), wire.Follow, wire.FollowRequest{}) {
		if err != nil {
			return err
		}
		if err := g.foldLeaf(leaf); err != nil {
			return fmt.Errorf("entry %d: %w", leaf.Index, err)
		}
		if leaf.Index+1 >= head.Size {
			break
		}
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
	j := g.jobs[jobOf(e)]
	if e.Kind == record.TypeJob && j == nil && e.Job.Value.Delegate == g.cfg.Key.ID() {
		j = newJob(*e.Job)
		if err := g.readBody(j); err != nil {
			g.cfg.Log.Warn("job", "job", e.Job.Ref().JobID(), "err", err)
		}
		g.mu.Lock()
		g.jobs[e.Job.Ref()] = j
		g.grantLocked(j)
		g.mu.Unlock()
	}
	if j == nil {
		g.mu.Lock()
		g.book.Observe(leaf.Time, e)
		g.mu.Unlock()
		return nil
	}
	g.learn(j, e, at)
	return nil
}

// jobOf names the job that an entry is about: its stream, for all that gateways write.
func jobOf(e record.Entry) record.Ref {
	if e.Job != nil {
		return e.Job.Ref()
	}
	return e.Stream
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
	if j.body.Module.Ref == (record.Ref{}) {
		g.lostBody(ctx, j)
		return
	}
	g.mu.Lock()
	var leases []record.Signed[record.Lease]
	for i := range j.tasks {
		if j.tasks[i].info.State == "running" {
			leases = append(leases, j.tasks[i].lease)
			j.placing[uint32(i)] = true
		}
	}
	g.mu.Unlock()
	for _, l := range leases {
		g.work.Go(func() {
			err := g.carry(ctx, j, l, false)
			g.mu.Lock()
			delete(j.placing, l.Value.Shard)
			g.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				g.cfg.Log.Info("task goes elsewhere", "job", j.state.ID.JobID(), "shard", l.Value.Shard, "why", err)
			}
			g.want(j)
		})
	}
	g.want(j)
}

// lostBody ends a job whose body is gone: what it was to run, nobody knows.
func (g *Gateway) lostBody(ctx context.Context, j *job) {
	g.mu.Lock()
	j.state.Cancel()
	j.cause = wire.Refuse(wire.NotFound, "the job's body is no longer on this gateway; submit it again")
	var leases []record.Signed[record.Lease]
	for i := range j.tasks {
		if j.tasks[i].info.State == "running" {
			leases = append(leases, j.tasks[i].lease)
		}
	}
	g.mu.Unlock()
	var errs []error
	for _, l := range leases {
		errs = append(errs, g.cut(ctx, j, l))
	}
	if err := errors.Join(errs...); err != nil {
		g.cfg.Log.Error("job", "job", j.state.ID.JobID(), "err", err)
		return
	}
	g.want(j)
}
