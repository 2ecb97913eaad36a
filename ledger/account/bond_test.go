package account_test

import (
	"math"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

func TestSlash(t *testing.T) {
	who := id(provider)
	for name, tc := range map[string]struct {
		bond, held, leaving record.Amount
		ppm                 uint32
		sum, left, holds    record.Amount
		stays               record.Amount // of what is leaving
	}{
		"nothing there":            {ppm: 1e6},
		"nothing of it":            {bond: 100, held: 50, left: 100, holds: 50},
		"half, of the bond":        {bond: 100, held: 50, ppm: 500_000, sum: 75, left: 25, holds: 50},
		"more than the bond":       {bond: 10, held: 90, ppm: 500_000, sum: 50, left: 0, holds: 50},
		"all":                      {bond: 10, held: 90, ppm: 1e6, sum: 100},
		"more than all":            {bond: 10, held: 90, ppm: math.MaxUint32, sum: 100},
		"what leaves as well":      {bond: 100, leaving: 80, ppm: 500_000, sum: 50, left: 50, stays: 50},
		"what leaves is untouched": {bond: 100, leaving: 40, ppm: 500_000, sum: 50, left: 50, stays: 40},
		"all that leaves":          {bond: 100, leaving: 100, ppm: 1e6, sum: 100},
		"rounded down":             {bond: 3, ppm: 500_000, sum: 1, left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaps()
			m.balance[account.ID{Kind: account.Stake, Owner: who}] = account.Balance{CreditsPosted: tc.bond}
			m.balance[account.ID{Kind: account.Holdback, Owner: who}] = account.Balance{CreditsPosted: tc.held}
			facts := []account.Fact{{Name: account.Name{Kind: account.FactVesting, Of: who}, Value: account.Vesting{}.Hold(now, 10, tc.held)}}
			if tc.leaving > 0 {
				facts = append(facts, account.Fact{Name: account.Name{Kind: account.FactLeaving, Of: who},
					Value: account.Leaving{Parts: []account.LeavingPart{{Amount: tc.leaving / 2, Ripe: now}, {Amount: tc.leaving - tc.leaving/2, Ripe: now + 1}}}})
			}
			m.store(account.Effects{Facts: facts})
			f, sum, err := account.Slash(m, who, tc.ppm)
			if err != nil || sum != tc.sum {
				t.Fatalf("slash = %v, %v; want %v", sum, err, tc.sum)
			}
			m.store(f)
			if got := m.free(account.Stake, who); got != tc.left {
				t.Errorf("the bond is %v, want %v", got, tc.left)
			}
			if got := m.free(account.Holdback, who); got != tc.holds {
				t.Errorf("held back %v, want %v", got, tc.holds)
			}
			if got := m.free(account.Insurance, [32]byte{}); got != tc.sum {
				t.Errorf("the insurance has %v, want %v", got, tc.sum)
			}
			err = m.post(stranger, now+400*day, vest(provider))
			if want := tc.holds+tc.stays > 0; (err == nil) != want {
				t.Fatalf("vest: %v", err)
			}
			if got := m.free(account.Provider, who); got != tc.holds {
				t.Errorf("vested %v, want %v", got, tc.holds)
			}
			if got := m.free(account.Tenant, who); got != tc.stays {
				t.Errorf("came back %v, want %v", got, tc.stays)
			}
		})
	}
}
