package gateway

import (
	"context"
	"fmt"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/wire"
)

// How long, and how many, jobs that have ended stay in memory. The log has all of them.
const (
	keepEnded    = 10 * 60_000 // milliseconds
	maxEnded     = 1024        // jobs
	maxEndedSize = 1 << 16     // tasks of theirs
)

// A past is a job that has ended and is still in memory.
type past struct {
	job *job
	at  record.Millis // since when it is kept
}

// rememberLocked keeps a job that has ended for a while, in place of the oldest.
func (g *Gateway) rememberLocked(j *job, now record.Millis) {
	g.past = append(g.past, past{j, now})
	g.pastSize += len(j.tasks)
	for len(g.past) > maxEnded || g.pastSize > maxEndedSize && len(g.past) > 1 {
		g.forgetLocked()
	}
}

// forgetLocked drops the job that has been kept longest.
func (g *Gateway) forgetLocked() {
	old := g.past[0].job
	g.past[0] = past{}
	g.past = g.past[1:]
	g.pastSize -= len(old.tasks)
	if g.jobs[old.ref] == old {
		delete(g.jobs, old.ref)
	}
}

// find returns a job from memory or, when it ended long ago, from the log.
func (g *Gateway) find(ctx context.Context, ref record.Ref) (*job, error) {
	if err := g.await(ctx); err != nil {
		return nil, err
	}
	g.mu.Lock()
	j := g.jobs[ref]
	g.mu.Unlock()
	if j != nil {
		return j, nil
	}
	return g.recall(ctx, ref)
}

// recall folds one job from the log. One that has ended is kept for a while: who asks
// once asks again.
func (g *Gateway) recall(ctx context.Context, ref record.Ref) (*job, error) {
	var j *job
	for row, err := range g.query(ctx, wire.QueryRequest{Job: ref}) {
		if err != nil {
			return nil, err
		}
		e := row.entry
		if e.Job != nil && j == nil && e.Job.Value.Delegate == g.cfg.Key.ID() {
			j = newJob(*e.Job)
			j.far = -1
		}
		if j == nil {
			break
		}
		if e.Close != nil {
			j.cause = g.readCause(e.Close.Detail)
		}
		if j.state.Apply(row.at.Time, e) == nil {
			j.fold(e, row.at, row.at.Time)
		}
	}
	if j == nil {
		return nil, wire.Refuse(wire.NotFound, "no such job")
	}
	if err := g.readBody(j); err != nil {
		g.cfg.Log.Debug("a job of long ago", "job", ref.JobID(), "err", err)
	}
	if j.ended == 0 {
		return j, nil
	}
	j.body = record.Body{} // its name and labels are kept
	g.mu.Lock()
	defer g.mu.Unlock()
	if is := g.jobs[ref]; is != nil {
		return is, nil
	}
	g.jobs[ref] = j
	g.rememberLocked(j, g.now())
	return j, nil
}

// A found is an entry that a query found, opened.
type found struct {
	at    author.Place
	entry record.Entry
}

// query yields entries of the log, their signatures checked.
func (g *Gateway) query(ctx context.Context, q wire.QueryRequest) func(func(found, error) bool) {
	return func(yield func(found, error) bool) {
		for row, err := range wire.AskStream(ctx, g.keepers, wire.Query, q) {
			var f found
			if err == nil {
				var e record.Signed[record.Entry]
				if e, err = record.Open[record.Entry](row.Entry); err != nil {
					err = fmt.Errorf("entry %d: %w", row.Index, err)
				}
				f = found{author.Place{Index: row.Index, Time: row.Time, Known: true}, e.Value}
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// ownerOf returns who submitted a job that is not in memory. Anybody may make a gateway
// ask that, so no more is read than the one entry.
func (g *Gateway) ownerOf(ctx context.Context, ref record.Ref) (record.NodeID, error) {
	for f, err := range g.query(ctx, wire.QueryRequest{Job: ref, Kind: record.TypeJob, Limit: 1}) {
		if err != nil {
			return record.NodeID{}, err
		}
		if f.entry.Job.Value.Delegate == g.cfg.Key.ID() {
			return f.entry.Job.By(), nil
		}
	}
	return record.NodeID{}, wire.Refuse(wire.NotFound, "no such job")
}
