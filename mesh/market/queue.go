package market

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	"idlemesh/ledger/record"
)

// A Step is something the holder of a Book must do: tell Err, or ask each of Ask for
// as many live bids as there are Tasks and call Decide, even with no bids.
type Step struct {
	Tasks []Task // of one job, of equal work
	Ask   []record.NodeID
	// Err is why the tasks cannot be served: a *NoMatchError, or ErrExpired. The
	// Book has forgotten them.
	Err error
}

// A queue is what waits of one job.
type queue struct {
	job      record.Ref
	terms    record.Job
	tasks    []*Task         // by Since, then shard
	asked    map[uint32]bool // shards that wait (false) or are in a step (true)
	steps    int             // not yet decided
	declined map[record.NodeID]bool
	wanted   record.Millis
	turn     uint64 // of its last step: who was served longest ago comes first
}

// Want adds tasks that want a provider. A task that waits already, or is in a Step,
// is not added again.
func (b *Book) Want(now record.Millis, tasks ...Task) {
	b.birth(now)
	for _, t := range tasks {
		q := b.jobs[t.Job]
		if q == nil {
			q = &queue{job: t.Job, terms: t.Terms, asked: map[uint32]bool{}, declined: map[record.NodeID]bool{}, wanted: now}
			b.jobs[t.Job] = q
		}
		q.put(t)
	}
}

func (q *queue) put(t Task) {
	if _, known := q.asked[t.Shard]; known {
		return
	}
	at, _ := slices.BinarySearchFunc(q.tasks, &t, func(x, y *Task) int {
		return cmp.Or(cmp.Compare(x.Since, y.Since), cmp.Compare(x.Shard, y.Shard))
	})
	q.tasks = slices.Insert(q.tasks, at, &t)
	q.asked[t.Shard] = false
}

// Drop forgets what waits of a job, which was cancelled or has ended.
func (b *Book) Drop(job record.Ref) {
	delete(b.jobs, job)
	for p, h := range b.holds {
		if p.job == job {
			delete(b.holds, p)
			b.node(h.node).busy--
		}
	}
}

// Decline notes that a node's owner does not take a job: it is not asked again.
func (b *Book) Decline(job record.Ref, id record.NodeID) {
	if q := b.jobs[job]; q != nil {
		q.declined[id] = true
	}
}

// Next returns what must be done at now. Best tiers come first; within a tier the
// free places go round the jobs, one task each at a time, starting with the job that
// had its last step longest ago, so that no job starves another. Call it again after
// every Want, Advert and Observe, and at least each second while something waits.
func (b *Book) Next(now record.Millis) []Step {
	b.wakes(now)
	for p, h := range b.holds {
		if h.until <= now {
			b.release(p)
		}
	}
	all := b.candidates(now)
	places := uint32(0)
	for _, c := range all {
		places += c.free()
	}
	var steps []Step
	var asking []*want
	for _, q := range b.order() {
		// Each of those before gets a place: what is left for this one, if anything,
		// is for a later call.
		full := uint32(len(asking)) >= places
		if now <= q.terms.Expires && b.waits(now, q, all, full) {
			continue
		}
		n, err := b.look(now, q, all)
		if err != nil {
			steps = append(steps, q.give(err))
			b.tidy(q)
		} else if len(n.fits) > 0 && !full {
			asking = append(asking, &want{queue: q, census: n, group: q.group(n.places())})
		}
	}
	for len(asking) > 0 {
		tier := slices.IndexFunc(asking, func(w *want) bool { return w.terms.Tier != asking[0].terms.Tier })
		if tier < 0 {
			tier = len(asking)
		}
		b.share(now, asking[:tier])
		for _, w := range asking[:tier] {
			if w.got > 0 {
				steps = append(steps, b.step(w))
			}
		}
		asking = asking[tier:]
	}
	return steps
}

