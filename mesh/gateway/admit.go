package gateway

import (
	"context"
	"fmt"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/wire"
)

// submit opens the escrow and queues the job's tasks. The job's Ref is the
// idempotency key, so a job sent again is the same job.
func (g *Gateway) submit(ctx context.Context, _ wire.Caller, q wire.JobRequest) (wire.Admitted, error) {
	if err := g.await(ctx); err != nil {
		return wire.Admitted{}, err
	}
	ref := q.Job.Ref()
	if entry, known := g.admitted(ref); known {
		return wire.Admitted{Job: ref, Entry: entry, Known: true}, nil
	}
	body, err := g.check(q)
	if err != nil { // it may have been admitted, and have ended, long ago
		if j, e := g.recall(ctx, ref); e == nil && j.ended != 0 {
			return wire.Admitted{Job: ref, Entry: j.entry, Known: true}, nil
		}
		return wire.Admitted{}, err
	}
	at, err := g.escrow(ctx, q, body)
	if err != nil {
		return wire.Admitted{}, err
	}
	g.take(ctx, q, body, at, nil)
	return wire.Admitted{Job: ref, Entry: at.Index, Known: at.Known}, nil
}

func (g *Gateway) admitted(ref record.Ref) (entry uint64, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	j := g.jobs[ref]
	if j == nil || j.created == 0 {
		return 0, false
	}
	return j.entry, true
}

// Bounds of one job. A time beyond them is a mistake, or keeps this node's disk for
// nothing.
const (
	maxBody   = 2 << 20 // bytes, sealed
	maxTasks  = 10_000
	maxLabels = 64
	maxLabel  = 256 // bytes of a name, or of a label
	day       = 24 * 3_600_000
	maxWait   = 30 * day // to find a provider
	maxWall   = 30 * day
	maxKept   = 366 * day // retention
)

// check reads the sealed body and refuses a job that could not be run.
func (g *Gateway) check(q wire.JobRequest) (body record.Body, err error) {
	t, now := q.Job.Value, g.now()
	switch {
	case t.Delegate != g.cfg.Key.ID():
		return body, wire.Refuse(wire.Denied, "submit: the job names another gateway as its delegate")
	case t.Shards == 0 || t.Shards > maxTasks:
		return body, wire.Refuse(wire.Invalid, fmt.Sprintf("submit: %d shards: want 1 to %d", t.Shards, maxTasks))
	case len(q.Body) > maxBody:
		return body, wire.Refuse(wire.Invalid, fmt.Sprintf("submit: a body of %d bytes: at most %d", len(q.Body), maxBody))
	case blob.Sum(q.Body) != t.Body: // before any escrow opens
		return body, wire.Refuse(wire.Invalid, "submit: the body is not the one that the job names")
	case t.Expires < now:
		return body, wire.Refuse(wire.Invalid, "submit: the job has expired; check this machine's clock")
	case t.Expires > now+maxWait:
		return body, wire.Refuse(wire.Invalid, "submit: the job may wait for 30 days at most; check this machine's clock")
	case t.Limits.Wall > maxWall:
		return body, wire.Refuse(wire.Invalid, "submit: a task may run for 30 days at most; give a shorter --timeout")
	case t.Retention < 0 || t.Retention > maxKept:
		return body, wire.Refuse(wire.Invalid, "submit: outputs are kept for 366 days at most; give a shorter --retention")
	}
	if err := g.room(q); err != nil {
		return body, err
	}
	if body, err = g.unseal(q.Body); err != nil {
		return body, wire.Refuse(wire.Invalid, "submit: body: "+err.Error())
	}
	if err := g.checkBody(body); err != nil {
		return body, err
	}
	return body, g.fits(q.Job.By(), body)
}

func (g *Gateway) checkBody(body record.Body) error {
	long := len(body.Name) > maxLabel || len(body.Labels) > maxLabels
	for k, v := range body.Labels {
		long = long || len(k) > maxLabel || len(v) > maxLabel
	}
	if long {
		return wire.Refuse(wire.Invalid, fmt.Sprintf("submit: a name has at most %d bytes, a job at most %d labels of so many", maxLabel, maxLabels))
	}
	for _, b := range body.Blobs() {
		if b.Size == 0 {
			continue
		}
		n, here := g.cfg.Blobs.Size(b.Ref)
		switch {
		case !here:
			return &wire.Error{Code: wire.Invalid, Text: fmt.Sprintf("submit: blob %s is not here", b.Ref.String()[:12]), Next: "upload it first"}
		case uint64(n) != b.Size:
			return wire.Refuse(wire.Invalid, fmt.Sprintf("submit: blob %s has %d bytes, the job says %d", b.Ref.String()[:12], n, b.Size))
		}
	}
	return nil
}

