package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/node"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
)

// seller returns a provider that asks floor credits per hour, delay from the network.
func seller(floor record.Amount, delay time.Duration) *meshtest.Node {
	return &meshtest.Node{Delay: delay, Config: node.Config{Policy: policy.Policy{Floor: floor * record.Credit, Slots: 2}}}
}

// steps asks for n seconds of a guest that works a little each second.
func steps(n int) client.Request {
	return client.Request{Module: meshtest.Guest{Steps: n, Pause: time.Second, Spin: 1_000_000, Says: "done\n"}.Wasm(), MaxPrice: meshtest.Price, Retries: 3}
}

func submit(t *testing.T, c *client.Client, r client.Request) record.Ref {
	t.Helper()
	in, err := c.Submit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return in.Job
}

// until watches a job until something of that kind has happened, and returns all that
// has.
func until(t *testing.T, c *client.Client, job record.Ref, kind wire.Kind) (all []wire.JobEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for e, err := range c.Watch(ctx, job, false) {
		if err != nil {
			t.Fatalf("after %v: %v", all, err)
		}
		if all = append(all, e); e.Kind == kind {
			return all
		}
	}
	t.Fatalf("nothing of kind %d in %v", kind, all)
	return nil
}

// first returns the first of that kind.
func first(all []wire.JobEvent, kind wire.Kind) (e wire.JobEvent) {
	for _, e := range all {
		if e.Kind == kind {
			return e
		}
	}
	return e
}

// money checks that the tenant has paid, and each provider earned, what he should.
func money(t *testing.T, m *meshtest.Mesh, c *client.Client, paid record.Amount, earned map[*meshtest.Node]record.Amount) {
	t.Helper()
	if b, err := c.Balance(t.Context(), c.ID()); err != nil || b.Free+paid != 5*meshtest.Price {
		t.Errorf("the tenant has %v after he paid %v, %v", b.Free, paid, err)
	}
	for _, s := range m.Sellers {
		if b, err := c.Balance(t.Context(), s.Key.ID()); err != nil || b.Earned != earned[s] {
			t.Errorf("a provider has earned %v, want %v, %v", b.Earned, earned[s], err)
		}
	}
}

// TestCheapestOfThree: the cheapest wins and is paid what the second would have asked.
func TestCheapestOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(30, 0), seller(10, 0), seller(20, 0))
		c := m.Rich()
		all := until(t, c, submit(t, c, steps(3)), wire.Ended)
		leased, settled := first(all, wire.Leased), first(all, wire.Settled)
		if leased.Node != m.Sellers[1].Key.ID() || leased.Rate != 20*record.Credit {
			t.Errorf("leased to %s for %v", leased.Node.Short(), leased.Rate)
		}
		want := account.Charge(20*record.Credit, settled.Receipt.Value.Usage.Work)
		if settled.Price != want || want == 0 {
			t.Errorf("paid %v, want %v", settled.Price, want)
		}
		money(t, m, c, want, map[*meshtest.Node]record.Amount{m.Sellers[1]: want})
		m.Verify()
	})
}

// TestDistance: who is near is decided by the round trips that the gateway measures.
func TestDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, middle, close := seller(10, 95*time.Millisecond), seller(150, 15*time.Millisecond), seller(600, time.Millisecond)
		m := meshtest.New(t, far, middle, close)
		c := m.Rich()
		for name, tc := range map[string]struct {
			needs record.Needs
			want  *meshtest.Node
			rtt   record.Millis
		}{
			"anywhere":     {record.Needs{}, far, 100},
			"near":         {record.Needs{Near: m.Gate.Key.ID()}, middle, 20},
			"at most 99":   {record.Needs{MaxRTT: 99}, middle, 20},
			"at most 20":   {record.Needs{MaxRTT: 20}, middle, 20},
			"at most 19":   {record.Needs{MaxRTT: 19}, close, 6},
			"near, and 19": {record.Needs{MaxRTT: 19, Near: m.Gate.Key.ID()}, close, 6},
		} {
			r := steps(1)
			r.Needs = tc.needs
			leased := first(until(t, c, submit(t, c, r), wire.Ended), wire.Leased)
			if leased.Node != tc.want.Key.ID() || leased.RTT != tc.rtt {
				t.Errorf("%s: leased to %s, %d ms away, want %s", name, leased.Node.Short(), leased.RTT, tc.want.Key.ID().Short())
			}
		}
		r := steps(1)
		r.Needs.MaxRTT = 5
		ended := first(until(t, c, submit(t, c, r), wire.Ended), wire.Ended)
		if ended.Reason != record.Expired || !wire.Is(ended.Err, wire.NoMatch) || ended.Err.Next == "" {
			t.Errorf("nobody is so near: %v, %+v", ended.Reason, ended.Err)
		}
	})
}

// TestSilentProvider: one that is cut off is lost after ten seconds; its task goes
// elsewhere, and what it did alone is not paid.
func TestSilentProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0), seller(20, 0))
		c := m.Rich()
		job := submit(t, c, steps(30))
		until(t, c, job, wire.Progress)
		m.Sellers[0].Cut(true)
		cut := time.Now()
		lost := first(until(t, c, job, wire.Lost), wire.Lost)
		if d := time.Since(cut); lost.Node != m.Sellers[0].Key.ID() || d < 8*time.Second || d > 11*time.Second {
			t.Errorf("lost %s after %v", lost.Node.Short(), d)
		}
		time.Sleep(10 * time.Second)
		m.Sellers[0].Cut(false) // it comes back with a receipt that nobody wants
		all := until(t, c, job, wire.Ended)
		settled := first(all, wire.Settled)
		if settled.Node != m.Sellers[1].Key.ID() || settled.Attempt != 2 || settled.Price == 0 {
			t.Errorf("settled %+v", settled)
		}
		time.Sleep(time.Minute)
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{m.Sellers[1]: settled.Price})
		m.Verify()
	})
}

// TestGatewayComesBack: a gateway that was stopped, or died without a word, joins the
// leases that run; each is charged once.
func TestGatewayComesBack(t *testing.T) {
	for name, away := range map[string]time.Duration{"at once": 0, "after a while": 20 * time.Second, "when the run is over": 2 * time.Minute} {
		for _, dies := range []bool{false, true} {
			if dies {
				name += ", killed"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := meshtest.New(t, seller(10, 0), seller(20, 0))
					c := m.Rich()
					job := submit(t, c, steps(60))
					until(t, c, job, wire.Progress)
					m.Gate.Cut(dies)
					m.Gate.Stop()
					m.Gate.Cut(false)
					time.Sleep(away)
					m.Gate.Start()
					c = m.Client(m.Tenant)
					all := until(t, c, job, wire.Ended)
					settled, ended := first(all, wire.Settled), first(all, wire.Ended)
					if settled.Node != m.Sellers[0].Key.ID() || settled.Attempt != 1 || ended.Reason != record.Finished {
						t.Errorf("settled %+v, ended %+v", settled, ended)
					}
					money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{m.Sellers[0]: settled.Price})
					m.Verify()
				})
			})
		}
	}
}
