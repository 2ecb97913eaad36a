package gateway

import (
	"context"
	"fmt"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/wire"
)

const (
	maxBody  = 2 << 20 // bytes, sealed
	maxTasks = 10_000  // of one job
)

// submit opens the escrow and queues the job's tasks. The job's Ref is the
// idempotency key, so a job sent again is the same job.
func (g *Gateway) submit(ctx context.Context, _ wire.Caller, q wire.JobRequest) (wire.Admitted, error) {
	if err := g.await(ctx); err != nil {
		return wire.Admitted{}, err
	}
	ref := q.Job.Ref()
	g.mu.Lock()
	known := g.jobs[ref]
	g.mu.Unlock()
	if known != nil && known.created != 0 {
		return wire.Admitted{Job: ref, Entry: known.entry, Known: true}, nil
	}
	body, err := g.check(q)
	if err != nil {
		return wire.Admitted{}, err
	}
	at, err := g.escrow(ctx, q, body)
	if err != nil {
		return wire.Admitted{}, err
	}
	return wire.Admitted{Job: ref, Entry: at.Index, Known: at.Known}, g.take(q.Job, body, at)
}

// check reads the sealed body and refuses a job that could not be run.
func (g *Gateway) check(q wire.JobRequest) (body record.Body, err error) {
	t := q.Job.Value
	switch {
	case t.Delegate != g.cfg.Key.ID():
		return body, wire.Refuse(wire.Denied, "submit: the job names another gateway as its delegate")
	case t.Shards == 0 || t.Shards > maxTasks:
		return body, wire.Refuse(wire.Invalid, fmt.Sprintf("submit: %d shards: want 1 to %d", t.Shards, maxTasks))
	case len(q.Body) > maxBody:
		return body, wire.Refuse(wire.Invalid, fmt.Sprintf("submit: a body of %d bytes: at most %d", len(q.Body), maxBody))
	case t.Expires < g.now():
		return body, wire.Refuse(wire.Invalid, "submit: the job has expired; check this machine's clock")
	}
	if body, err = g.unseal(q.Body); err != nil {
		return body, wire.Refuse(wire.Invalid, "submit: body: "+err.Error())
	}
	for _, b := range blobs(body) {
		if b.Size > 0 && !g.cfg.Blobs.Has(b.Ref) {
			return body, &wire.Error{Code: wire.Invalid, Text: fmt.Sprintf("submit: blob %s is not here", b.Ref.String()[:12]), Next: "upload it first"}
		}
	}
	return body, nil
}

func (g *Gateway) unseal(sealed []byte) (body record.Body, err error) {
	plain, err := g.opener.Open(sealed, wire.SealBody)
	if err == nil {
		err = record.Decode(plain, &body)
	}
	return body, err
}

// blobs lists what a body needs.
func blobs(b record.Body) []record.Blob {
	list := []record.Blob{b.Module}
	for _, in := range b.Inputs {
		list = append(append(list, in.Blob), in.Packs...)
	}
	return list
}

// escrow writes the job to the log while its body goes to disk.
func (g *Gateway) escrow(ctx context.Context, q wire.JobRequest, body record.Body) (author.Place, error) {
	stored := make(chan error, 1)
	go func() { stored <- g.keepJob(q.Job.Value, q.Body, body) }()
	at, err := g.cfg.Author.Append(ctx, opening(q.Job))
	if e := <-stored; err == nil {
		err = e
	}
	return at, err
}

func opening(j record.Signed[record.Job]) record.Entry {
	return record.Entry{Kind: record.TypeJob, Stream: j.Ref(), Idem: j.Ref(), Job: &j}
}

// take begins to supervise a job that stands in the log, once.
func (g *Gateway) take(signed record.Signed[record.Job], body record.Body, at author.Place) error {
	ref := signed.Ref()
	g.mu.Lock()
	if g.jobs[ref] != nil {
		g.mu.Unlock()
		return nil
	}
	j := newJob(signed)
	j.body, j.name, j.labels = body, body.Name, body.Labels
	g.jobs[ref] = j
	g.grantLocked(j)
	g.mu.Unlock()
	g.learn(j, opening(signed), at)
	g.want(j)
	return nil
}