func (g *Gateway) unseal(sealed []byte) (body record.Body, err error) {
	plain, err := g.opener.Open(sealed, wire.SealBody)
	if err == nil {
		err = record.Decode(plain, &body)
	}
	return body, err
}

// A load is what a tenant's jobs that have not ended take of this node.
type load struct {
	jobs, tasks int
	trusted     bool // his last job had its escrow
}

// What one tenant may have waiting or running at once. An escrow that comes back
// costs nothing, so money alone is no bound.
const (
	maxJobs    = 10_000
	maxWaiting = 100_000 // tasks
	maxTenants = 1 << 16 // that are remembered
)

func (g *Gateway) room(q wire.JobRequest) error {
	g.mu.Lock()
	l := g.loads[q.Job.By()]
	g.mu.Unlock()
	if l.jobs+1 > maxJobs || l.tasks+int(q.Job.Value.Shards) > maxWaiting {
		return &wire.Error{Code: wire.Funds, Text: fmt.Sprintf("submit: %d jobs with %d tasks are open: at most %d and %d a tenant",
			l.jobs, l.tasks, maxJobs, maxWaiting), Next: "wait for some to end, or meshctl job cancel"}
	}
	return nil
}

// bearLocked counts a job that begins (1) or ends (-1).
func (g *Gateway) bearLocked(j *job, sign int) {
	l := g.loads[j.signed.By()]
	l.jobs += sign
	l.tasks += sign * len(j.tasks)
	l.trusted = true
	g.loads[j.signed.By()] = l
	for id, l := range g.loads {
		if len(g.loads) <= maxTenants {
			break
		}
		if l.jobs == 0 {
			delete(g.loads, id)
		}
	}
}

// escrow writes the job to the log and its body to disk: at once for a tenant who has
// paid before, one after the other for others, so that nobody without money fills the
// disk.
func (g *Gateway) escrow(ctx context.Context, q wire.JobRequest, body record.Body) (author.Place, error) {
	keep := func() error { return g.keepJob(q.Job.Value, q.Body, body) }
	g.mu.Lock()
	trusted := g.loads[q.Job.By()].trusted
	g.mu.Unlock()
	stored := make(chan error, 1)
	if trusted {
		go func() { stored <- keep() }()
	}
	at, err := g.cfg.Author.Append(ctx, opening(q.Job))
	if err == nil && !trusted {
		stored <- keep()
	}
	if err != nil {
		g.distrust(q.Job.By())
		if trusted {
			<-stored
		}
		return at, err
	}
	if err := <-stored; err != nil { // its escrow stands in the log, and must come back
		g.take(ctx, q, body, at, err)
		return at, err
	}
	return at, nil
}

func (g *Gateway) distrust(id record.NodeID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l, known := g.loads[id]; known {
		l.trusted = false
		g.loads[id] = l
	}
}

func opening(j record.Signed[record.Job]) record.Entry {
	return record.Entry{Kind: record.TypeJob, Stream: j.Ref(), Idem: j.Ref(), Job: &j}
}

// take begins to supervise a job that stands in the log, once; unfit is why it cannot
// be run.
func (g *Gateway) take(ctx context.Context, q wire.JobRequest, body record.Body, at author.Place, unfit error) {
	ref := q.Job.Ref()
	if at.Known { // it may have ended, and been forgotten
		if j, err := g.recall(ctx, ref); err == nil && j.ended != 0 {
			return
		}
	}
	g.mu.Lock()
	if g.jobs[ref] != nil {
		g.mu.Unlock()
		return
	}
	j := newJob(q.Job)
	j.body, j.name, j.labels = body, body.Name, body.Labels
	if unfit != nil {
		j.cancelLocked(wire.Refuse(wire.Internal, unfit.Error()))
	}
	g.jobs[ref] = j
	g.grantLocked(j)
	g.mu.Unlock()
	g.learn(j, opening(q.Job), at)
	g.want(j)
}
