package gateway

import (
	"cmp"
	"context"
	"strings"

	"idlemesh/ledger/record"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

// list sends the caller's jobs, the newest first.
func (g *Gateway) list(ctx context.Context, c wire.Caller, q wire.JobsRequest, send func(wire.JobInfo) error) error {
	if ref, err := record.ParseRef(q.Prefix); err == nil {
		j, err := g.find(ctx, ref)
		if wire.Is(err, wire.NotFound) || err == nil && j.signed.By() != c.ID {
			return nil
		}
		if err == nil {
			_, err = g.offer(j, q, send)
		}
		return err
	}
	if err := g.await(ctx); err != nil {
		return err
	}
	left := cmp.Or(q.Limit, 1000)
	for f, err := range g.query(ctx, wire.QueryRequest{Account: c.ID, Kind: record.TypeJob, Reverse: true}) {
		if err != nil {
			return err
		}
		job := f.entry.Job
		if ref := job.Ref(); job.By() == c.ID && job.Value.Delegate == g.cfg.Key.ID() && strings.HasPrefix(ref.String(), q.Prefix) {
			j, err := g.find(ctx, ref)
			if err != nil {
				return err
			}
			sent, err := g.offer(j, q, send)
			if err != nil {
				return err
			}
			if sent {
				left--
			}
		}
		if left == 0 {
			return nil
		}
	}
	return nil
}

// offer sends a job if it has the labels that are asked for.
func (g *Gateway) offer(j *job, q wire.JobsRequest, send func(wire.JobInfo) error) (bool, error) {
	g.mu.Lock()
	fits, i := has(j.labels, q.Labels), j.info(j.ref)
	g.mu.Unlock()
	if !fits {
		return false, nil
	}
	return true, send(i)
}

func has(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (j *job) info(ref record.Ref) wire.JobInfo {
	i := wire.JobInfo{Job: ref, Terms: j.signed.Value, Name: j.name, Labels: j.labels, Created: j.created, Ended: j.ended,
		Reason: j.reason, Spent: j.state.Spent, Entry: j.entry}
	if j.ended != 0 {
		i.Err = j.cause
	}
	for _, t := range j.state.Tasks {
		switch t.Phase {
		case plan.Waiting:
			i.Waiting++
		case plan.Leased:
			i.Running++
		case plan.Done:
			i.Done++
		case plan.Failed:
			i.Failed++
		}
	}
	return i
}

// tasks sends a job's tasks by shard.
func (g *Gateway) tasks(ctx context.Context, _ wire.Caller, q wire.JobQuery, send func(wire.TaskInfo) error) error {
	j, err := g.find(ctx, q.Job)
	if err != nil {
		return err
	}
	g.mu.Lock()
	infos := make([]wire.TaskInfo, len(j.tasks))
	for i := range j.tasks {
		infos[i] = j.tasks[i].info
	}
	g.mu.Unlock()
	for _, t := range infos {
		if err := send(t); err != nil {
			return err
		}
	}
	return nil
}
