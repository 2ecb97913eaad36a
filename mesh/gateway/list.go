package gateway

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"idlemesh/ledger/record"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

// list sends the caller's jobs, the newest first.
func (g *Gateway) list(ctx context.Context, c wire.Caller, q wire.JobsRequest, send func(wire.JobInfo) error) error {
	if err := g.await(ctx); err != nil {
		return err
	}
	var found []wire.JobInfo
	g.mu.Lock()
	for ref, j := range g.jobs {
		if j.created != 0 && j.signed.By() == c.ID && strings.HasPrefix(ref.String(), q.Prefix) && has(j.labels, q.Labels) {
			found = append(found, j.info(ref))
		}
	}
	g.mu.Unlock()
	slices.SortFunc(found, func(a, b wire.JobInfo) int {
		return cmp.Or(cmp.Compare(b.Entry, a.Entry), bytes.Compare(a.Job[:], b.Job[:]))
	})
	for _, j := range found[:min(len(found), int(cmp.Or(q.Limit, 1000)))] {
		if err := send(j); err != nil {
			return err
		}
	}
	return nil
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
		Reason: j.reason, Spent: j.spent, Entry: j.entry}
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
func (g *Gateway) tasks(_ context.Context, _ wire.Caller, q wire.JobQuery, send func(wire.TaskInfo) error) error {
	g.mu.Lock()
	j := g.jobs[q.Job]
	if j == nil {
		g.mu.Unlock()
		return wire.Refuse(wire.NotFound, "no such job")
	}
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
