package market

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"idlemesh/ledger/record"
)

// Bounds of what a Book believes and keeps.
const (
	maxNodes   = 1 << 16
	maxWindows = 64
	maxText    = 128
	maxSlots   = 4096    // of one node: the sum of all fits 32 bits, whatever strangers claim
	advertLife = 35_000  // ms: 30 s, and clocks differ
	forget     = 300_000 // ms after which an expired advert is no longer counted
	stepHold   = 5_000   // ms: a Step keeps its places until Decide, at most so long
	quiet      = 1_000   // ms: who was asked and did not bid counts as busy
	asleep     = 5_000   // ms without a Next after which the holder must have been suspended
)

// ErrAdvert refuses an advert that is malformed, expired, older than the one known,
// or lasts too long.
var ErrAdvert = errors.New("advert refused")

// A Book is the state of one market. Its methods take the time and change nothing
// but the Book; Next says what the holder must do. It is not safe for concurrent
// use.
type Book struct {
	params   record.Params
	patience record.Millis
	born     record.Millis // first call that knows the time, or that after a suspension
	seen     record.Millis // last Next
	beacon   record.Ref    // draws shortlists; moves with the ledger
	turn     uint64
	nodes    map[record.NodeID]*node
	jobs     map[record.Ref]*queue
	holds    map[place]hold
	leases   map[record.Ref]lease
}

// A node is a provider; those known from the ledger only have no advert.
type node struct {
	advert   record.Advert
	since    record.Millis // advertised without a break
	rtt      record.Millis
	standing Standing
	busy     uint32
	quiet    record.Millis // until then it counts as busy
}

type place struct {
	job   record.Ref
	shard uint32
}

// A hold keeps a place of a node between the question and the lease entry.
type hold struct {
	node  record.NodeID
	until record.Millis
}

type lease struct {
	node  record.NodeID
	place place
}

// NewBook returns an empty book under params p. Nobody is told that no provider
// fits before the book is patience old, has been so long back from a suspension, or has
// waited so long while no node at all advertises: adverts may be on their way.
func NewBook(p record.Params, patience record.Millis) *Book {
	return &Book{params: p, patience: patience, nodes: map[record.NodeID]*node{}, jobs: map[record.Ref]*queue{},
		holds: map[place]hold{}, leases: map[record.Ref]lease{}}
}

// Advert takes a provider's newest advert. It wakes what waits: call Next.
func (b *Book) Advert(now record.Millis, id record.NodeID, a record.Advert) error {
	b.birth(now)
	switch n := b.nodes[id]; {
	case a.Expires <= now || a.Expires > now+advertLife:
		return fmt.Errorf("%w: expires in %d ms, want at most 30 s", ErrAdvert, a.Expires-now)
	case a.Slots == 0 || a.Slots > maxSlots || a.Free > a.Slots || len(a.Windows) > maxWindows:
		return fmt.Errorf("%w: %d of %d slots free (at most %d), %d windows (at most %d)", ErrAdvert, a.Free, a.Slots, maxSlots, len(a.Windows), maxWindows)
	case len(a.Region) > maxText || len(a.Device.Model) > maxText || len(a.Device.Backend) > maxText || len(a.Tiers) > maxText:
		return fmt.Errorf("%w: a text or list of more than %d", ErrAdvert, maxText)
	case n != nil && n.advert.Expires > now && a.Seq <= n.advert.Seq:
		return fmt.Errorf("%w: number %d after %d", ErrAdvert, a.Seq, n.advert.Seq)
	case n == nil && len(b.nodes) >= maxNodes && !b.purge(now):
		return fmt.Errorf("%w: this gateway knows %d nodes already; join another", ErrAdvert, len(b.nodes))
	}
	n := b.node(id)
	if n.advert.Expires <= now {
		n.since = now
	}
	n.advert, n.quiet = a, 0
	return nil
}

// purge drops nodes that nobody would miss, and reports whether there were any.
func (b *Book) purge(now record.Millis) bool {
	was := len(b.nodes)
	for id, n := range b.nodes {
		if n.advert.Expires+forget <= now && n.busy == 0 && n.standing == (Standing{}) {
			delete(b.nodes, id)
		}
	}
	return len(b.nodes) < was
}

// Measured takes a round-trip time that the holder measured on its own connection.
func (b *Book) Measured(id record.NodeID, rtt record.Millis) {
	if n := b.nodes[id]; n != nil {
		n.rtt = rtt
	}
}

// Observe folds a ledger entry and the ledger's time of it into standings and into
// what is in use: a lease takes a place, its settlement or cut gives it back. It may
// wake what waits: call Next. An entry seen twice changes nothing.
func (b *Book) Observe(at record.Millis, e record.Entry) {
	switch {
	case e.Kind == record.TypeLease && e.Lease != nil:
		ref, v := e.Lease.Ref(), e.Lease.Value
		if _, known := b.leases[ref]; known {
			return
		}
		l := lease{v.Bid.By(), place{v.Job, v.Shard}}
		b.release(l.place)
		b.leases[ref] = l
		b.node(l.node).busy++
		b.learn(at, l.node, e)
	case e.Kind == record.TypeSettle && e.Settle != nil:
		b.end(at, e.Settle.Receipt.Value.Lease, e)
	case e.Kind == record.TypeCut && e.Cut != nil:
		b.end(at, e.Cut.Lease, e)
	}
}

