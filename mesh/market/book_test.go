package market

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"idlemesh/ledger/record"
)

// A world is a book with nodes that answer, and their keys.
type world struct {
	*testing.T
	*Book
	keys map[record.NodeID]ed25519.PrivateKey
}

func newWorld(t *testing.T, slots ...uint32) (*world, []record.NodeID) {
	w := &world{t, NewBook(record.DefaultParams(), 0), map[record.NodeID]ed25519.PrivateKey{}}
	var ids []record.NodeID
	for i, n := range slots {
		key := ed25519.NewKeyFromSeed(append(make([]byte, 31), byte(i+1)))
		id := record.IDOf(key.Public().(ed25519.PublicKey))
		w.keys[id] = key
		ids = append(ids, id)
		a := asking(1, record.Amount(100_000+i*1000)).Advert
		a.Slots, a.Free = n, n
		w.advertise(now, id, a)
	}
	return w, ids
}

func (w *world) advertise(at record.Millis, id record.NodeID, a record.Advert) {
	w.Helper()
	if err := w.Advert(at, id, a); err != nil {
		w.Fatal(err)
	}
	w.Measured(id, 1)
}

// bids are as many of each node asked as there are tasks, or slots.
func (w *world) bids(s Step) (bids []Bid) {
	for _, id := range s.Ask {
		c := w.Candidate(now, id)
		for i := range min(uint32(len(s.Tasks)), c.Advert.Slots) {
			b := bid(c, c.Advert.Ask)
			b.Nonce, b.Job = uint64(i), s.Tasks[0].Job
			bids = append(bids, b)
		}
	}
	return bids
}

func (w *world) lease(a Award) record.Entry {
	w.Helper()
	signed, err := record.Sign(w.keys[a.Bid.By], a.Bid.Bid)
	if err != nil {
		w.Fatal(err)
	}
	l, err := record.Sign(w.keys[a.Bid.By], record.Lease{Bid: signed, Job: a.Task.Job, Shard: a.Task.Shard, Attempt: 1})
	if err != nil {
		w.Fatal(err)
	}
	return record.Entry{Kind: record.TypeLease, Lease: &l}
}

func (w *world) settle(lease record.Entry, end record.End) record.Entry {
	w.Helper()
	r, err := record.Sign(w.keys[lease.Lease.Value.Bid.By()], record.Receipt{Lease: lease.Lease.Ref(), Job: lease.Lease.Value.Job, End: end})
	if err != nil {
		w.Fatal(err)
	}
	return record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: r}}
}

func (w *world) decide(s Step, bids []Bid) Result {
	w.Helper()
	res, err := w.Decide(now, s, bids, record.Ref{1})
	if err != nil {
		w.Fatal(err)
	}
	return res
}

func (w *world) one() Step {
	w.Helper()
	steps := w.Next(now)
	if len(steps) != 1 || steps[0].Err != nil {
		w.Fatalf("Next = %d steps %+v, want one that asks", len(steps), steps)
	}
	return steps[0]
}

func (w *world) none(why string) {
	w.Helper()
	if steps := w.Next(now); len(steps) != 0 {
		w.Fatalf("%s: Next = %+v, want nothing", why, steps)
	}
}

func TestBookPlacesWaitsAndFrees(t *testing.T) {
	w, ids := newWorld(t, 1, 1)
	w.Want(now, tasks(3)...)
	s := w.one()
	if len(s.Tasks) != 2 || len(s.Ask) != 2 {
		t.Fatalf("%d tasks to %d nodes, want the two that have places", len(s.Tasks), len(s.Ask))
	}
	w.Want(now, tasks(3)...)
	w.none("asked already")
	res := w.decide(s, w.bids(s))
	if len(res.Awards) != 2 {
		t.Fatalf("%d awards, want 2", len(res.Awards))
	}
	w.none("places are held")
	if err := w.Explain(now, task().Job); err == nil || err.Error() != "no provider is free: 2 are busy" {
		t.Errorf("Explain: %v", err)
	}
	var leases []record.Entry
	for _, a := range res.Awards {
		leases = append(leases, w.lease(a))
		w.Observe(now, leases[len(leases)-1])
		w.Observe(now, leases[len(leases)-1])
	}
	if steps := w.Next(now + 10_000); len(steps) != 0 {
		t.Fatalf("leases hold without end, Next = %+v", steps)
	}
	if got := w.Candidate(now, leases[0].Lease.Value.Bid.By()); got.Busy != 2 && got.Busy != 1 || got.Standing.Filled != now {
		t.Errorf("candidate %+v, want it busy and filled now", got)
	}
	end := w.settle(leases[0], record.Exited)
	w.Observe(now, end)
	w.Observe(now, end)
	w.Observe(now, record.Entry{Kind: record.TypeCut, Cut: &record.Cut{Lease: leases[1].Lease.Ref()}})
	good := w.Candidate(now, leases[0].Lease.Value.Bid.By()).Standing
	bad := w.Candidate(now, leases[1].Lease.Value.Bid.By()).Standing
	if good.Good+bad.Good != ppm || good.Bad+bad.Bad != ppm {
		t.Errorf("standings %+v and %+v, want one good and one bad", good, bad)
	}
	for _, id := range ids {
		if c := w.Candidate(now, id); c.Busy != 0 {
			t.Errorf("%d in use, want none", c.Busy)
		}
	}
	if s := w.one(); len(s.Tasks) != 1 || s.Tasks[0].Shard != 2 {
		t.Errorf("Next places %+v, want shard 2", s.Tasks)
	}
}

