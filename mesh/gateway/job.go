package gateway

import (
	"context"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

// A job is one that this gateway supervises, or did. What must survive is in state,
// a fold of the log; the rest is for those who watch.
type job struct {
	signed  record.Signed[record.Job]
	state   plan.State
	body    record.Body // zero once the job has ended
	name    string
	labels  map[string]string
	entry   uint64        // that admitted it
	created record.Millis // ledger time
	ended   record.Millis
	reason  record.Reason
	cause   *wire.Error // why it ended badly
	spent   record.Amount

	placing           map[uint32]bool // shards between award and settlement
	closing           bool            // its Close is on the way
	auctioned, waited bool            // those who watch were told

	tasks  []task
	events []wire.JobEvent
	grown  chan struct{} // closed and replaced at each event
	ears   map[chan *wire.JobEvent]bool
}

// A task is what there is to see of one shard.
type task struct {
	info  wire.TaskInfo
	lease record.Signed[record.Lease]
}

const ear = 256 // passing events that wait for one watcher

// learn folds an entry that now stands in the log, and tells those who watch.
func (g *Gateway) learn(j *job, e record.Entry, at author.Place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := j.state.Apply(at.Time, e); err != nil {
		return // seen before
	}
	g.book.Observe(at.Time, e)
	switch e.Kind {
	case record.TypeJob:
		j.entry, j.created, g.live[j.state.ID] = at.Index, at.Time, true
		g.tellLocked(j, wire.JobEvent{Kind: wire.Opened, Price: e.Job.Value.MaxTotal, Entry: at.Index})
	case record.TypeLease:
		g.leasedLocked(j, *e.Lease)
	case record.TypeSettle:
		g.settledLocked(j, e.Settle, at)
	case record.TypeCut:
		g.cutLocked(j, e.Cut.Lease)
	case record.TypeClose:
		g.endLocked(j, e.Close.Why, at.Time)
	}
}

func (g *Gateway) leasedLocked(j *job, l record.Signed[record.Lease]) {
	v, device := l.Value, l.Value.Bid.Value.Device
	t := &j.tasks[v.Shard]
	t.lease = l
	t.info = wire.TaskInfo{Shard: v.Shard, Attempt: v.Attempt, State: "running", Node: v.Bid.By(), Device: &device, Rate: v.Rate, Lease: l.Ref()}
	g.tellLocked(j, wire.JobEvent{Kind: wire.Leased, Shard: v.Shard, Attempt: v.Attempt, Node: v.Bid.By(), Device: &device,
		Rate: v.Rate, RTT: g.rtt(v.Bid.By())})
}

func (g *Gateway) settledLocked(j *job, s *record.Settle, at author.Place) {
	r := s.Receipt.Value
	t := &j.tasks[r.Shard]
	t.info.State, t.info.Receipt, t.info.Price, t.info.Entry = "done", &s.Receipt, s.Voucher.Value.Amount, at.Index
	if !r.End.Paid() {
		t.info.State = "waiting"
	}
	j.spent += s.Voucher.Value.Amount
	g.tellLocked(j, wire.JobEvent{Kind: wire.Settled, Shard: r.Shard, Attempt: r.Attempt, Node: s.Receipt.By(), Receipt: &s.Receipt,
		Price: s.Voucher.Value.Amount, Entry: at.Index})
	g.grantOutputsLocked(j, r)
	if s.Last {
		g.endLocked(j, record.Finished, at.Time)
	}
}

func (g *Gateway) cutLocked(j *job, lease record.Ref) {
	for i := range j.tasks {
		t := &j.tasks[i]
		if t.info.Lease == lease {
			t.info.State = "waiting"
			g.tellLocked(j, wire.JobEvent{Kind: wire.Lost, Shard: t.info.Shard, Attempt: t.info.Attempt, Node: t.info.Node})
		}
	}
}

func (g *Gateway) endLocked(j *job, why record.Reason, at record.Millis) {
	j.ended, j.reason, j.body = at, why, record.Body{}
	delete(g.live, j.state.ID)
	for i := range j.tasks {
		if t := &j.tasks[i].info; t.State == "waiting" {
			t.State = "failed"
		}
		j.tasks[i].lease = record.Signed[record.Lease]{}
	}
	g.tellLocked(j, wire.JobEvent{Kind: wire.Ended, Reason: why, Price: j.spent, Err: j.cause})
}

// tellLocked keeps an event and wakes those who watch.
func (g *Gateway) tellLocked(j *job, e wire.JobEvent) {
	e.Time = g.now()
	j.events = append(j.events, e)
	close(j.grown)
	j.grown = make(chan struct{})
}

// pass gives an event to those who watch now; a slow one misses it.
func (g *Gateway) pass(j *job, e wire.JobEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.Time = g.now()
	for c := range j.ears {
		select {
		case c <- &e:
		default:
		}
	}
}

// newJob returns a job that has not been admitted yet.
func newJob(signed record.Signed[record.Job]) *job {
	j := &job{signed: signed, grown: make(chan struct{}), ears: map[chan *wire.JobEvent]bool{}, placing: map[uint32]bool{}, tasks: make([]task, signed.Value.Shards)}
	for i := range j.tasks {
		j.tasks[i].info = wire.TaskInfo{Shard: uint32(i), State: "waiting"}
	}
	return j
}

// watch sends what has happened to a job and what will, until it ends.
func (g *Gateway) watch(ctx context.Context, _ wire.Caller, q wire.WatchRequest, send func(wire.JobEvent) error) error {
	passing := make(chan *wire.JobEvent, ear)
	g.mu.Lock()
	j := g.jobs[q.Job]
	if j == nil {
		g.mu.Unlock()
		return wire.Refuse(wire.NotFound, "no such job")
	}
	j.ears[passing] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(j.ears, passing)
		g.mu.Unlock()
	}()
	for i := 0; ; {
		g.mu.Lock()
		fresh, grown := j.events[i:], j.grown
		g.mu.Unlock()
		for len(fresh) > 0 && len(passing) > 0 { // what was said before what is kept
			if err := sendPassing(*<-passing, q, send); err != nil {
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
		case e := <-passing:
			if err := sendPassing(*e, q, send); err != nil {
				return err
			}
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func sendPassing(e wire.JobEvent, q wire.WatchRequest, send func(wire.JobEvent) error) error {
	if e.Kind == wire.Said && !q.Output {
		return nil
	}
	return send(e)
}