func (b *Book) end(at record.Millis, ref record.Ref, e record.Entry) {
	l, known := b.leases[ref]
	if !known {
		return
	}
	delete(b.leases, ref)
	n := b.node(l.node)
	n.busy, n.quiet = n.busy-1, 0
	b.learn(at, l.node, e)
}

func (b *Book) learn(at record.Millis, id record.NodeID, e record.Entry) {
	n := b.node(id)
	n.standing = n.standing.After(at, e)
	b.beacon = sha256.Sum256(slices.Concat(b.beacon[:], e.Idem[:]))
}

// Release gives back the place that an award or a step kept for a task, when no
// lease came of it.
func (b *Book) Release(t Task) { b.release(place{t.Job, t.Shard}) }

func (b *Book) release(p place) {
	if h, ok := b.holds[p]; ok {
		delete(b.holds, p)
		b.node(h.node).busy--
	}
}

func (b *Book) keep(p place, id record.NodeID, until record.Millis) {
	b.release(p)
	b.holds[p] = hold{id, until}
	b.node(id).busy++
}

func (b *Book) node(id record.NodeID) *node {
	n := b.nodes[id]
	if n == nil {
		n = &node{rtt: -1}
		b.nodes[id] = n
	}
	return n
}

// Candidate returns what the book knows of a node at now; the zero Candidate when it
// never heard of it.
func (b *Book) Candidate(now record.Millis, id record.NodeID) Candidate {
	n := b.nodes[id]
	if n == nil {
		return Candidate{}
	}
	c := Candidate{ID: id, Advert: n.advert, Standing: n.standing.on(now), Age: now - n.since, RTT: n.rtt, Busy: n.busy}
	if n.quiet > now {
		c.Busy = max(c.Busy, c.Advert.Slots)
	}
	return c
}

// candidates are the nodes that advertise, or did lately.
func (b *Book) candidates(now record.Millis) []Candidate {
	var all []Candidate
	for id, n := range b.nodes {
		if n.advert.Expires+forget > now {
			all = append(all, b.Candidate(now, id))
		}
	}
	return all
}

// census looks at all candidates for t, an entry of declined being a lasting no.
func (b *Book) census(now record.Millis, t Task, all []Candidate, declined map[record.NodeID]bool) *census {
	n := &census{t: t, now: now, p: b.params, counts: map[Reason]int{}, single: map[Reason][]Candidate{}}
	for _, c := range all {
		bad := misfits(t, c, now, b.params)
		bad.add(Declined, declined[c.ID])
		n.add(c, bad)
	}
	if len(n.fits) == 0 && n.busy == 0 {
		n.fits = n.avoided
	}
	slices.SortFunc(n.fits, func(x, y fit) int {
		return cmp.Or(cmp.Compare(x.score, y.score), bytes.Compare(x.ID[:], y.ID[:]))
	})
	return n
}

func (b *Book) birth(now record.Millis) {
	if b.born == 0 {
		b.born = now
	}
}

// wakes notes a call of Next. After a suspension all adverts have expired at once, and
// the first new ones take a while.
func (b *Book) wakes(now record.Millis) {
	b.birth(now)
	if b.seen != 0 && now-b.seen > asleep {
		b.born = now
	}
	b.seen = now
}

// A Quote is what a job would meet now.
type Quote struct {
	Nodes     int
	Fits      int            // that could start a task now
	Busy      int            // that fit, later
	Counts    map[Reason]int // the others, by reason
	Low, High record.Amount  // expected rates, per hour of reference-GPU work; 0 when nobody fits
	Ceiling   record.Amount  // R as a rate
	NoMatch   *NoMatchError  // when nobody ever fits
}

// Quote asks what a job of these terms would meet at now, with every node bidding
// what it advertises. Work is a task's estimate; zero means DefaultWork. It changes
// nothing.
func (b *Book) Quote(now record.Millis, terms record.Job, work record.Work) Quote {
	t := Task{Terms: terms, Work: work}
	n := b.census(now, t, b.candidates(now), nil)
	q := Quote{Nodes: n.nodes, Fits: len(n.fits), Busy: n.busy, Counts: n.counts, Ceiling: Ceiling(t, b.params)}
	if n.never() {
		q.NoMatch = n.noMatch()
		return q
	}
	k := min(max(terms.Shards, 1), 1000)
	var bids []Bid
	for _, f := range n.fits {
		for i := range min(f.free(), k) {
			bids = append(bids, Bid{f.ID, record.Bid{Device: f.Advert.Device, Ask: f.Advert.Ask, Nonce: uint64(i)}})
		}
	}
	of := func(id record.NodeID) Candidate { return b.Candidate(now, id) }
	res, err := Decide(slices.Repeat([]Task{t}, int(k)), bids, of, record.Ref{1}, b.params)
	if err != nil || len(res.Awards) == 0 {
		return q
	}
	q.Low = q.Ceiling
	for _, a := range res.Awards {
		q.Low, q.High = min(q.Low, a.Rate), max(q.High, a.Rate)
	}
	return q
}
