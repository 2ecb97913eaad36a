package market

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"

	"idlemesh/ledger/record"
)

// A Bid is a live bid and whose it is. Signatures are checked before and kept by
// whoever asks: a simulator has none.
type Bid struct {
	By record.NodeID
	record.Bid
}

// An Award places one task.
type Award struct {
	Task Task
	Bid  Bid
	Rate record.Amount // paid per hour of reference-GPU work
	Cost record.Amount // C of the bid, µcredits
}

// A Loss tells a bidder why he lost.
type Loss struct {
	ID record.NodeID
	// WinsAt is the highest ask, per hour of his device, at which this bid would
	// have won; zero when no ask above zero would.
	WinsAt record.Amount
	Why    Reason // zero: others were cheaper
}

// A Result is the outcome of one auction. Awards come cheapest first, and place the
// tasks in their order.
type Result struct {
	Awards   []Award
	Lost     []Loss
	Unplaced []Task
}

// ErrTie says that equal bids wait for a beacon: call Decide again with the root of
// a tree head made after the bids closed.
var ErrTie = errors.New("equal bids need a beacon from after the bids closed")

// ErrMixed refuses tasks that one auction cannot place: of two jobs, or of unequal
// work.
var ErrMixed = errors.New("one auction places tasks of one job and of equal work")

// Decide places tasks, all of one job and of equal work, on the bids of lowest cost.
//
// An owner who wins m tasks gets for them the m lowest scores among other owners'
// bids that did not win, R for each that is missing, less the Q of his own winners:
// what the tenant would have paid without him. So asking anything but one's cost,
// holding devices back or posing as several owners gains nothing. Each lease is paid
// its part of the sum, to the last µcredit an hour; no part is below its own
// AskRate or above Ceiling.
//
// Bids of nodes that of knows nothing of, above their adverts, for other devices, or
// above R are lost. Ties go to the longest since its last lease, then by
// SHA-256(job‖node‖beacon); ErrTie asks for a beacon when it matters and is zero.
// Equal arguments in any order of bids give equal results.
func Decide(tasks []Task, bids []Bid, of func(record.NodeID) Candidate, beacon record.Ref, p record.Params) (Result, error) {
	if len(tasks) == 0 {
		return Result{}, nil
	}
	for _, t := range tasks {
		if t.Job != tasks[0].Job || t.work() != tasks[0].work() {
			return Result{}, ErrMixed
		}
	}
	a := auction{t: tasks[0], limit: Ceiling(tasks[0], p), k: len(tasks)}
	a.rank(bids, of, beacon)
	if beacon == (record.Ref{}) && a.tied() {
		return Result{}, ErrTie
	}
	won := a.ranked[:min(a.k, len(a.ranked))]
	res := Result{Unplaced: tasks[len(won):]}
	rates := a.rates(len(won))
	for i, b := range won {
		res.Awards = append(res.Awards, Award{Task: tasks[i], Bid: b.Bid, Rate: rates[i], Cost: a.t.amount(b.score)})
	}
	res.Lost = a.losses(len(won))
	return res, nil
}

// An auction ranks the bids for k tasks like t.
type auction struct {
	t      Task
	limit  record.Amount
	k      int
	ranked []ranked // that may win, cheapest first
	dear   []ranked // above R
	lost   []Loss   // that were never offers
}

type ranked struct {
	Bid
	owner    record.NodeID
	score, q record.Amount
	filled   record.Millis
	lot      [32]byte
}

// compare is what decides before the lot does.
func (r ranked) compare(s ranked) int {
	return cmp.Or(cmp.Compare(r.score, s.score), cmp.Compare(r.filled, s.filled))
}

