package node_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/wire"
)

// TestStorm cuts off, kills and restarts nodes at random while array jobs run. When it
// is over every job has ended, each of its shards was paid once, and every credit is
// accounted for. IDLEMESH_STORMS sets how many seeds it plays.
func TestStorm(t *testing.T) {
	storms, err := strconv.Atoi(os.Getenv("IDLEMESH_STORMS"))
	if err != nil {
		storms = 2
	}
	for seed := range storms {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(uint64(seed), 1))) })
		})
	}
}

func storm(t *testing.T, chance *rand.Rand) {
	m := meshtest.New(t, seller(10, 0), seller(20, 20*time.Millisecond), seller(30, 50*time.Millisecond), seller(40, 0))
	c := m.Rich()
	var jobs []record.Ref
	for i := range 4 {
		r := steps(5 + 10*i)
		r.Shards, r.Retries, r.MaxTotal = 3, 100, 500*record.Credit
		jobs = append(jobs, submit(t, c, r))
	}
	for range 40 {
		time.Sleep(time.Duration(chance.IntN(6000)) * time.Millisecond)
		blow(m, chance)
	}
	m.Gate.Cut(false)
	for _, s := range m.Sellers {
		s.Cut(false)
	}
	c = m.Client(m.Tenant)
	earned := map[*meshtest.Node]record.Amount{}
	var paid record.Amount
	for _, job := range jobs {
		p := reckon(t, c, job)
		for id, x := range p {
			earned[m.Seller(id)] += x
			paid += x
		}
	}
	money(t, m, c, paid, earned)
	m.Verify()
}

// blow lets something happen to one node.
func blow(m *meshtest.Mesh, chance *rand.Rand) {
	n := m.Gate
	if i := chance.IntN(len(m.Sellers) + 2); i < len(m.Sellers) {
		n = m.Sellers[i]
	}
	switch chance.IntN(4) {
	case 0:
		n.Cut(true)
	case 1:
		n.Cut(false)
	case 2: // it stops as it should
		n.Stop()
		n.Start()
	case 3: // it dies without a word
		n.Cut(true)
		n.Stop()
		n.Cut(false)
		time.Sleep(time.Duration(chance.IntN(20_000)) * time.Millisecond)
		n.Start()
	}
}

// reckon waits for a job's end and returns who earned what by it.
func reckon(t *testing.T, c *client.Client, job record.Ref) map[record.NodeID]record.Amount {
	t.Helper()
	shards, earned := map[uint32]int{}, map[record.NodeID]record.Amount{}
	all := until(t, c, job, wire.Ended)
	for _, e := range all {
		if e.Kind == wire.Settled && e.Receipt.Value.End.Paid() {
			shards[e.Shard]++
			earned[e.Node] += e.Price
		}
	}
	ended := first(all, wire.Ended)
	if first(all, wire.Leased).Attempt == 0 && ended.Reason == record.Expired {
		return nil // there was nobody when its gateway came back
	}
	if ended.Reason != record.Finished || shards[0] != 1 || shards[1] != 1 || shards[2] != 1 {
		t.Errorf("%s ended with %v, %+v, its shards were paid %v times", job.JobID(), ended.Reason, ended.Err, shards)
	}
	return earned
}
