package market

import "idlemesh/ledger/record"

// A Standing is what ledger entries say of a provider: anyone who folds the same
// entries with the ledger's times has the same Standing. The zero value is a
// newcomer's.
type Standing struct {
	Good, Bad uint64        // leases honoured and lost, decayed, in millionths
	Day       int64         // that Good and Bad are decayed to, since the epoch
	Filled    record.Millis // last lease; zero is never
}

const (
	day = 86_400_000
	// decay is what is left after a day when half is left after 60.
	decay = 988_514
	most  = 1e12 // a million leases: more says no more
)

// After returns the standing after an entry about the provider: his lease, the
// settlement of one, or its cut. What the guest, a limit or the tenant ended is to
// his credit, what he lost is not.
func (s Standing) After(at record.Millis, e record.Entry) Standing {
	s = s.on(at)
	switch {
	case e.Kind == record.TypeLease:
		s.Filled = max(s.Filled, at)
	case e.Kind == record.TypeSettle && e.Settle != nil && e.Settle.Receipt.Value.End.Paid():
		s.Good = min(s.Good+ppm, most)
	case e.Kind == record.TypeSettle, e.Kind == record.TypeCut:
		s.Bad = min(s.Bad+ppm, most)
	}
	return s
}

// on returns the standing decayed to the day of at.
func (s Standing) on(at record.Millis) Standing {
	to := int64(at) / day
	if to <= s.Day {
		return s
	}
	if to-s.Day > 60*40 {
		s.Good, s.Bad, s.Day = 0, 0, to // 40 halvings leave nothing
	}
	for ; s.Day < to; s.Day++ {
		s.Good, s.Bad = record.MulDiv(s.Good, decay, ppm), record.MulDiv(s.Bad, decay, ppm)
	}
	return s
}

// Reliability returns q in ppm: the Wilson lower bound, at z = 1.645, of the share
// of leases honoured. Nothing known is 0.
func (s Standing) Reliability() uint32 {
	const z, zz = 1_645, 2_706_025 // thousandths; z² in millionths
	n := s.Good + s.Bad
	if n == 0 {
		return 0
	}
	spread := record.MulDiv(s.Good, s.Bad, n) + zz/4 // millionths, below 2^40
	high, low := s.Good+zz/2, record.MulDiv(root(spread*ppm), z, 1000)
	if low >= high {
		return 0
	}
	return uint32(record.MulDiv(high-low, ppm, n+zz))
}

// root is the square root of n, rounded down, by Newton's method from above.
func root(n uint64) uint64 {
	x := uint64(1) << 32
	for {
		y := (x + n/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}
