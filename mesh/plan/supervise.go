package plan

import (
	"fmt"
	"math"

	"idlemesh/ledger/record"
)

// supervise folds what changes a job while its leases run.
func (s *State) supervise(e record.Entry) error {
	switch {
	case e.Kind == record.TypeTopUp && e.TopUp != nil:
		return s.topUp(e.Idem, *e.TopUp)
	case e.Kind == record.TypeVoucher && e.Voucher != nil:
		return s.vouch(e.Voucher.Value)
	case e.Kind == record.TypeAdopt && e.Adopt != nil:
		return s.adopt(*e.Adopt)
	}
	return ErrForeign
}

// topUp adds to the escrow, or from it to what one lease may use.
func (s *State) topUp(key record.Ref, e record.TopUp) error {
	switch {
	case s.ID == (record.Ref{}) || e.Job != s.ID:
		return ErrForeign
	case s.Closed != 0 || s.added[key]:
		return ErrOrder
	}
	if e.Lease == (record.Ref{}) {
		if e.Amount > math.MaxUint64-s.Free {
			return fmt.Errorf("%w: adds %s to the %s that are free", ErrOrder, e.Amount, s.Free)
		}
		s.Free += e.Amount
		s.added[key] = true
		return nil
	}
	i, live := s.shard[e.Lease]
	switch {
	case !live:
		return ErrOrder
	case e.Amount > s.Free || e.Amount > math.MaxUint64-s.Tasks[i].Reserve:
		return fmt.Errorf("%w: reserves %s of the %s that are free", ErrOrder, e.Amount, s.Free)
	}
	s.Free -= e.Amount
	s.Tasks[i].Reserve += e.Amount
	s.added[key] = true
	return nil
}

// vouch notes what a lease that runs has come to.
func (s *State) vouch(v record.Voucher) error {
	i, live := s.shard[v.Lease]
	switch {
	case s.ID == (record.Ref{}) || !live:
		return ErrForeign // of another job, or of a lease that has ended: a voucher does not say
	case s.Closed != 0 || v.Epoch != s.Epoch || v.Epoch != s.Tasks[i].Epoch || v.N <= s.vouchers[v.Lease]:
		return ErrOrder
	}
	t := &s.Tasks[i]
	if v.Amount < t.Vouched || v.Amount > t.Reserve {
		return fmt.Errorf("%w: pays %s, after %s, of a reserve of %s", ErrOrder, v.Amount, t.Vouched, t.Reserve)
	}
	t.Vouched, s.vouchers[v.Lease] = v.Amount, v.N
	return nil
}

// adopt begins an epoch. What runs then can only be cut.
func (s *State) adopt(a record.Adopt) error {
	switch {
	case s.ID == (record.Ref{}) || a.Job != s.ID:
		return ErrForeign
	case s.Closed != 0 || s.Epoch == math.MaxUint32 || a.Epoch != s.Epoch+1:
		return ErrOrder
	}
	s.Epoch = a.Epoch
	return nil
}