func TestBookWaits(t *testing.T) {
	t.Run("who does not bid is left alone for a second", func(t *testing.T) {
		w, _ := newWorld(t, 1)
		w.Want(now, task())
		if res := w.decide(w.one(), nil); len(res.Unplaced) != 1 {
			t.Fatalf("%+v, want the task unplaced", res)
		}
		w.none("quiet")
		if steps := w.Next(now + quiet); len(steps) != 1 || len(steps[0].Ask) != 1 {
			t.Errorf("after a second %+v, want it asked again", steps)
		}
	})
	t.Run("a lost step gives its places back", func(t *testing.T) {
		w, _ := newWorld(t, 1)
		w.Want(now, task())
		w.one()
		other := task()
		other.Job = record.Ref{8}
		w.Want(now, other)
		w.none("held")
		if steps := w.Next(now + stepHold); len(steps) != 1 {
			t.Errorf("%+v, want the other job's step", steps)
		}
	})
	t.Run("a released award", func(t *testing.T) {
		w, _ := newWorld(t, 1)
		w.Want(now, task())
		s := w.one()
		a := w.decide(s, w.bids(s)).Awards[0]
		w.Want(now, a.Task)
		w.none("held")
		w.Release(a.Task)
		w.one()
	})
	t.Run("a tie changes nothing", func(t *testing.T) {
		w, ids := newWorld(t, 1, 1)
		a := w.nodes[ids[0]].advert
		a.Seq = 1
		w.advertise(now, ids[1], a)
		w.Want(now, task())
		s := w.one()
		if _, err := w.Decide(now, s, w.bids(s), record.Ref{}); !errors.Is(err, ErrTie) {
			t.Fatalf("Decide: %v, want ErrTie", err)
		}
		if res := w.decide(s, w.bids(s)); len(res.Awards) != 1 {
			t.Errorf("with a beacon %+v, want an award", res)
		}
	})
	t.Run("expired bids, short windows and strangers are lost", func(t *testing.T) {
		w, _ := newWorld(t, 1)
		w.Want(now, task())
		s := w.one()
		bids := slices.Repeat(w.bids(s), 3)
		bids[0].Expires, bids[1].Window.Until, bids[2].By = now, now+1000, id(77)
		if res := w.decide(s, bids); len(res.Awards) != 0 || len(res.Lost) != 3 {
			t.Errorf("%+v, want all three lost", res)
		}
	})
	t.Run("a node that lost the task is asked when nobody else fits", func(t *testing.T) {
		w, ids := newWorld(t, 1, 1)
		k := task()
		k.Avoid = ids[:1]
		w.Want(now, k)
		s := w.one()
		if !slices.Equal(s.Ask, ids[1:]) {
			t.Fatalf("asks %v, want the other", s.Ask)
		}
		w.Drop(k.Job)
		k.Avoid = ids
		w.Want(now, k)
		if s := w.one(); len(s.Ask) != 2 {
			t.Errorf("asks %v, want both", s.Ask)
		}
	})
	t.Run("a job that everybody declines has no match", func(t *testing.T) {
		w, ids := newWorld(t, 1)
		w.Want(now, task())
		s := w.one()
		w.Decline(task().Job, ids[0])
		w.decide(s, nil)
		var e *NoMatchError
		if steps := w.Next(now); len(steps) != 1 || !errors.As(steps[0].Err, &e) || e.Counts[Declined] != 1 {
			t.Errorf("%+v, want no match", steps)
		}
	})
	t.Run("an expired job", func(t *testing.T) {
		w, _ := newWorld(t, 1)
		w.Want(now, tasks(2)...)
		steps := w.Next(now + 600_001)
		if len(steps) != 1 || !errors.Is(steps[0].Err, ErrExpired) || len(steps[0].Tasks) != 2 {
			t.Errorf("%+v, want both tasks expired", steps)
		}
		if len(w.jobs) != 0 {
			t.Errorf("%d queues are left", len(w.jobs))
		}
	})
	t.Run("one that has gone silent may come back, for five minutes", func(t *testing.T) {
		w, ids := newWorld(t, 1)
		late := w.nodes[ids[0]].advert.Expires
		k := task()
		k.Terms.Expires = late + 2*forget
		w.Want(late, k)
		for at := late; at < late+forget; at += 1000 {
			if steps := w.Next(at); len(steps) != 0 {
				t.Fatalf("%+v, %d ms after the advert's end", steps, at-late)
			}
		}
		if steps := w.Next(late + forget); len(steps) != 1 || steps[0].Err == nil {
			t.Errorf("%+v, want no match", steps)
		}
	})
	t.Run("patience", func(t *testing.T) {
		b := NewBook(record.DefaultParams(), 3000)
		b.Want(now, task())
		if steps := b.Next(now + 2999); len(steps) != 0 {
			t.Errorf("%+v before its patience ends", steps)
		}
		if steps := b.Next(now + 3000); len(steps) != 1 || steps[0].Err == nil {
			t.Errorf("%+v, want no match", steps)
		}
		b.Want(now+7000, task())
		if steps := b.Next(now + 7001); len(steps) != 0 {
			t.Errorf("%+v at once though no node is known", steps)
		}
		if steps := b.Next(now + 12_002); len(steps) != 0 {
			t.Errorf("%+v at once after a suspension", steps)
		}
	})
}