func (a *auction) rank(bids []Bid, of func(record.NodeID) Candidate, beacon record.Ref) {
	for _, b := range bids {
		c := of(b.By)
		r := ranked{Bid: b, owner: c.owner(), q: penalty(a.t, c, a.limit), filled: c.Standing.Filled}
		r.score = score(a.t, c, b.Ask, a.limit)
		r.lot = sha256.Sum256(slices.Concat(a.t.Job[:], b.By[:], beacon[:]))
		switch {
		case c.ID != b.By || b.Job != a.t.Job || b.Device != c.Advert.Device || b.Ask > c.Advert.Ask:
			a.lost = append(a.lost, Loss{ID: b.By, Why: OtherOffer})
		case r.score > a.limit:
			a.dear = append(a.dear, r)
		default:
			a.ranked = append(a.ranked, r)
		}
	}
	slices.SortFunc(a.ranked, order)
	// A bid counts once, at its lowest, however often it is sent.
	seen := map[bidKey]bool{}
	a.ranked = slices.DeleteFunc(a.ranked, func(r ranked) bool {
		k := bidKey{r.By, r.Nonce}
		was := seen[k]
		seen[k] = true
		return was
	})
}

type bidKey struct {
	by    record.NodeID
	nonce uint64
}

// order is total but for bids that are equal in all that an award shows.
func order(r, s ranked) int {
	return cmp.Or(r.compare(s), bytes.Compare(r.lot[:], s.lot[:]), bytes.Compare(r.By[:], s.By[:]),
		cmp.Compare(r.Nonce, s.Nonce), cmp.Compare(r.Ask, s.Ask), cmp.Compare(r.Window.From, s.Window.From),
		cmp.Compare(r.Window.Until, s.Window.Until), cmp.Compare(r.Expires, s.Expires), cmp.Compare(r.HandBack, s.HandBack))
}

// tied reports whether only the lot says which node gets the last task.
func (a *auction) tied() bool {
	if len(a.ranked) <= a.k {
		return false
	}
	last, next := a.ranked[a.k-1], a.ranked[a.k]
	if last.compare(next) != 0 {
		return false
	}
	for _, r := range a.ranked {
		if r.compare(last) == 0 && r.By != last.By {
			return true
		}
	}
	return false
}

// rates are what the first n of ranked are paid per hour of work. An owner's sum is
// split evenly, a remainder goes to his first winners: each of the scores in it is at
// least that of every winner, so no part falls below its own.
func (a *auction) rates(n int) []record.Amount {
	rates := make([]record.Amount, n)
	mine := map[record.NodeID][]int{}
	for i, r := range a.ranked[:n] {
		mine[r.owner] = append(mine[r.owner], i)
	}
	for owner, wins := range mine {
		sum, m := a.replacement(owner, n, len(wins)), record.Amount(len(wins))
		for j, i := range wins {
			rates[i] = sum/m - a.ranked[i].q
			if record.Amount(j) < sum%m {
				rates[i]++
			}
		}
	}
	return rates
}

// replacement sums the m lowest scores that others would have filled in with.
func (a *auction) replacement(owner record.NodeID, n, m int) (sum record.Amount) {
	for _, r := range a.ranked[n:] {
		if m == 0 {
			break
		}
		if r.owner != owner {
			sum += r.score
			m--
		}
	}
	return sum + record.Amount(m)*a.limit
}

// losses tells every bid but the first n of ranked why it lost.
func (a *auction) losses(n int) []Loss {
	lost := a.lost
	for _, b := range a.ranked[n:] {
		lost = append(lost, Loss{ID: b.By, WinsAt: a.winsAt(b, n)})
	}
	for _, b := range a.dear {
		lost = append(lost, Loss{ID: b.By, WinsAt: a.winsAt(b, n), Why: TooDear})
	}
	slices.SortFunc(lost, func(x, y Loss) int {
		return cmp.Or(cmp.Compare(x.Why, y.Why), cmp.Compare(y.WinsAt, x.WinsAt), bytes.Compare(x.ID[:], y.ID[:]))
	})
	return lost
}

// winsAt is the highest ask at which b would be among the n winners, or one more
// where a task is left.
func (a *auction) winsAt(b ranked, n int) record.Amount {
	if n < a.k {
		return a.ask(b.Bid, a.limit, b.q)
	}
	last := a.ranked[n-1]
	top := last.score
	if b.score = top; order(b, last) > 0 {
		if top == 0 {
			return 0
		}
		top--
	}
	return a.ask(b.Bid, top, b.q)
}

// ask is the highest ask of b's device whose score is at most top.
func (a *auction) ask(b Bid, top, q record.Amount) record.Amount {
	if top < q {
		return 0
	}
	return askFor(top-q, b.Device.Speed)
}
