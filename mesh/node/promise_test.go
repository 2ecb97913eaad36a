package node_test

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/wire"
)

// entries counts what the log has of a job.
func entries(t *testing.T, c *client.Client, job record.Ref) map[record.EntryType]int {
	t.Helper()
	n := map[record.EntryType]int{}
	for row, err := range c.Query(t.Context(), wire.QueryRequest{Job: job}) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := record.Open[record.Entry](row.Entry)
		if err != nil {
			t.Fatal(err)
		}
		n[e.Value.Kind]++
	}
	return n
}

// TestSameJob sends one signed job a thousand times: from many sides, while it runs,
// to a gateway that was killed in between, and after its end. It is one job, one run
// and one charge.
func TestSameJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0), seller(20, 0))
		c := m.Rich()
		job, err := c.Prepare(t.Context(), steps(20))
		if err != nil {
			t.Fatal(err)
		}
		send := func(c *client.Client, n int, lossy bool) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					in, err := c.Send(t.Context(), job)
					if err != nil && !(lossy && wire.Is(err, wire.Unavailable)) || err == nil && in.Job != job.Job.Ref() {
						t.Errorf("sent: %+v, %v", in, err)
					}
				})
			}
			if lossy {
				time.Sleep(7 * time.Millisecond) // some have arrived
				m.Gate.Cut(true)
				m.Gate.Stop()
				m.Gate.Cut(false)
				m.Gate.Start()
			}
			wg.Wait()
		}
		send(c, 200, true)
		c = m.Client(m.Tenant)
		send(c, 400, false)
		until(t, c, job.Job.Ref(), wire.Progress)
		send(c, 200, true)
		c = m.Client(m.Tenant)
		settled := first(until(t, c, job.Job.Ref(), wire.Ended), wire.Settled)
		send(c, 200, false)
		n := entries(t, c, job.Job.Ref())
		if n[record.TypeJob] != 1 || n[record.TypeLease] != 1 || n[record.TypeSettle] != 1 || len(n) != 3 {
			t.Errorf("the log has %v", n)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{m.Seller(settled.Node): settled.Price})
		m.Verify()
	})
}

// TestCancel ends a job while it waits, while it runs and when it has ended.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := seller(10, 0)
		one.Config.Policy.Slots = 1
		m := meshtest.New(t, one)
		c := m.Rich()
		runs, waits := submit(t, c, steps(1000)), submit(t, c, steps(1))
		until(t, c, runs, wire.Progress)
		for range 2 {
			if err := c.Cancel(t.Context(), waits); err != nil {
				t.Error(err)
			}
		}
		ended := first(until(t, c, waits, wire.Ended), wire.Ended)
		if ended.Reason != record.ByTenant || ended.Price != 0 || entries(t, c, waits)[record.TypeLease] != 0 {
			t.Errorf("cancelled while it waited: %+v", ended)
		}
		begin := time.Now()
		if err := c.Cancel(t.Context(), runs); err != nil {
			t.Error(err)
		}
		all := until(t, c, runs, wire.Ended)
		settled, ended := first(all, wire.Settled), first(all, wire.Ended)
		if ended.Reason != record.ByTenant || settled.Receipt == nil || settled.Receipt.Value.End != record.Cancelled || settled.Price == 0 || time.Since(begin) > 3*time.Second {
			t.Errorf("cancelled while it ran: %+v after %v", settled, time.Since(begin))
		}
		for range 2 {
			if err := c.Cancel(t.Context(), runs); err != nil {
				t.Error(err)
			}
		}
		if again := first(until(t, c, runs, wire.Ended), wire.Ended); again.Reason != ended.Reason || ended.Price != settled.Price {
			t.Errorf("ended %v, and after one more cancellation %v", ended.Reason, again.Reason)
		}
		done := first(until(t, c, submit(t, c, steps(1)), wire.Ended), wire.Settled) // its slot is free
		money(t, m, c, settled.Price+done.Price, map[*meshtest.Node]record.Amount{one: settled.Price + done.Price})
		m.Verify()
	})
}

