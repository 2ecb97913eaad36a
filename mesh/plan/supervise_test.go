package plan

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"idlemesh/ledger/record"
)

func voucher(t testing.TB, of record.Entry, n uint32, amount record.Amount) record.Entry {
	v := sign(t, 0, record.Voucher{Lease: of.Lease.Ref(), Epoch: of.Lease.Value.Epoch, N: n, Amount: amount})
	return record.Entry{Kind: record.TypeVoucher, Voucher: &v}
}

func topUp(key byte, job, lease record.Ref, amount record.Amount) record.Entry {
	return record.Entry{Kind: record.TypeTopUp, Idem: record.Ref{key}, TopUp: &record.TopUp{Job: job, Lease: lease, Amount: amount}}
}

func adopt(job record.Ref, epoch uint32) record.Entry {
	return record.Entry{Kind: record.TypeAdopt, Adopt: &record.Adopt{Job: job, Epoch: epoch}}
}

// TestVouched: what was vouched for a lease is spent, however the lease ends.
func TestVouched(t *testing.T) {
	for name, tc := range map[string]struct {
		end   func(l record.Entry) record.Entry
		spent record.Amount
	}{
		"cut":           {end: cut, spent: 30},
		"the node lost": {end: func(l record.Entry) record.Entry { return settle(t, l, record.NodeLost, 0, false) }, spent: 30},
		"done":          {end: func(l record.Entry) record.Entry { return settle(t, l, record.Exited, 50, true) }, spent: 50},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			open := job(t, 1, 1, 100)
			l := lease(t, open.Job.Ref(), 0, 1, 1, 100)
			apply(t, &s, 0, open, l, voucher(t, l, 1, 10), voucher(t, l, 4, 30), tc.end(l))
			if s.Spent != tc.spent || s.Free != 100-tc.spent || s.Tasks[0].Vouched != 0 || len(s.vouchers) != 0 {
				t.Errorf("spent %d, free %d, still vouched %d; want %d spent", s.Spent, s.Free, s.Tasks[0].Vouched, tc.spent)
			}
		})
	}
}

// TestTopUp: what is added can be leased, and a job that could afford no more can again.
func TestTopUp(t *testing.T) {
	var s State
	open := job(t, 1, 2, 100)
	id := open.Job.Ref()
	a := lease(t, id, 0, 1, 1, 100)
	apply(t, &s, 0, open, a, voucher(t, a, 1, 100), cut(a))
	if why, over := s.End(1000); !over || why != record.Unaffordable {
		t.Errorf("End = %v, %v with nothing left", why, over)
	}
	apply(t, &s, 0, topUp(1, id, record.Ref{}, 40))
	if _, over := s.End(1000); over || s.Reserve() != 40 {
		t.Errorf("over %v, reserve %d after a top-up of 40", over, s.Reserve())
	}
	b := lease(t, id, 0, 2, 1, 30)
	apply(t, &s, 1000, b, topUp(2, id, b.Lease.Ref(), 10), voucher(t, b, 1, 40))
	if s.Free != 0 || s.Tasks[0].Reserve != 40 {
		t.Errorf("free %d, reserve %d, want 0 and 40", s.Free, s.Tasks[0].Reserve)
	}
	apply(t, &s, 1000, settle(t, b, record.Exited, 40, true))
	if s.Spent != 140 || s.Free != 0 {
		t.Errorf("spent %d, free %d, want 140 and 0", s.Spent, s.Free)
	}
}

