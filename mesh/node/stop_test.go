package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/wire"
)

// TestOrderlyStopCostsNoAttempt: a node of all roles that is stopped in order, again and
// again, goes on with its jobs under the leases that they have. They have lost no attempt,
// wait for no back-off, and are charged once.
func TestOrderlyStopCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t)
		m.Gate.Stop()
		m.Gate.Config.Provider = true
		m.Gate.Start()
		c := m.Rich()
		r := steps(20)
		r.Retries, r.Shards, r.MaxTotal = 0, 2, 100*record.Credit
		job := submit(t, c, r)
		// A lease that has not been started yet when its node stops is lost.
		for seen := map[uint32]bool{}; len(seen) < 2; time.Sleep(100 * time.Millisecond) {
			for _, e := range until(t, c, job, wire.Progress) {
				if e.Kind == wire.Progress {
					seen[e.Shard] = true
				}
			}
		}
		for range 3 {
			until(t, c, job, wire.Progress)
			m.Gate.Stop()
			m.Gate.Start()
			c = m.Client(m.Tenant)
		}
		begin := time.Now()
		all := until(t, c, job, wire.Ended)
		if e := first(all, wire.Ended); e.Reason != record.Finished || time.Since(begin) > 30*time.Second {
			t.Errorf("ended %v, %v after %v", e.Reason, e.Err, time.Since(begin))
		}
		n := entries(t, c, job)
		if n[record.TypeLease] != 2 || n[record.TypeSettle] != 2 || n[record.TypeCut] != 0 {
			t.Errorf("the log has %v", n)
		}
		var paid record.Amount
		for _, e := range all {
			if e.Kind == wire.Settled {
				paid += e.Price
			}
		}
		if b, err := c.Balance(t.Context(), m.Gate.Key.ID()); err != nil || b.Earned != paid || paid == 0 {
			t.Errorf("earned %v of %v, %v", b.Earned, paid, err)
		}
		m.Verify()
	})
}