// TestCancelOutlivesGateway: once a cancel is acknowledged the gateway may die; the next
// one stops what runs, pays what it has done, and gives the rest back.
func TestCancelOutlivesGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := seller(10, 0)
		one.Config.Policy.Slots = 1
		m := meshtest.New(t, one)
		c := m.Rich()
		runs, waits := submit(t, c, steps(1000)), submit(t, c, steps(1000))
		until(t, c, runs, wire.Progress)
		one.Cut(true) // nobody can tell it to stop
		for _, job := range []record.Ref{runs, waits} {
			if err := c.Cancel(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		m.Gate.Cut(true)
		m.Gate.Stop()
		m.Gate.Cut(false)
		one.Cut(false)
		m.Gate.Start()
		c = m.Client(m.Tenant)
		begin := time.Now()
		all := until(t, c, runs, wire.Ended)
		settled, ended := first(all, wire.Settled), first(all, wire.Ended)
		if ended.Reason != record.ByTenant || settled.Price == 0 || settled.Receipt.Value.End != record.Cancelled || time.Since(begin) > 20*time.Second {
			t.Errorf("ended %v after %v, settled %+v", ended.Reason, time.Since(begin), settled)
		}
		if e := first(until(t, c, waits, wire.Ended), wire.Ended); e.Reason != record.ByTenant || e.Price != 0 {
			t.Errorf("the one that waited ended %v for %v", e.Reason, e.Price)
		}
		if err := c.Cancel(t.Context(), runs); err != nil {
			t.Errorf("cancelled again: %v", err)
		}
		n := entries(t, c, runs)
		if n[record.TypeCancel] != 1 || n[record.TypeLease] != 1 || n[record.TypeSettle] != 1 || n[record.TypeClose] != 1 {
			t.Errorf("the log has %v", n)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{one: settled.Price})
		m.Verify()
	})
}

// TestExpiry: a job that finds no provider in time gets its escrow back; one that runs
// by then goes on.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := seller(10, 0)
		one.Config.Policy.Slots = 1
		m := meshtest.New(t, one)
		c := m.Rich()
		r := steps(300)
		r.Expires = time.Minute
		runs := submit(t, c, r)
		until(t, c, runs, wire.Leased)
		r.Expires = 90 * time.Second
		waits := submit(t, c, r)
		begin := time.Now()
		ended := first(until(t, c, waits, wire.Ended), wire.Ended)
		if d := time.Since(begin); ended.Reason != record.Expired || d < 90*time.Second || d > 92*time.Second {
			t.Errorf("%v after %v", ended.Reason, d)
		}
		all := until(t, c, runs, wire.Ended)
		settled := first(all, wire.Settled)
		if e := first(all, wire.Ended); e.Reason != record.Finished {
			t.Errorf("the one that ran ended with %v", e.Reason)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{one: settled.Price})
		m.Verify()
	})
}

// TestGivenUp: when every attempt was lost the tenant has his money back.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0), seller(20, 0), seller(30, 0))
		c := m.Rich()
		r := steps(300)
		r.Retries = 1
		job := submit(t, c, r)
		var lost []record.NodeID
		for e, err := range c.Watch(t.Context(), job, false) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == wire.Progress && e.Done == 3 {
				m.Seller(e.Node).Cut(true)
			}
			if e.Kind == wire.Lost {
				lost = append(lost, e.Node)
			}
			if e.Kind == wire.Ended && (e.Reason != record.GivenUp || e.Price != 0) {
				t.Errorf("ended %+v", e)
			}
		}
		if len(lost) != 2 || lost[0] == lost[1] {
			t.Errorf("lost by %v", lost)
		}
		money(t, m, c, 0, nil)
		m.Verify()
	})
}

// TestProviderLeaves: one that is stopped by its owner says so, and nobody waits for it.
func TestProviderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0), seller(20, 0))
		c := m.Rich()
		job := submit(t, c, steps(30))
		until(t, c, job, wire.Progress)
		begin := time.Now()
		m.Sellers[0].Stop()
		until(t, c, job, wire.Lost)
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("lost after %v", d)
		}
		settled := first(until(t, c, job, wire.Ended), wire.Settled)
		if settled.Node != m.Sellers[1].Key.ID() {
			t.Errorf("settled %+v", settled)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{m.Sellers[1]: settled.Price})
		m.Verify()
	})
}

