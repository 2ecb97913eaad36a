package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/wire"
)

// leads waits for a keeper to lead and returns which.
func leads(t *testing.T, m *meshtest.Mesh) *meshtest.Node {
	t.Helper()
	c := m.Client(m.Tenant)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for k, err := range c.Keepers(t.Context()) {
			if err != nil || !k.Leads {
				continue
			}
			for _, n := range append([]*meshtest.Node{m.Gate}, m.Keepers...) {
				if n.Key.ID() == k.ID {
					return n
				}
			}
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// TestKeeperEnds: a job goes on when a keeper is lost under it, the one that leads or
// one that follows; it is charged once, and every keeper's ledger verifies.
func TestKeeperEnds(t *testing.T) {
	for name, leading := range map[string]bool{"the one that leads": true, "one that follows": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := meshtest.NewQuorum(t, 3, seller(10, 0), seller(20, 0))
				c := m.Rich()
				job := submit(t, c, steps(60))
				until(t, c, job, wire.Progress)
				lead, lost := leads(t, m), m.Keepers[0]
				for ; lead == m.Gate; lead = leads(t, m) { // it must stay, for the job's sake
					m.Gate.Cut(true)
					time.Sleep(3 * time.Second)
					m.Gate.Cut(false)
				}
				if leading != (lead == lost) {
					lost = m.Keepers[1]
				}
				lost.Cut(true)
				all := until(t, c, job, wire.Ended)
				settled, ended := first(all, wire.Settled), first(all, wire.Ended)
				if ended.Reason != record.Finished || settled.Price == 0 {
					t.Errorf("settled %+v, ended %+v", settled, ended)
				}
				if _, err := c.Prove(t.Context(), settled.Entry); err != nil {
					t.Errorf("prove: %v", err)
				}
				lost.Cut(false)
				time.Sleep(time.Minute)
				money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{m.Sellers[0]: settled.Price})
				m.Verify()
			})
		})
	}
}