func TestBookIsFair(t *testing.T) {
	w, _ := newWorld(t, 2, 2)
	many := tasks(50)
	few := task()
	few.Job, few.Since = record.Ref{8}, now+1
	w.Want(now, many...)
	w.Want(now, few)
	steps := w.Next(now)
	if len(steps) != 2 || len(steps[0].Tasks) != 3 || len(steps[1].Tasks) != 1 {
		t.Fatalf("%d steps, want 3 places for the many and 1 for the few", len(steps))
	}
	for _, s := range steps {
		w.decide(s, nil)
	}
	gold := few
	gold.Job, gold.Terms.Tier, gold.Since = record.Ref{9}, record.Gold, now+2
	for id := range w.keys {
		a := w.nodes[id].advert
		a.Seq, a.Slots, a.Free, a.Tiers = 5, 1, 1, append(a.Tiers, record.Gold)
		w.advertise(now, id, a)
	}
	w.Want(now, gold)
	if steps := w.Next(now); len(steps) != 2 || steps[0].Tasks[0].Job != gold.Job || steps[1].Tasks[0].Job != few.Job && steps[1].Tasks[0].Job != many[0].Job {
		t.Errorf("%+v, want gold first", steps)
	}
}

func TestAdvertRefused(t *testing.T) {
	for name, change := range map[string]func(*record.Advert){
		"expired":          func(a *record.Advert) { a.Expires = now },
		"lasts too long":   func(a *record.Advert) { a.Expires = now + advertLife + 1 },
		"no slots":         func(a *record.Advert) { a.Slots = 0 },
		"sum that wraps":   func(a *record.Advert) { a.Slots = 1 << 31 },
		"more free":        func(a *record.Advert) { a.Free = a.Slots + 1 },
		"older":            func(a *record.Advert) { a.Seq = 4 },
		"the same again":   func(a *record.Advert) { a.Seq = 5 },
		"a long region":    func(a *record.Advert) { a.Region = strings.Repeat("x", maxText+1) },
		"a long model":     func(a *record.Advert) { a.Device.Model = strings.Repeat("x", maxText+1) },
		"too many windows": func(a *record.Advert) { a.Windows = make([]record.Window, maxWindows+1) },
	} {
		b := NewBook(record.DefaultParams(), 0)
		a := good(1).Advert
		a.Seq = 5
		if err := b.Advert(now, id(1), a); err != nil {
			t.Fatal(err)
		}
		a.Seq = 6
		change(&a)
		if err := b.Advert(now, id(1), a); !errors.Is(err, ErrAdvert) {
			t.Errorf("%s: %v, want ErrAdvert", name, err)
		}
	}
	b := NewBook(record.DefaultParams(), 0)
	for i := range maxNodes {
		if err := b.Advert(now, record.NodeID{byte(i), byte(i >> 8), 1}, good(1).Advert); err != nil {
			t.Fatal(err)
		}
	}
	stranger := record.NodeID{2: 2}
	if err := b.Advert(now, stranger, good(1).Advert); !errors.Is(err, ErrAdvert) {
		t.Errorf("one node too many: %v, want ErrAdvert", err)
	}
	a := good(1).Advert
	a.Expires = now + 2*forget
	later := now + 2*forget - 1000
	if err := b.Advert(later, stranger, a); err != nil {
		t.Errorf("after the others are forgotten: %v", err)
	}
}

