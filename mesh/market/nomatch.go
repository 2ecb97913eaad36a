package market

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"idlemesh/ledger/record"
)

// A NoMatchError says why nobody can serve a task, ever or (from Explain) now, and
// what would help.
type NoMatchError struct {
	Counts  map[Reason]int // nodes by the first reason that each has
	Nodes   int            // that advertise, or did lately
	Nearest []Relaxation   // that one change would bring, most nodes first
	text    string
}

// A Relaxation is one change to a job that makes nodes fit.
type Relaxation struct {
	Reason Reason
	Flags  string        // of submit, such as --max-price 0.40
	Fits   int           // nodes that would fit
	Price  record.Amount // rate that the cheapest of them asks, per hour of reference-GPU work
}

// Error counts the reasons.
func (e *NoMatchError) Error() string { return e.text }

// Next returns the flags that help most, or nothing.
func (e *NoMatchError) Next() string {
	if len(e.Nearest) == 0 {
		return ""
	}
	return e.Nearest[0].Flags
}

// A census sorts candidates by whether they can serve t.
type census struct {
	t       Task
	now     record.Millis
	p       record.Params
	fits    []fit // now, cheapest first
	avoided []fit // would, had they not lost t before
	busy    int   // would, when a lease ends
	gone    int   // would, had their adverts not expired: they may come back
	nodes   int
	counts  map[Reason]int
	single  map[Reason][]Candidate // that only one lasting reason keeps away
}

type fit struct {
	Candidate
	score record.Amount
}

func (n *census) add(c Candidate, bad set) {
	n.nodes++
	lasting := bad &^ passing
	switch {
	case bad == 0:
		n.fits = append(n.fits, fit{c, score(n.t, c, c.Advert.Ask, Ceiling(n.t, n.p))})
	case bad == 1<<Avoided:
		n.avoided = append(n.avoided, fit{c, score(n.t, c, c.Advert.Ask, Ceiling(n.t, n.p))})
	case lasting == 0:
		n.busy++
	case lasting == 1<<Stale:
		n.gone++
	}
	if bad == 0 {
		return
	}
	n.counts[bad.first()]++
	if lasting&(lasting-1) == 0 && lasting != 0 {
		n.single[lasting.first()] = append(n.single[lasting.first()], c)
	}
}

// never reports whether nobody fits, not even later.
func (n *census) never() bool { return len(n.fits)+len(n.avoided)+n.busy == 0 }

func (n *census) noMatch() *NoMatchError {
	e := &NoMatchError{Counts: n.counts, Nodes: n.nodes}
	for _, r := range slices.Sorted(maps.Keys(n.single)) {
		if x, ok := n.relax(r, n.single[r]); ok {
			e.Nearest = append(e.Nearest, x)
		}
	}
	slices.SortStableFunc(e.Nearest, func(a, b Relaxation) int { return b.Fits - a.Fits })
	var parts []string
	for _, r := range slices.Sorted(maps.Keys(n.counts)) {
		parts = append(parts, n.phrase(r))
	}
	e.text = "no provider fits: " + strings.Join(parts, ", ")
	if !n.never() {
		e.text = "no provider is free: " + strings.Join(parts, ", ")
	}
	if n.nodes == 0 {
		e.text = "no provider fits: none is connected"
	}
	return e
}

// phrase says how many nodes a reason keeps away, and how far off the nearest is.
func (n *census) phrase(r Reason) string {
	need, many := n.t.Terms.Needs, n.counts[r]
	one := func(single, plural string) string {
		if many == 1 {
			return "1 " + single
		}
		return fmt.Sprintf("%d %s", many, plural)
	}
	switch r {
	case Stale:
		return one("no longer answers", "no longer answer")
	case WrongRegion:
		return one("is", "are") + " outside region " + need.Region
	case WrongTier:
		return one("does", "do") + " not sell tier " + n.t.Terms.Tier.String()
	case WrongModel:
		return one("is", "are") + " not of model " + need.Model
	case TooSmall:
		return one("has", "have") + " less than " + size(need.VRAM) + " VRAM"
	case Simulated:
		return one("is", "are") + " simulated, which this mesh does not let earn"
	case NoWindow:
		return one("has", "have") + " no window long enough"
	case TooFar:
		return one("is", "are") + fmt.Sprintf(" farther than %d ms", need.MaxRTT)
	case Unreliable:
		return one("is", "are") + fmt.Sprintf(" less reliable than %s", share(need.Reliability))
	case TooDear:
		return one("asks", "ask") + " more than " + credits(Ceiling(n.t, n.p)) + " cr/GPU-h" + n.nearestAsk()
	case Declined:
		return one("declines", "decline") + " this job"
	}
	return one("is busy", "are busy")
}

func (n *census) nearestAsk() string {
	dear := n.single[TooDear]
	if len(dear) == 0 {
		return ""
	}
	return " (nearest asks " + credits(cheapest(dear)) + ")"
}

func cheapest(cs []Candidate) record.Amount {
	best := record.Amount(1<<64 - 1)
	for _, c := range cs {
		best = min(best, AskRate(c.Advert.Ask, c.Advert.Device.Speed))
	}
	return best
}

