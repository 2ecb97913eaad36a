// Package plan is the life of one job as a state machine: which of its tasks want
// a provider, which run, which to try again, what each may spend, and when and why
// the job ends.
//
// A State is a fold of the job's ledger entries, so a gateway that adopts a job
// knows what the dead one knew. It is pure: time is an argument, and it decides
// nothing of money beyond how the escrow is shared out. A State is not safe for
// concurrent use.
package plan

import (
	"errors"
	"fmt"

	"idlemesh/ledger/record"
)

// MaxShards bounds a job's tasks, as the ledger does.
const MaxShards = 100_000

// Errors of Apply. The state has not changed.
var (
	// ErrForeign: the entry is not of this job.
	ErrForeign = errors.New("entry of another job")
	// ErrOrder: the entry does not follow from those before it; it may be applied
	// already, or come too early.
	ErrOrder = errors.New("entry out of order")
)

// A Phase is where a task stands.
type Phase uint8

// Phases.
const (
	Waiting Phase = iota // for a provider
	Leased               // a provider has it
	Done                 // it has its paid receipt, whatever the module's exit code
	Failed               // its last attempt was lost
)

var phases = [...]string{Waiting: "waiting", Leased: "leased", Done: "done", Failed: "failed"}

// String returns the phase's name.
func (p Phase) String() string { return phases[p] }

// MarshalText returns the phase's name.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// A Task is one shard.
type Task struct {
	Phase   Phase
	Attempt uint32        // the last one begun; 0 before the first
	Lease   record.Ref    // of that attempt
	Node    record.NodeID // that holds or held it
	Epoch   uint32        // of the job, when that attempt began
	Reserve record.Amount // of the escrow, while leased
	Vouched record.Amount // of the reserve: it is paid whatever becomes of the lease
	Since   record.Millis // in this phase
	NotTill record.Millis // no attempt sooner
	Lost    []record.NodeID
	Receipt *record.Signed[record.Receipt] // of the attempt that is done
}

// A State is a job and its tasks. The zero value is no job; its first entry is the
// Job.
type State struct {
	ID     record.Ref
	Job    record.Signed[record.Job]
	Tasks  []Task        // by shard; do not change
	Free   record.Amount // of the escrow: neither spent nor reserved
	Spent  record.Amount
	Epoch  uint32        // how often the job was adopted
	Closed record.Reason // zero while the job lives

	cancelled bool
	stopped   bool                  // a task ended because it was
	count     [4]int                // tasks by phase
	shard     map[record.Ref]uint32 // of live leases
	vouchers  map[record.Ref]uint32 // the highest posted of each of them
	added     map[record.Ref]bool   // top-ups, by key: nothing else tells one seen before
}

// Apply folds an entry of the job that the ledger accepted at that time. It returns
// ErrForeign for an entry of another job or of another kind, and ErrOrder for one
// that does not follow, such as one seen before: callers that read the log from two
// sides may ignore both.
func (s *State) Apply(at record.Millis, e record.Entry) error {
	err := s.apply(at, e)
	if err != nil {
		return fmt.Errorf("plan: %s: %w", e.Kind, err)
	}
	return nil
}

func (s *State) apply(at record.Millis, e record.Entry) error {
	switch {
	case e.Kind == record.TypeJob && e.Job != nil:
		return s.open(at, *e.Job)
	case e.Kind == record.TypeLease && e.Lease != nil:
		return s.lease(at, *e.Lease)
	case e.Kind == record.TypeSettle && e.Settle != nil:
		return s.settle(at, *e.Settle)
	case e.Kind == record.TypeCut && e.Cut != nil:
		return s.cut(at, e.Cut.Lease)
	case e.Kind == record.TypeClose && e.Close != nil:
		return s.close(*e.Close)
	case e.Kind == record.TypeCancel && e.Cancel != nil:
		return s.cancel(e.Cancel.Value)
	}
	return s.supervise(e)
}

func (s *State) open(at record.Millis, j record.Signed[record.Job]) error {
	switch n := j.Value.Shards; {
	case s.ID != (record.Ref{}) && s.ID != j.Ref():
		return ErrForeign
	case s.ID != (record.Ref{}):
		return ErrOrder
	case n == 0 || n > MaxShards:
		return fmt.Errorf("%d shards, want 1 to %d", n, MaxShards)
	}
	*s = State{ID: j.Ref(), Job: j, Free: j.Value.MaxTotal, Tasks: make([]Task, j.Value.Shards),
		shard: map[record.Ref]uint32{}, vouchers: map[record.Ref]uint32{}, added: map[record.Ref]bool{}, cancelled: s.cancelled}
	for i := range s.Tasks {
		s.Tasks[i].Since = at
	}
	s.count[Waiting] = len(s.Tasks)
	return nil
}