// TestNoMatch: who asks for what nobody has hears why, and what would help.
func TestNoMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := seller(10, 0)
		one.Config.Policy.Region = "eu-west"
		one.Config.Policy.Tiers = []record.Tier{record.Bronze}
		m := meshtest.New(t, one)
		c := m.Rich()
		time.Sleep(20 * time.Second)
		for flag, change := range map[string]func(*client.Request){
			"--max-price":       func(r *client.Request) { r.MaxPrice = record.Credit },
			"--region":          func(r *client.Request) { r.Needs.Region = "us" },
			"--gpu":             func(r *client.Request) { r.Needs.Model = "h100" },
			"--min-vram":        func(r *client.Request) { r.Needs.VRAM = 1 << 40 },
			"--max-rtt":         func(r *client.Request) { r.Needs.MaxRTT = 1 },
			"--min-reliability": func(r *client.Request) { r.Needs.Reliability = 999_000 },
			"--tier":            func(r *client.Request) { r.Tier = record.Gold },
		} {
			r := steps(1)
			change(&r)
			ended := first(until(t, c, submit(t, c, r), wire.Ended), wire.Ended)
			if ended.Reason != record.Expired || !wire.Is(ended.Err, wire.NoMatch) || !strings.Contains(ended.Err.Next, flag) {
				t.Errorf("%s: %v, %+v", flag, ended.Reason, ended.Err)
			}
		}
		money(t, m, c, 0, nil)
	})
}

// TestStrangers: of another's job nobody sees, stops or fetches anything, and a
// provider nothing before it has a lease.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0), seller(20, 0))
		c := m.Rich()
		r := steps(10)
		r.Inputs = []client.Input{bytesInput("secret", []byte("an input"))}
		job, err := c.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Send(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		ref := job.Job.Ref()
		blobs := []record.Blob{{Ref: job.Job.Value.Body, Size: uint64(len(job.Body))}}
		until(t, c, ref, wire.Progress)
		strangers := map[string]*client.Client{"tenant": m.Client(meshtest.NewKey(t)), "provider": m.Client(m.Sellers[1].Key)}
		for who, x := range strangers {
			denied(t, who+" watches", drain(x.Watch(t.Context(), ref, true)))
			denied(t, who+" lists tasks", drain(x.Tasks(t.Context(), ref)))
			denied(t, who+" cancels", x.Cancel(t.Context(), ref))
			for range x.Jobs(t.Context(), wire.JobsRequest{}) {
				t.Errorf("a %s sees a job in his list", who)
			}
		}
		settled := first(until(t, c, ref, wire.Ended), wire.Settled)
		manifest, err := c.Manifest(t.Context(), settled.Receipt.Value)
		if err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, manifest.Stdout, record.Blob{Ref: settled.Receipt.Value.Module, Size: uint64(len(r.Module))})
		for who, x := range strangers {
			for i, b := range blobs {
				denied(t, who+" reads "+[]string{"body", "output", "module"}[i], x.Read(t.Context(), b, 0, io.Discard, nil))
			}
			_, err := x.Manifest(t.Context(), settled.Receipt.Value)
			denied(t, who+" reads manifest", err)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{m.Sellers[0]: settled.Price})
	})
}

func denied(t *testing.T, what string, err error) {
	t.Helper()
	if !wire.Is(err, wire.Denied) {
		t.Errorf("a stranger %s: %v", what, err)
	}
}

// drain returns the first error of a stream.
func drain[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func bytesInput(name string, b []byte) client.Input {
	return client.Input{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// TestUploadQuota: a tenant who has filled his share of a gateway is told so and what
// helps; another is not in his way.
func TestUploadQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0))
		m.Gate.Stop()
		m.Gate.Config.Quota = 300_000
		m.Gate.Start()
		c := m.Rich()
		other := meshtest.NewKey(t)
		if _, err := c.Deposit(t.Context(), other.ID(), record.Credit, "other"); err != nil {
			t.Fatal(err)
		}
		big := func(fill byte) client.Request {
			r := steps(1)
			r.MaxTotal, r.Inputs = record.Credit/2, []client.Input{bytesInput("in", bytes.Repeat([]byte{fill}, 200_000))}
			return r
		}
		job := submit(t, c, big(1))
		submit(t, c, big(1)) // the same bytes are there
		_, err := c.Submit(t.Context(), big(2))
		var far *wire.Error
		if !errors.As(err, &far) || far.Code != wire.Funds || !strings.Contains(far.Next, "--retention") {
			t.Errorf("one input too many: %v", err)
		}
		submit(t, m.Client(other), big(3))
		if e := first(until(t, c, job, wire.Ended), wire.Ended); e.Reason != record.Finished {
			t.Errorf("ended %v, %v", e.Reason, e.Err)
		}
		m.Gate.Stop()
		m.Gate.Start() // it counts from the log
		if _, err := m.Client(m.Tenant).Submit(t.Context(), big(2)); !wire.Is(err, wire.Funds) {
			t.Errorf("after a restart: %v", err)
		}
	})
}
