package node_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
)

// A sensor shows what a test wants seen.
type sensor struct {
	mu    sync.Mutex
	shows policy.Sight
	err   error
}

func (s *sensor) Read([]int) (policy.Sight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shows, s.err
}

func (s *sensor) show(x policy.Sight, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shows, s.err = x, err
}

// TestOwnerComesBack: work of the owner's own ends what runs within his hand-back time;
// the task goes elsewhere, and the device is for sale again when it has rested.
func TestOwnerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cheap, eye := seller(10, 0), &sensor{}
		cheap.Config.Sensor = eye
		m := meshtest.New(t, cheap, seller(20, 0))
		c, node := m.Rich(), m.Client(m.Tenant, cheap)
		state := func() string {
			s, err := node.Status(t.Context(), cheap.Key.ID())
			if err != nil {
				t.Fatal(err)
			}
			return s.Offer.State
		}
		job := submit(t, c, steps(30))
		until(t, c, job, wire.Progress)
		eye.show(policy.Sight{Processes: 1}, nil)
		begin := time.Now()
		lost := first(until(t, c, job, wire.Lost), wire.Lost)
		if d := time.Since(begin); lost.Node != cheap.Key.ID() || d > policy.HandBack.Duration() {
			t.Errorf("lost by %s after %v", lost.Node.Short(), d)
		}
		settled := first(until(t, c, job, wire.Ended), wire.Settled)
		if settled.Node != m.Sellers[1].Key.ID() || settled.Price == 0 {
			t.Errorf("settled %+v", settled)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{m.Sellers[1]: settled.Price})
		eye.show(policy.Sight{}, errors.New("the driver is being updated")) // which is not his work
		time.Sleep(178 * time.Second)
		if s := state(); s != "reclaimed" {
			t.Errorf("%s while it should rest", s)
		}
		time.Sleep(4 * time.Second)
		if s := state(); s != "free" {
			t.Errorf("%s after its rest", s)
		}
		m.Verify()
	})
}

// TestPause: the owner's word is obeyed at once, and his alone. A job that nobody else
// takes waits for him.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, one := meshtest.NewKey(t), seller(10, 0)
		one.Config.Operator = owner.ID()
		m := meshtest.New(t, one)
		c, his, other := m.Rich(), m.Client(owner, one), m.Client(meshtest.NewKey(t), one)
		job := submit(t, c, steps(30))
		until(t, c, job, wire.Progress)
		_, err := other.Wish(t.Context(), one.Key.ID(), uint8(policy.Pause))
		denied(t, "pauses a node", err)
		begin := time.Now()
		o, err := his.Wish(t.Context(), one.Key.ID(), uint8(policy.Pause))
		if err != nil || o.State != "reclaimed" || o.Why == "" || o.Leases != 0 || o.Open || time.Since(begin) > time.Second {
			t.Errorf("paused: %+v, %v after %v", o, err, time.Since(begin))
		}
		until(t, c, job, wire.Lost)
		time.Sleep(5 * time.Minute)
		if o, err := his.Wish(t.Context(), one.Key.ID(), uint8(policy.Sell)); err != nil || o.State != "free" || !o.Open {
			t.Errorf("resumed: %+v, %v", o, err)
		}
		settled := first(until(t, c, job, wire.Ended), wire.Settled)
		if settled.Node != one.Key.ID() || settled.Attempt != 2 {
			t.Errorf("settled %+v", settled)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{one: settled.Price})
		m.Verify()
	})
}

// TestDrain: what runs may end, nothing begins.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, cheap := meshtest.NewKey(t), seller(10, 0)
		cheap.Config.Operator = owner.ID()
		m := meshtest.New(t, cheap, seller(20, 0))
		c, his := m.Rich(), m.Client(owner, cheap)
		runs := submit(t, c, steps(30))
		until(t, c, runs, wire.Progress)
		if o, err := his.Wish(t.Context(), cheap.Key.ID(), uint8(policy.Drain)); err != nil || o.State != "draining" || o.Leases != 1 {
			t.Errorf("drains: %+v, %v", o, err)
		}
		if now := first(until(t, c, submit(t, c, steps(1)), wire.Leased), wire.Leased); now.Node != m.Sellers[1].Key.ID() {
			t.Error("sold while it drained")
		}
		if settled := first(until(t, c, runs, wire.Ended), wire.Settled); settled.Node != cheap.Key.ID() || settled.Attempt != 1 {
			t.Errorf("what ran was settled as %+v", settled)
		}
		m.Verify()
	})
}

// TestWindowEnds: when the owner's window ends he has his device.
func TestWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose time begins at midnight
		cheap := seller(10, 0)
		every := [7]bool{true, true, true, true, true, true, true}
		cheap.Config.Policy.Windows = []policy.Weekly{{Days: every, From: 0, Until: 1}}
		m := meshtest.New(t, cheap, seller(20, 0))
		c := m.Rich()
		job := submit(t, c, steps(90))
		if leased := first(until(t, c, job, wire.Leased), wire.Leased); leased.Node != cheap.Key.ID() {
			t.Skip("the market did not think the window long enough")
		}
		until(t, c, job, wire.Lost)
		if now := time.Now(); now.Minute() != 1 || now.Second() > 5 {
			t.Errorf("the task was gone at %v", now)
		}
		if settled := first(until(t, c, job, wire.Ended), wire.Settled); settled.Node != m.Sellers[1].Key.ID() {
			t.Errorf("settled %+v", settled)
		}
		m.Verify()
	})
}