func (s *State) lease(at record.Millis, l record.Signed[record.Lease]) error {
	v := l.Value
	switch {
	case s.ID == (record.Ref{}) || v.Job != s.ID || v.Bid.Value.Job != s.ID || int64(v.Shard) >= int64(len(s.Tasks)):
		return ErrForeign
	case s.Closed != 0:
		return ErrOrder
	}
	t := &s.Tasks[v.Shard]
	switch {
	case t.Phase != Waiting || v.Attempt != t.Attempt+1 || v.Epoch != s.Epoch:
		return ErrOrder
	case v.Reserve > s.Free:
		return fmt.Errorf("%w: reserves %s of the %s that are free", ErrOrder, v.Reserve, s.Free)
	}
	s.Free -= v.Reserve
	s.move(t, Leased, at)
	t.Attempt, t.Lease, t.Node, t.Epoch, t.Reserve = v.Attempt, l.Ref(), v.Bid.By(), v.Epoch, v.Reserve
	s.shard[t.Lease] = v.Shard
	return nil
}

func (s *State) settle(at record.Millis, e record.Settle) error {
	r := e.Receipt.Value
	switch {
	case s.ID == (record.Ref{}) || r.Job != s.ID:
		return ErrForeign
	case s.Closed != 0:
		return ErrOrder
	}
	i, live := s.shard[r.Lease]
	if !live || i != r.Shard || s.Tasks[i].Attempt != r.Attempt || s.Tasks[i].Epoch != s.Epoch {
		return ErrOrder
	}
	t, pay := &s.Tasks[i], s.Tasks[i].Vouched
	if r.End.Paid() {
		pay = max(pay, e.Voucher.Value.Amount)
	}
	if pay > t.Reserve {
		return fmt.Errorf("%w: pays %s of a reserve of %s", ErrOrder, pay, t.Reserve)
	}
	if e.Last && !s.finishes(e.Receipt) {
		return fmt.Errorf("%w: closes a job that has tasks left", ErrOrder)
	}
	s.ended(t, pay)
	s.stopped = s.stopped || r.End == record.Cancelled
	if r.End.Paid() {
		t.Receipt = &e.Receipt
		s.move(t, Done, at)
	} else {
		s.lost(t, at)
	}
	if e.Last {
		s.Closed = record.Finished
	}
	return nil
}

func (s *State) cut(at record.Millis, lease record.Ref) error {
	i, live := s.shard[lease]
	switch {
	case s.ID == (record.Ref{}) || !live:
		return ErrForeign // of another job, or seen before: a cut does not say
	case s.Closed != 0:
		return ErrOrder
	}
	t := &s.Tasks[i]
	s.ended(t, t.Vouched)
	s.lost(t, at)
	return nil
}

func (s *State) close(c record.Close) error {
	switch {
	case s.ID == (record.Ref{}) || c.Job != s.ID:
		return ErrForeign
	case s.Closed != 0 || s.count[Leased] > 0 || c.Why == 0:
		return ErrOrder
	}
	s.Closed = c.Why
	return nil
}

func (s *State) cancel(c record.Cancel) error {
	switch {
	case s.ID == (record.Ref{}) || c.Job != s.ID:
		return ErrForeign
	case s.Closed != 0 || s.cancelled:
		return ErrOrder
	}
	s.cancelled = true
	return nil
}

// ended gives a lease's reserve back, but for what was paid.
func (s *State) ended(t *Task, pay record.Amount) {
	delete(s.shard, t.Lease)
	delete(s.vouchers, t.Lease)
	s.Free += t.Reserve - pay
	s.Spent += pay
	t.Reserve, t.Vouched = 0, 0
}

// Back-off after a lost attempt: 250 ms, doubled each time, at most half a minute. A
// node that lost a task is remembered, the last eight of them.
const (
	backOff    = 250
	maxBackOff = 30_000
	maxLost    = 8
)

func (s *State) lost(t *Task, at record.Millis) {
	t.Lost = append(t.Lost, t.Node)
	if len(t.Lost) > maxLost {
		t.Lost = t.Lost[len(t.Lost)-maxLost:]
	}
	t.NotTill = at + min(record.Millis(backOff)<<min(t.Attempt-1, 20), maxBackOff)
	if t.Attempt > s.Job.Value.Retries {
		s.move(t, Failed, at)
		return
	}
	s.move(t, Waiting, at)
}

func (s *State) move(t *Task, to Phase, at record.Millis) {
	s.count[t.Phase]--
	s.count[to]++
	t.Phase, t.Since = to, at
}
