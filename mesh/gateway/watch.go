package gateway

import (
	"context"
	"sync/atomic"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// An ear is one watcher's queue of what passes. A slow one misses some of it.
type ear struct {
	queue chan *wire.JobEvent
	bytes atomic.Int64
}

// Bounds of what waits for one watcher.
const (
	maxQueued = 256
	maxHeard  = 4 << 20 // bytes
)

func (e *ear) put(x *wire.JobEvent) {
	if e.bytes.Add(int64(len(x.Data))) > maxHeard {
		e.bytes.Add(-int64(len(x.Data)))
		return
	}
	select {
	case e.queue <- x:
	default:
		e.bytes.Add(-int64(len(x.Data)))
	}
}

// tellLocked keeps an event and wakes those who watch.
func (j *job) tellLocked(now record.Millis, e wire.JobEvent) {
	e.Time = now
	j.events = append(j.events, e)
	close(j.grown)
	j.grown = make(chan struct{})
}

// pass gives an event to those who watch now.
func (g *Gateway) pass(j *job, e wire.JobEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.Time = g.now()
	for x := range j.ears {
		x.put(&e)
	}
}

// listen returns a watcher's queue of a job; leave ends it.
func (g *Gateway) listen(ctx context.Context, ref record.Ref) (j *job, x *ear, leave func(), err error) {
	if j, err = g.find(ctx, ref); err != nil {
		return nil, nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if j.ended == 0 && g.jobs[ref] != j { // nobody would tell its events
		return nil, nil, nil, wire.Refuse(wire.Unavailable, "the job is being admitted; try again")
	}
	x = &ear{queue: make(chan *wire.JobEvent, maxQueued)}
	j.ears[x] = true
	return j, x, func() {
		g.mu.Lock()
		delete(j.ears, x)
		g.mu.Unlock()
	}, nil
}

// watch sends what has happened to a job and what will, until it ends.
func (g *Gateway) watch(ctx context.Context, _ wire.Caller, q wire.WatchRequest, send func(wire.JobEvent) error) error {
	j, x, leave, err := g.listen(ctx, q.Job)
	if err != nil {
		return err
	}
	defer leave()
	pass := func(e *wire.JobEvent) error {
		x.bytes.Add(-int64(len(e.Data)))
		if e.Kind == wire.Said && !q.Output {
			return nil
		}
		return send(*e)
	}
	for i := 0; ; {
		g.mu.Lock()
		fresh, grown := j.events[i:], j.grown
		g.mu.Unlock()
		for len(fresh) > 0 && len(x.queue) > 0 { // what was said before what is kept
			if err := pass(<-x.queue); err != nil {
				return err
			}
		}
		for _, e := range fresh {
			i++
			if err := send(e); err != nil || e.Kind == wire.Ended {
				return err
			}
		}
		select {
		case e := <-x.queue:
			if err := pass(e); err != nil {
				return err
			}
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
