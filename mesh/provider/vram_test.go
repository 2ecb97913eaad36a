package provider

import (
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// TestFractions: bids promise no more of the device's memory than it has, each what its job
// says, or a slot's part.
func TestFractions(t *testing.T) {
	const g = 1 << 30
	gateway, tenant := newKey(t), newKey(t)
	for name, tc := range map[string]struct {
		backend    string
		limit, min uint64
		bids       int
		each       uint64
	}{
		"a slot's part":            {"simulated", 0, 0, 4, 6 * g},
		"what it needs":            {"simulated", 0, 10 * g, 2, 10 * g},
		"its limit":                {"simulated", 5 * g, 0, 4, 5 * g},
		"its limit above its need": {"simulated", 12 * g, 10 * g, 2, 12 * g},
		"all":                      {"simulated", 24 * g, 0, 1, 24 * g},
		"more than there is":       {"simulated", 99 * g, 0, 1, 24 * g},
		"next to nothing":          {"simulated", 1, 0, 4, 1},
		"processors do not share":  {"cpu", 20 * g, 0, 4, 20 * g},
		"nor take parts":           {"cpu", 0, 10 * g, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, 4)
			p.device = record.Device{Model: "m", Backend: tc.backend, VRAM: 24 * g}
			job, err := record.Sign(tenant, record.Job{Tier: record.Bronze, Delegate: gateway.ID(), Shards: 9,
				Needs: record.Needs{VRAM: tc.min}, Limits: record.Limits{VRAM: tc.limit}})
			if err != nil {
				t.Fatal(err)
			}
			ask := func(n uint32) int {
				r, err := p.bid(t.Context(), wire.Caller{ID: gateway.ID()}, wire.Solicitation{Job: job, N: n})
				if err != nil && !wire.Is(err, wire.Unavailable) {
					t.Errorf("bid: %v", err)
				}
				return len(r.Bids)
			}
			got := ask(1)
			got += ask(9)
			if more := ask(1); got != tc.bids || more != 0 || p.vram != 0 {
				t.Errorf("%d bids and %d more, want %d; %d bytes stay promised to none", got, more, tc.bids, p.vram)
			}
			for _, h := range p.holds {
				if h.vram != tc.each {
					t.Errorf("a bid promises %d bytes, want %d", h.vram, tc.each)
				}
			}
		})
	}
}
