package account_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

var pace = account.Pace{Rate: 3600 * record.Credit, Reserve: 100 * record.Credit, Interval: 1000} // a credit a second

func TestStand(t *testing.T) {
	credit := pace
	credit.Credit = 5000
	for name, tc := range map[string]struct {
		p    account.Pace
		now  record.Millis
		work record.Work
		want account.Stand
	}{
		"at first":               {pace, 0, 0, account.Go},
		"within the interval":    {pace, 1000, 1e9, account.Go},
		"a voucher is missing":   {pace, 1001, 1e9, account.Unpaid},
		"on credit":              {credit, 6000, 6e9, account.Go},
		"the credit is over":     {credit, 6001, 6e9, account.Unpaid},
		"just below the reserve": {pace, 10, 100e9 - 1, account.Go},
		"the reserve is used up": {pace, 10, 100e9, account.Spent},
		"more than all numbers":  {pace, 10, math.MaxUint64, account.Spent},
		"used up and unpaid":     {pace, 5000, 100e9, account.Spent},
	} {
		if got := tc.p.Stand(tc.now, 0, tc.work); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestPay(t *testing.T) {
	last := record.Voucher{N: 4, Amount: 4 * record.Credit, Work: 4e9}
	for name, tc := range map[string]struct {
		now, heard    record.Millis
		claimed, most record.Work
		last          record.Voucher
		want          record.Amount
		ok            bool
	}{
		"as it should be":       {5000, 5000, 5e9, 6e9, last, 5 * record.Credit, true},
		"heard an interval ago": {6000, 5000, 5e9, 6e9, last, 5 * record.Credit, true},
		"heard no more":         {6001, 5000, 5e9, 6e9, last, 4 * record.Credit, false},
		"no progress":           {5000, 5000, 4e9, 6e9, last, 4 * record.Credit, false},
		"backwards":             {5000, 5000, 3e9, 6e9, last, 4 * record.Credit, false},
		"more than can be":      {5000, 5000, 6e9 + 1, 6e9, last, 4 * record.Credit, false},
		"above the reserve":     {5000, 5000, 500e9, 600e9, last, 100 * record.Credit, true},
		"no number left":        {5000, 5000, 5e9, 6e9, record.Voucher{N: math.MaxUint32}, 0, false},
	} {
		v, ok := pace.Pay(tc.now, tc.heard, tc.claimed, tc.most, tc.last)
		if ok != tc.ok || v.Amount != tc.want || ok && v.N != tc.last.N+1 {
			t.Errorf("%s: %+v, %v", name, v, ok)
		}
	}
}

func TestAccepts(t *testing.T) {
	last := record.Voucher{Lease: record.Ref{1}, Epoch: 1, N: 4, Amount: 4 * record.Credit, Work: 4e9}
	good := record.Voucher{Lease: record.Ref{1}, Epoch: 1, N: 5, Amount: 5 * record.Credit, Work: 5e9}
	if !pace.Accepts(good, last, 5e9) {
		t.Error("a good one is refused")
	}
	for name, change := range map[string]func(*record.Voucher){
		"replayed":          func(v *record.Voucher) { *v = last },
		"of another lease":  func(v *record.Voucher) { v.Lease = record.Ref{2} },
		"of another epoch":  func(v *record.Voucher) { v.Epoch = 2 },
		"for less work":     func(v *record.Voucher) { v.Work-- },
		"for less":          func(v *record.Voucher) { v.Amount-- },
		"above the reserve": func(v *record.Voucher) { v.Amount = 101 * record.Credit },
	} {
		v := good
		if change(&v); pace.Accepts(v, last, 5e9) {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestCheats plays runs in steps of 100 ms, in which either side may stop to do its part
// at any moment: the other loses at most an interval's work, or what the credit allows.
func TestCheats(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	for game := range 2000 {
		p := pace
		p.Interval = 1000 + record.Millis(r.IntN(5))*1000
		p.Credit = record.Millis(r.IntN(3)) * 2000
		stopPay, stopWork := record.Millis(r.IntN(60_000)), record.Millis(r.IntN(60_000))
		var (
			done, told record.Work // done in truth, and said
			v          record.Voucher
			paidAt     record.Millis
			heard      record.Millis
		)
		for now := record.Millis(0); now < 80_000; now += 100 {
			if p.Stand(now, paidAt, done) == account.Go && now < stopWork {
				done += 100e6 // as fast as the reference GPU
			}
			if now < stopWork { // then it says nothing more
				told, heard = done, now
			}
			if now%p.Interval != 0 || now >= stopPay {
				continue
			}
			next, ok := p.Pay(now, heard, told, record.Work(now+100)*1e6, v)
			if ok && p.Accepts(next, v, told) {
				v, paidAt = next, now
			}
		}
		lost := account.Charge(p.Rate, done) - v.Amount
		if most := account.Charge(p.Rate, record.Work(p.Interval+p.Credit+200)*1e6); lost > most {
			t.Fatalf("seed %d, game %d: the provider lost %v, at most %v", seed, game, lost, most)
		}
		if v.Amount > account.Charge(p.Rate, done) {
			t.Fatalf("seed %d, game %d: %v is paid for work of %v ms", seed, game, v.Amount, done)
		}
	}
}
