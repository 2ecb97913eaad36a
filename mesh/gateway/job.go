package gateway

import (
	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

// A job is one that this gateway supervises, or did. What must survive is in state,
// a fold of the log; the rest is for those who watch. All but its ref and the signed
// terms is guarded by the gateway's mu.
type job struct {
	ref     record.Ref
	signed  record.Signed[record.Job]
	state   plan.State
	body    record.Body // zero once the job has ended
	name    string
	labels  map[string]string
	entry   uint64        // that admitted it
	created record.Millis // ledger time
	ended   record.Millis
	reason  record.Reason
	cause   *wire.Error // why it ends badly
	loss    string      // how the last attempt was lost

	placing           map[uint32]bool // shards between award and settlement
	closing           bool            // its Close is on the way
	cancelled         bool
	refused           int           // entries that the ledger would not have, in a row
	rest              record.Millis // after one: nothing is tried sooner
	far               record.Millis // round trip to the node that leased last, or -1
	auctioned, waited bool          // those who watch were told

	tasks  []task
	events []wire.JobEvent
	grown  chan struct{} // closed and replaced at each event
	ears   map[*ear]bool
}

// A task is what there is to see of one shard.
type task struct {
	info  wire.TaskInfo
	lease *record.Signed[record.Lease] // while it runs
}

// learn folds an entry that now stands in the log, tells those who watch, and reports
// whether it was new. One that was seen before changes nothing.
func (g *Gateway) learn(j *job, e record.Entry, at author.Place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := j.state.Apply(at.Time, e); err != nil {
		return false
	}
	g.book.Observe(at.Time, e)
	now := g.now()
	if at.Known {
		now = at.Time
	}
	if e.Lease != nil {
		g.takeFromLocked(e.Lease.Value.Bid.By(), j.signed.Value)
		j.far = g.rtt(e.Lease.Value.Bid.By())
	}
	j.fold(e, at, now)
	g.foldedLocked(j, e, now)
	return true
}

// A tenure is a lease that runs: whose, and how many bytes it may leave.
type tenure struct {
	job  *job
	node record.NodeID
	room int64
}

// foldedLocked notes what an entry of a job means for all of them.
func (g *Gateway) foldedLocked(j *job, e record.Entry, now record.Millis) {
	switch e.Kind {
	case record.TypeJob:
		g.live[j.ref] = true
		g.bearLocked(j, 1)
	case record.TypeLease:
		g.leases[e.Lease.Ref()] = tenure{j, e.Lease.Value.Bid.By(), int64(min(j.signed.Value.Limits.Output, 1<<40)) + spare}
	case record.TypeSettle:
		delete(g.leases, e.Settle.Receipt.Value.Lease)
	case record.TypeCut:
		delete(g.leases, e.Cut.Lease)
	case record.TypeCancel:
		g.cancelledLocked(j)
	}
	if j.ended != 0 && g.live[j.ref] {
		delete(g.live, j.ref)
		g.book.Drop(j.ref)
		g.bearLocked(j, -1)
		g.rememberLocked(j, now)
	}
}

// fold takes in an entry that has changed the job's state. It touches nothing else, so
// that a job of long ago can be folded beside those that live.
func (j *job) fold(e record.Entry, at author.Place, now record.Millis) {
	switch e.Kind {
	case record.TypeJob:
		j.entry, j.created = at.Index, at.Time
		j.tellLocked(now, wire.JobEvent{Kind: wire.Opened, Price: e.Job.Value.MaxTotal, Entry: at.Index})
	case record.TypeLease:
		j.leased(*e.Lease, now)
	case record.TypeSettle:
		j.settled(e.Settle, at, now)
	case record.TypeCut:
		j.cut(e.Cut.Lease, now)
	case record.TypeClose:
		j.end(e.Close.Why, at.Time, now)
	case record.TypeCancel:
		j.cancelled = true
	}
}

func (j *job) leased(l record.Signed[record.Lease], now record.Millis) {
	v, device := l.Value, l.Value.Bid.Value.Device
	j.refused = 0
	j.tasks[v.Shard] = task{lease: &l, info: wire.TaskInfo{Shard: v.Shard, Attempt: v.Attempt, State: "running", Node: v.Bid.By(),
		Device: &device, Rate: v.Rate, Lease: l.Ref()}}
	j.tellLocked(now, wire.JobEvent{Kind: wire.Leased, Shard: v.Shard, Attempt: v.Attempt, Node: v.Bid.By(), Device: &device,
		Rate: v.Rate, RTT: j.far})
}

func (j *job) settled(s *record.Settle, at author.Place, now record.Millis) {
	r := s.Receipt.Value
	t := &j.tasks[r.Shard]
	t.lease = nil
	t.info.State, t.info.Receipt, t.info.Price, t.info.Entry = "done", &s.Receipt, s.Voucher.Value.Amount, at.Index
	if !r.End.Paid() {
		t.info.State = "waiting"
	}
	j.tellLocked(now, wire.JobEvent{Kind: wire.Settled, Shard: r.Shard, Attempt: r.Attempt, Node: s.Receipt.By(), Receipt: &s.Receipt,
		Price: s.Voucher.Value.Amount, Entry: at.Index})
	if s.Last {
		j.end(record.Finished, at.Time, now)
	}
}

func (j *job) cut(lease record.Ref, now record.Millis) {
	for i := range j.tasks {
		t := &j.tasks[i]
		if t.info.Lease == lease {
			t.info.State, t.lease = "waiting", nil
			j.tellLocked(now, wire.JobEvent{Kind: wire.Lost, Shard: t.info.Shard, Attempt: t.info.Attempt, Node: t.info.Node})
		}
	}
}

func (j *job) end(why record.Reason, at, now record.Millis) {
	j.ended, j.reason, j.body = at, why, record.Body{}
	for i := range j.tasks {
		if t := &j.tasks[i].info; t.State == "waiting" {
			t.State = "failed"
		}
	}
	j.tellLocked(now, wire.JobEvent{Kind: wire.Ended, Reason: why, Price: j.state.Spent, Err: j.cause})
}

// cancelledLocked stops what runs for a tenant who wants no more of it.
func (g *Gateway) cancelledLocked(j *job) {
	g.book.Drop(j.ref)
	for _, l := range j.running() {
		g.haltLocked(l)
	}
}

// cancelLocked notes that no more of the job is wanted, and why: it is not the tenant's
// wish, which is an entry.
func (j *job) cancelLocked(cause *wire.Error) {
	j.state.Cancel()
	j.cancelled, j.cause = true, cause
}

// running returns the leases that run, by shard.
func (j *job) running() []record.Signed[record.Lease] {
	var list []record.Signed[record.Lease]
	for i := range j.tasks {
		if l := j.tasks[i].lease; l != nil {
			list = append(list, *l)
		}
	}
	return list
}

// newJob returns a job that has not been admitted yet.
func newJob(signed record.Signed[record.Job]) *job {
	j := &job{ref: signed.Ref(), signed: signed, grown: make(chan struct{}), ears: map[*ear]bool{}, placing: map[uint32]bool{},
		tasks: make([]task, signed.Value.Shards)}
	for i := range j.tasks {
		j.tasks[i].info = wire.TaskInfo{Shard: uint32(i), State: "waiting"}
	}
	return j
}