// order is the jobs that wait, in the order in which they are served.
func (b *Book) order() []*queue {
	var qs []*queue
	for _, q := range b.jobs {
		if len(q.tasks) > 0 {
			qs = append(qs, q)
		}
	}
	slices.SortFunc(qs, func(x, y *queue) int {
		return cmp.Or(cmp.Compare(y.terms.Tier, x.terms.Tier), cmp.Compare(x.turn, y.turn),
			cmp.Compare(x.tasks[0].Since, y.tasks[0].Since), bytes.Compare(x.job[:], y.job[:]))
	})
	return qs
}

// waits reports whether q can only wait: somebody fits, but not now. It looks no
// farther than it must, for it is asked of every job at every turn.
func (b *Book) waits(now record.Millis, q *queue, all []Candidate, full bool) bool {
	later := false
	for _, c := range all {
		if later && (full || c.free() == 0) || q.declined[c.ID] {
			continue
		}
		switch bad := misfits(*q.tasks[0], c, now, b.params); {
		case bad == 0 && !full:
			return false
		case bad&^(1<<Busy|1<<Stale) == 0:
			if later = true; full {
				return true
			}
		}
	}
	return later
}

// look returns who fits the first group of a queue, or why nobody ever will.
func (b *Book) look(now record.Millis, q *queue, all []Candidate) (*census, error) {
	if now > q.terms.Expires {
		return nil, ErrExpired
	}
	n := b.census(now, *q.tasks[0], all, q.declined)
	heard := b.born
	if n.nodes == 0 {
		heard = max(heard, q.wanted)
	}
	if n.never() && n.gone == 0 && now >= heard+b.patience {
		return nil, n.noMatch()
	}
	return n, nil
}

// Explain returns why tasks of a job wait at now: nil when somebody could start one,
// a *NoMatchError that counts the reasons otherwise.
func (b *Book) Explain(now record.Millis, job record.Ref) error {
	q := b.jobs[job]
	if q == nil || len(q.tasks) == 0 {
		return nil
	}
	if n := b.census(now, *q.tasks[0], b.candidates(now), q.declined); len(n.fits) == 0 {
		return n.noMatch()
	}
	return nil
}

// A want is a queue whose first group can be placed.
type want struct {
	*queue
	*census
	group []Task
	got   int
	at    int // in fits: those before are full
}

// group is the oldest tasks, at most so many, that one auction can place: of equal
// work, kept from the same nodes.
func (q *queue) group(most int) []Task {
	first := q.tasks[0]
	var g []Task
	for _, t := range q.tasks {
		if len(g) < most && t.work() == first.work() && slices.Equal(t.Avoid, first.Avoid) {
			g = append(g, *t)
		}
	}
	return g
}

// give hands all tasks back with err.
func (q *queue) give(err error) Step {
	s := Step{Err: err}
	for _, t := range q.tasks {
		delete(q.asked, t.Shard)
		s.Tasks = append(s.Tasks, *t)
	}
	q.tasks = nil
	return s
}

// places is how many tasks those that fit can take.
func (n *census) places() (sum int) {
	for _, f := range n.fits {
		sum += int(f.free())
	}
	return sum
}

// share gives free places to jobs of one tier, round after round, and keeps them.
func (b *Book) share(now record.Millis, ws []*want) {
	for more := true; more; {
		more = false
		for _, w := range ws {
			if w.got == len(w.group) {
				continue
			}
			for w.at < len(w.fits) && b.Candidate(now, w.fits[w.at].ID).free() == 0 {
				w.at++
			}
			if w.at == len(w.fits) {
				continue
			}
			b.keep(place{w.job, w.group[w.got].Shard}, w.fits[w.at].ID, now+stepHold)
			w.got++
			more = true
		}
	}
}

func (b *Book) step(w *want) Step {
	s := Step{Tasks: w.group[:w.got], Ask: w.shortlist(w.got, b.beacon)}
	for _, t := range s.Tasks {
		w.asked[t.Shard] = true
	}
	w.tasks = slices.DeleteFunc(w.tasks, func(t *Task) bool { return w.asked[t.Shard] })
	w.steps++
	b.turn++
	w.turn = b.turn
	return s
}