// relax returns the least change to the constraint behind r that lets one of cs fit.
func (n *census) relax(r Reason, cs []Candidate) (Relaxation, bool) {
	slices.SortFunc(cs, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(AskRate(a.Advert.Ask, a.Advert.Device.Speed), AskRate(b.Advert.Ask, b.Advert.Device.Speed)),
			bytes.Compare(a.ID[:], b.ID[:]))
	})
	first := cs[0].Advert
	switch r {
	case WrongRegion:
		return n.with(r, "--region "+word(first.Region), cs, func(t *Task) { t.Terms.Needs.Region = first.Region })
	case WrongModel:
		return n.with(r, "--gpu "+word(first.Device.Model), cs, func(t *Task) { t.Terms.Needs.Model = first.Device.Model })
	case WrongTier:
		for tier := record.Bronze; tier <= record.Gold; tier++ {
			if x, ok := n.with(r, "--tier "+tier.String(), cs, func(t *Task) { t.Terms.Tier = tier }); ok {
				return x, true
			}
		}
	case TooSmall:
		most := slices.MaxFunc(cs, func(a, b Candidate) int { return cmp.Compare(a.Advert.Device.VRAM, b.Advert.Device.VRAM) }).Advert.Device.VRAM
		flag := "--min-vram " + strings.ReplaceAll(size(most), " ", "")
		return n.with(r, flag, cs, func(t *Task) { t.Terms.Needs.VRAM = most })
	case TooFar:
		return n.nearer(cs)
	case Unreliable:
		most := uint32(0)
		for _, c := range cs {
			most = max(most, c.Standing.Reliability())
		}
		return n.with(r, "--min-reliability "+share(most), cs, func(t *Task) { t.Terms.Needs.Reliability = most })
	case TooDear:
		return n.dearer(cs)
	}
	return Relaxation{}, false
}

// nearer is the distance of the nearest, of those whose distance is known.
func (n *census) nearer(cs []Candidate) (Relaxation, bool) {
	least := record.Millis(-1)
	for _, c := range cs {
		if c.RTT >= 0 && (least < 0 || c.RTT < least) {
			least = c.RTT
		}
	}
	if least < 0 {
		return Relaxation{}, false
	}
	return n.with(TooFar, fmt.Sprintf("--max-rtt %dms", least), cs, func(t *Task) { t.Terms.Needs.MaxRTT = least })
}

// with counts whom a change lets in.
func (n *census) with(r Reason, flags string, cs []Candidate, change func(*Task)) (Relaxation, bool) {
	t := n.t
	change(&t)
	var in []Candidate
	for _, c := range cs {
		if s := misfits(t, c, n.now, n.p) &^ passing; !s.has(r) && !s.has(TooDear) {
			in = append(in, c)
		}
	}
	return Relaxation{Reason: r, Flags: flags, Fits: len(in), Price: cheapest(in)}, len(in) > 0
}

// dearer finds what the tenant must offer: a ceiling of the price, of the total, or
// both. Nothing helps against the class reserve.
func (n *census) dearer(cs []Candidate) (Relaxation, bool) {
	low := maxRate
	for _, c := range cs {
		low = min(low, offer(n.t, c))
	}
	if low > n.p.Reserve || low == maxRate {
		return Relaxation{}, false
	}
	if cent := (low + 9_999) / 10_000 * 10_000; cent <= n.p.Reserve {
		low = cent // two decimals read better
	}
	var flags []string
	t := n.t
	if t.Terms.MaxPrice < low {
		t.Terms.MaxPrice = low
		flags = append(flags, "--max-price "+credits(low))
	}
	if Ceiling(t, n.p) < low {
		each := record.MulDiv(uint64(low), uint64(t.work()), hour) + 1
		t.Terms.MaxTotal = record.Amount(each) * record.Amount(max(t.Terms.Shards, 1))
		flags = append(flags, "--max-total "+credits(t.Terms.MaxTotal))
	}
	return n.with(TooDear, strings.Join(flags, " "), cs, func(u *Task) { u.Terms = t.Terms })
}

// offer is the lowest ceiling at which c fits: Q grows with the ceiling, by less.
func offer(t Task, c Candidate) record.Amount {
	ask := AskRate(c.Advert.Ask, c.Advert.Device.Speed)
	if ask >= maxRate {
		return maxRate
	}
	low, high := ask, maxRate
	for low < high {
		if mid := low + (high-low)/2; add(ask, penalty(t, c, mid)) <= mid {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// credits shows an amount with as few decimals as are true, at least two.
func credits(a record.Amount) string {
	s := a.String()
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1]
	}
	return s
}

// word quotes what a stranger wrote where a shell or a terminal could stumble on it.
func word(s string) string {
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' {
			return strconv.Quote(s)
		}
	}
	return cmp.Or(s, `""`)
}

// share shows ppm as a share of one, as flags take it.
func share(ppm uint32) string { return credits(record.Amount(ppm)) }

func size(b uint64) string {
	for _, u := range []struct {
		of   uint64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if b >= u.of && b%u.of == 0 {
			return fmt.Sprintf("%d %s", b/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d B", b)
}