// TestAdopted: after an adoption what ran can only be cut, and what begins is of the new
// epoch.
func TestAdopted(t *testing.T) {
	var s State
	open := job(t, 1, 1, 100)
	id := open.Job.Ref()
	a := lease(t, id, 0, 1, 1, 60)
	apply(t, &s, 0, open, a, voucher(t, a, 1, 20), adopt(id, 1))
	for what, e := range map[string]record.Entry{"voucher": voucher(t, a, 2, 30), "settlement": settle(t, a, record.Exited, 50, true)} {
		if err := s.Apply(0, e); !errors.Is(err, ErrOrder) {
			t.Errorf("%s of the epoch before: %v", what, err)
		}
	}
	apply(t, &s, 0, cut(a))
	if err := s.Apply(0, lease(t, id, 0, 2, 2, 80)); !errors.Is(err, ErrOrder) {
		t.Errorf("lease of the epoch before: %v", err)
	}
	l := sign(t, 0, record.Lease{Bid: sign(t, 2, record.Bid{Job: id}), Job: id, Attempt: 2, Epoch: 1, Reserve: 80})
	b := record.Entry{Kind: record.TypeLease, Lease: &l}
	apply(t, &s, 0, b, voucher(t, b, 1, 5), settle(t, b, record.Exited, 10, true))
	if s.Spent != 30 || s.Closed != record.Finished {
		t.Errorf("spent %d, closed %v, want 30 and finished", s.Spent, s.Closed)
	}
}

// TestSuperviseRefuses: an entry that does not follow changes nothing.
func TestSuperviseRefuses(t *testing.T) {
	open := job(t, 1, 1, 100)
	id := open.Job.Ref()
	l := lease(t, id, 0, 1, 1, 60)
	gone := lease(t, id, 0, 2, 1, 60)
	late := sign(t, 0, record.Voucher{Lease: l.Lease.Ref(), Epoch: 1, N: 9, Amount: 30})
	for name, tc := range map[string]struct {
		e    record.Entry
		want error
	}{
		"voucher seen before":               {voucher(t, l, 3, 20), ErrOrder},
		"voucher overtaken":                 {voucher(t, l, 2, 20), ErrOrder},
		"voucher takes back":                {voucher(t, l, 4, 19), ErrOrder},
		"voucher above the reserve":         {voucher(t, l, 4, 66), ErrOrder},
		"voucher of another epoch":          {record.Entry{Kind: record.TypeVoucher, Voucher: &late}, ErrOrder},
		"voucher of no live lease":          {voucher(t, gone, 1, 1), ErrForeign},
		"top-up seen before":                {topUp(1, id, record.Ref{}, 5), ErrOrder},
		"top-up of another job":             {topUp(3, record.Ref{9}, record.Ref{}, 5), ErrForeign},
		"top-up overflows":                  {topUp(3, id, record.Ref{}, math.MaxUint64), ErrOrder},
		"lease's top-up seen before":        {topUp(2, id, l.Lease.Ref(), 5), ErrOrder},
		"lease's top-up above what is free": {topUp(3, id, l.Lease.Ref(), 41), ErrOrder},
		"top-up of no live lease":           {topUp(3, id, gone.Lease.Ref(), 1), ErrOrder},
		"adopted by a leap":                 {adopt(id, 2), ErrOrder},
		"adopted backwards":                 {adopt(id, 0), ErrOrder},
		"adopted elsewhere":                 {adopt(record.Ref{9}, 1), ErrForeign},
		"a delegation":                      {record.Entry{Kind: record.TypeDelegate, Delegate: &record.Delegation{Job: id}}, ErrForeign},
		"parameters":                        {record.Entry{Kind: record.TypeParams, Change: &record.Change{N: 1}}, ErrForeign},
		"a voucher without a body":          {record.Entry{Kind: record.TypeVoucher}, ErrForeign},
		"a kind of later":                   {record.Entry{Kind: 60_000}, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			var s, none State
			apply(t, &s, 0, open, l, voucher(t, l, 3, 20), topUp(1, id, record.Ref{}, 5), topUp(2, id, l.Lease.Ref(), 5))
			task, free := s.Tasks[0], s.Free
			if err := s.Apply(0, tc.e); !errors.Is(err, tc.want) {
				t.Errorf("Apply = %v, want %v", err, tc.want)
			}
			if !reflect.DeepEqual(s.Tasks[0], task) || s.Free != free || s.Epoch != 0 || s.Spent != 0 {
				t.Errorf("changed to %+v", s)
			}
			if err := none.Apply(0, tc.e); !errors.Is(err, ErrForeign) {
				t.Errorf("before its job: %v", err)
			}
		})
	}
}