// near is ε: candidates whose cost is within so many ppm of R of the best are equal
// enough to draw among.
const near = 50_000

// shortlist returns whom to ask for k tasks. Were it always the cheapest, gateways
// with the same adverts would all ask the same few, and find them taken.
func (n *census) shortlist(k int, beacon record.Ref) []record.NodeID {
	most := max(20, 3*k)
	if len(n.fits) <= most {
		return ids(n.fits)
	}
	top := n.fits[0].score + record.Amount(record.MulDiv(uint64(Ceiling(n.t, n.p)), near, ppm))
	pool := slices.IndexFunc(n.fits, func(f fit) bool { return f.score > top })
	if pool < 0 {
		pool = len(n.fits)
	}
	return draw(n.fits[:max(pool, most)], most, n.t.Job, beacon)
}

// draw picks owner groups by beacon, at most two nodes of each, until there are most.
func draw(pool []fit, most int, job, beacon record.Ref) []record.NodeID {
	groups := map[record.NodeID][]fit{}
	lots := map[record.NodeID][32]byte{}
	for _, f := range pool {
		o := f.owner()
		if lots[o] = sha256.Sum256(slices.Concat(job[:], o[:], beacon[:])); len(groups[o]) < 2 {
			groups[o] = append(groups[o], f)
		}
	}
	var drawn []fit
	for _, o := range slices.SortedFunc(maps.Keys(groups), func(x, y record.NodeID) int {
		a, b := lots[x], lots[y]
		return bytes.Compare(a[:], b[:])
	}) {
		drawn = append(drawn, groups[o]...)
	}
	return ids(drawn[:min(most, len(drawn))])
}

func ids(fits []fit) []record.NodeID {
	out := make([]record.NodeID, len(fits))
	for i, f := range fits {
		out[i] = f.ID
	}
	return out
}

// Decide closes the auction of a step. Winners' places are kept until their bids
// expire or the lease entry is observed; unplaced tasks wait again; who was asked and
// neither bid nor declined counts as busy for a second. Bids that have expired or
// whose window is too short are lost. On ErrTie nothing has changed: call it again
// with a beacon.
func (b *Book) Decide(now record.Millis, s Step, bids []Bid, beacon record.Ref) (Result, error) {
	if len(s.Tasks) == 0 {
		return Result{}, nil
	}
	of := func(id record.NodeID) Candidate { return b.Candidate(now, id) }
	bid := map[record.NodeID]bool{}
	var late []Loss
	live := slices.DeleteFunc(slices.Clone(bids), func(x Bid) bool {
		bid[x.By] = true
		bad := x.Expires <= now || !slices.Contains(s.Ask, x.By) || !holds(x.Window, now, Span(s.Tasks[0], of(x.By)))
		if bad {
			late = append(late, Loss{ID: x.By, Why: OtherOffer})
		}
		return bad
	})
	res, err := Decide(s.Tasks, live, of, beacon, b.params)
	if err != nil {
		return res, err
	}
	res.Lost = append(res.Lost, late...)
	q := b.jobs[s.Tasks[0].Job]
	for _, t := range s.Tasks {
		b.Release(t)
		if q != nil {
			delete(q.asked, t.Shard)
		}
	}
	for _, a := range res.Awards {
		b.keep(place{a.Task.Job, a.Task.Shard}, a.Bid.By, a.Bid.Expires)
	}
	for _, id := range s.Ask {
		if n := b.nodes[id]; n != nil && !bid[id] && (q == nil || !q.declined[id]) {
			n.quiet = now + quiet
		}
	}
	if q != nil {
		q.steps--
		for _, t := range res.Unplaced {
			q.put(t)
		}
		b.tidy(q)
	}
	return res, nil
}

// tidy forgets a queue of which nothing waits or is asked for.
func (b *Book) tidy(q *queue) {
	if len(q.tasks) == 0 && q.steps <= 0 {
		delete(b.jobs, q.job)
	}
}