func TestShortlist(t *testing.T) {
	n := &census{t: task(), p: record.DefaultParams()}
	for i := range 100 {
		c := asking(i, record.Amount(100_000+i*10))
		c.Owner = id(1000 + i/10)
		n.fits = append(n.fits, fit{c, score(n.t, c, c.Advert.Ask, 500_000)})
	}
	first := n.shortlist(1, record.Ref{1})
	owners := map[int]int{}
	for _, x := range first {
		owners[int(x[0])/10]++
	}
	if len(first) != 20 || len(owners) != 10 {
		t.Errorf("%d nodes of %d owners, want 20 of 10", len(first), len(owners))
	}
	for o, k := range owners {
		if k > 2 {
			t.Errorf("%d nodes of owner %d", k, o)
		}
	}
	if slices.Equal(first, n.shortlist(1, record.Ref{2})) {
		t.Error("another beacon draws the same")
	}
	n.fits = n.fits[:20]
	if got := n.shortlist(1, record.Ref{}); len(got) != 20 {
		t.Errorf("of twenty %d are asked, want all", len(got))
	}
}

func TestQuote(t *testing.T) {
	w, _ := newWorld(t, 1, 2)
	terms := task().Terms
	q := w.Quote(now, terms, 0)
	if q.Nodes != 2 || q.Fits != 2 || q.Low == 0 || q.Low > q.High || q.High > q.Ceiling || q.Ceiling != 500_000 || q.NoMatch != nil {
		t.Errorf("%+v", q)
	}
	terms.MaxPrice = 1
	if q = w.Quote(now, terms, 0); q.NoMatch == nil || q.Counts[TooDear] != 2 {
		t.Errorf("%+v, want no match", q)
	}
	terms.Shards, terms.MaxPrice, terms.MaxTotal = math.MaxUint32, 500_000, math.MaxUint64
	if q = w.Quote(now, terms, 0); q.Fits != 2 || q.High > q.Ceiling {
		t.Errorf("for a job of the most shards: %+v", q)
	}
}

func ExampleDecide() {
	// Two nodes bid for one task: a dear fast one and a cheap slow one.
	device := func(speed uint32) record.Device { return record.Device{Model: "sim", Speed: speed} }
	nodes := map[record.NodeID]Candidate{
		{1}: {ID: record.NodeID{1}, Advert: record.Advert{Ask: 300_000, Device: device(1000)}},
		{2}: {ID: record.NodeID{2}, Advert: record.Advert{Ask: 50_000, Device: device(250)}},
	}
	t := Task{Terms: record.Job{Shards: 1, MaxPrice: 500_000, MaxTotal: record.Credit}}
	bids := []Bid{
		{By: record.NodeID{1}, Bid: record.Bid{Ask: 300_000, Device: device(1000)}},
		{By: record.NodeID{2}, Bid: record.Bid{Ask: 50_000, Device: device(250)}},
	}
	of := func(id record.NodeID) Candidate { return nodes[id] }
	res, err := Decide([]Task{t}, bids, of, record.Ref{}, record.DefaultParams())
	if err != nil {
		fmt.Println(err)
		return
	}
	a := res.Awards[0]
	fmt.Printf("node %d wins: asks %s per hour of reference work, is paid %s\n", a.Bid.By[0], AskRate(a.Bid.Ask, a.Bid.Device.Speed), a.Rate)
	// Output: node 2 wins: asks 0.200000 per hour of reference work, is paid 0.300000
}
