package plan

import (
	"slices"

	"idlemesh/ledger/record"
)

// A Want is a task that wants a provider.
type Want struct {
	Shard   uint32
	Attempt uint32          // that would begin, from 1
	Since   record.Millis   // it waits since then
	Avoid   []record.NodeID // lost it before, each once
}

// Cancel notes that no more of the job is wanted: nothing is, and End says ByTenant
// once no lease is live. A tenant's own wish is an entry; this is for what a gateway
// finds out, of which the ledger does not know until the job is closed.
func (s *State) Cancel() { s.cancelled = true }

// Live returns how many tasks have a provider.
func (s *State) Live() int { return s.count[Leased] }

// Begun reports whether any task has ever had a provider.
func (s *State) Begun() bool {
	return slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Attempt > 0 })
}

// Todo returns the tasks that want a provider at now: none while they back off, nor
// when one task has failed for good, the job has expired, or is cancelled or closed.
func (s *State) Todo(now record.Millis) []Want {
	if s.over() || now > s.Job.Value.Expires || s.count[Waiting] == 0 {
		return nil
	}
	var todo []Want
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Phase != Waiting || t.NotTill > now {
			continue
		}
		w := Want{Shard: uint32(i), Attempt: t.Attempt + 1, Since: t.Since}
		for _, id := range t.Lost {
			if !slices.Contains(w.Avoid, id) {
				w.Avoid = append(w.Avoid, id)
			}
		}
		todo = append(todo, w)
	}
	return todo
}

// over reports whether no further attempt can help.
func (s *State) over() bool { return s.cancelled || s.Closed != 0 || s.count[Failed] > 0 }

// Reserve returns how much of the escrow the next lease may use: an even share of
// what is free among the tasks that wait, rounded down. So leases never exceed
// MaxTotal together and every task can start; what one leaves goes to those after it.
func (s *State) Reserve() record.Amount {
	return s.Free / record.Amount(max(s.count[Waiting], 1))
}

// End reports whether the job should be closed at now, and why. While leases are
// live it waits for them. It is zero and false for a job that is closed.
func (s *State) End(now record.Millis) (record.Reason, bool) {
	switch {
	case s.Closed != 0 || s.count[Leased] > 0 || len(s.Tasks) == 0:
		return 0, false
	case s.count[Done] == len(s.Tasks) && !s.stopped:
		return record.Finished, true
	case s.cancelled || s.stopped:
		return record.ByTenant, true
	case s.count[Failed] > 0:
		return record.GivenUp, true
	case now > s.Job.Value.Expires:
		return record.Expired, true
	case s.Reserve() == 0 && s.Job.Value.MaxTotal > 0:
		return record.Unaffordable, true
	}
	return 0, false
}

// Stop reports whether live leases should be stopped: the job was cancelled. Those of
// a job that has given up or expired end by themselves, and are paid.
func (s *State) Stop() bool { return s.cancelled && s.count[Leased] > 0 }

// Last reports whether the settlement of r finishes the job, so that it can close
// the escrow in the same entry. A job whose tenant had a task stopped is not finished:
// it is closed with that reason.
func (s *State) Last(r record.Signed[record.Receipt]) bool {
	return s.finishes(r) && r.Value.End != record.Cancelled && !s.stopped
}

// finishes reports whether no task is left after the settlement of r.
func (s *State) finishes(r record.Signed[record.Receipt]) bool {
	i, live := s.shard[r.Value.Lease]
	return live && i == r.Value.Shard && r.Value.End.Paid() && s.Closed == 0 && s.count[Done] == len(s.Tasks)-1
}
