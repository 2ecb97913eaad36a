package account

import (
	"math"

	"idlemesh/ledger/record"
)

// A Pace is how a lease is paid while it runs. Its rules are for both sides, so that each
// knows when the other will stop, and a cheat on either gains at most an interval.
type Pace struct {
	Rate     record.Amount // per hour of reference-GPU work
	Reserve  record.Amount // that vouchers may come to
	Interval record.Millis // from one voucher to the next
	// Credit is how much longer the provider goes on without one, as the lease allows
	// while the payer is away. Zero means not at all.
	Credit record.Millis
}

// A Stand is what a provider does about a run.
type Stand uint8

// Stands.
const (
	Go     Stand = iota + 1 // on with it
	Unpaid                  // pause: a voucher is missing
	Spent                   // pause: what is reserved is used up, and can be topped up
)

// Stand says what a provider does who has done so much work and had its last voucher, or
// the start of the run, at that time.
func (p Pace) Stand(now, last record.Millis, work record.Work) Stand {
	switch {
	case Charge(p.Rate, work) >= p.Reserve:
		return Spent
	case now-last > p.Interval+p.Credit:
		return Unpaid
	}
	return Go
}

// Pay returns the next voucher of a payer who has heard so much work claimed at that time
// and has signed last; false when there is none to sign. He does not pay for what he no
// longer hears of, for no progress, for more than most, which is the work that the device
// can have done by then, nor for more than is reserved.
func (p Pace) Pay(now, heard record.Millis, claimed, most record.Work, last record.Voucher) (record.Voucher, bool) {
	amount := min(Charge(p.Rate, claimed), p.Reserve)
	if now-heard > p.Interval || claimed <= last.Work || claimed > most || amount < last.Amount || last.N == math.MaxUint32 {
		return last, false
	}
	last.N, last.Amount, last.Work = last.N+1, amount, claimed
	return last, true
}

// Accepts reports whether a provider takes a voucher as the one after last, for at least
// the work that he had claimed an interval ago.
func (p Pace) Accepts(v, last record.Voucher, claimed record.Work) bool {
	return v.Lease == last.Lease && v.Epoch == last.Epoch && v.N > last.N && v.Work >= claimed &&
		v.Amount >= last.Amount && v.Amount >= min(Charge(p.Rate, claimed), p.Reserve) && v.Amount <= p.Reserve
}
