package account_test

import (
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// A paper is a mesh as somebody would keep it with a pencil: plain numbers by account,
// keys as small numbers, no pending, no signatures, no stored form. It shares no code with
// the rules.
type paper struct {
	now, start int64

	of      map[int]record.NodeID // key → its account, once registered
	holders map[record.NodeID]*paperHolder
	owner   map[record.NodeID]record.NodeID

	free, earned, bond map[record.NodeID]int64
	out                map[record.NodeID]int64 // withdrawals that wait
	due                map[record.NodeID]int64 // reserved for it by leases
	touched            map[record.NodeID]bool  // something was ever posted
	held               map[record.NodeID][]paperDay
	leaving            map[record.NodeID][]paperPart

	fees, insurance int64
	minted          map[int64]int64
	used            map[string]bool
	outs            []*paperOut
	jobs            []*paperJob

	params, next paperParams
	changes      uint32
	from         int64 // of next
}

type paperParams struct{ cap, holdback, fee, vest, unbond int64 }

type paperHolder struct {
	key, rec, next int // -1 is none
	ripe           int64
}

type paperDay struct{ day, span, held, left int64 }

type paperPart struct{ amount, ripe int64 }

type paperOut struct {
	of     record.NodeID
	earned bool
	amount int64
	name   record.Ref
	ended  bool
}

type paperJob struct {
	signed                   record.Signed[record.Job]
	tenant, gateway, adopter int // keys; adopter -1 is none
	shards, retries          int
	expires                  int64
	closed, cancelled        bool
	left, bound              int64
	attempts                 [2]int
	done                     [2]bool
	runs                     [2]*paperLease
	epoch                    uint32
	mandates                 map[int]*paperMandate // by gateway's key
}

type paperMandate struct{ amount, rate, expires, drawn int64 }

type paperLease struct {
	job              *paperJob
	shard            int
	signed           record.Signed[record.Lease]
	provider         int
	of, payee        record.NodeID
	reserve, vouched int64
	n                uint32
	work             int64
	under            int // the delegate's key, or -1
	ended            bool
}

func newPaper(start int64) *paper {
	return &paper{now: start, start: start, of: map[int]record.NodeID{}, holders: map[record.NodeID]*paperHolder{}, owner: map[record.NodeID]record.NodeID{},
		free: map[record.NodeID]int64{}, earned: map[record.NodeID]int64{}, bond: map[record.NodeID]int64{}, out: map[record.NodeID]int64{},
		due: map[record.NodeID]int64{}, touched: map[record.NodeID]bool{}, held: map[record.NodeID][]paperDay{}, leaving: map[record.NodeID][]paperPart{},
		minted: map[int64]int64{}, used: map[string]bool{}, params: paperParams{cap: 1000, holdback: 250_000, fee: 100_000, vest: 3, unbond: int64(2 * day)}}
}

// wait lets time pass: rotations and changes that are due happen.
func (p *paper) wait(ms int64) {
	p.now += ms
	for _, h := range p.holders {
		if h.next >= 0 && p.now >= h.ripe {
			h.key, h.next = h.next, -1
		}
	}
	if p.from > 0 && p.now >= p.from {
		p.params, p.from = p.next, 0
	}
}

// acct is the account of a key.
func (p *paper) acct(k int) record.NodeID {
	if a, ok := p.of[k]; ok {
		return a
	}
	return id(cast[k])
}

// acts reports whether a key may sign.
func (p *paper) acts(k int) bool {
	a, ok := p.of[k]
	return !ok || p.holders[a].key == k
}

// resolve follows a name to the account that it stands for today.
func (p *paper) resolve(a record.NodeID) record.NodeID {
	for k := range cast {
		if id(cast[k]) == a {
			return p.acct(k)
		}
	}
	return a
}

func (p *paper) payee(a record.NodeID) record.NodeID {
	if o, ok := p.owner[a]; ok {
		return p.resolve(o)
	}
	return a
}

func (p *paper) heldOf(a record.NodeID) (sum int64) {
	for _, d := range p.held[a] {
		sum += d.left
	}
	return sum
}

func (p *paper) leavingOf(a record.NodeID) (sum int64) {
	for _, x := range p.leaving[a] {
		sum += x.amount
	}
	return sum
}

// give posts to a purse and remembers that something was there.
func (p *paper) give(purse map[record.NodeID]int64, a record.NodeID, amount int64) {
	if amount != 0 {
		purse[a] += amount
		p.touched[a] = true
	}
}

func (p *paper) purse(earned bool) map[record.NodeID]int64 {
	if earned {
		return p.earned
	}
	return p.free
}

// unused reports whether a key has been nothing yet.
func (p *paper) unused(k int) bool {
	_, in := p.of[k]
	a := id(cast[k])
	return !in && !p.touched[a] && p.out[a] == 0 && p.due[a] == 0
}

// ripe is what of a day's holdback is payable.
func (p *paper) ripe(d paperDay) int64 {
	since, span := p.now-(d.day+1)*int64(day), d.span*int64(day)
	switch {
	case since < 0:
		return 0
	case since >= span:
		return d.left
	}
	return max(0, d.left-(d.held-d.held*since/span))
}

// slash takes a share of bond and holdback: the bond first, the newest first.
func (p *paper) slash(a record.NodeID, ppm int64) {
	sum := (p.bond[a] + p.heldOf(a)) * ppm / 1e6
	p.insurance += sum
	first := min(sum, p.bond[a])
	p.bond[a] -= first
	for over := p.leavingOf(a) - p.bond[a]; over > 0; {
		last := len(p.leaving[a]) - 1
		less := min(over, p.leaving[a][last].amount)
		p.leaving[a][last].amount -= less
		over -= less
		if p.leaving[a][last].amount == 0 {
			p.leaving[a] = p.leaving[a][:last]
		}
	}
	for i, rest := len(p.held[a])-1, sum-first; i >= 0 && rest > 0; i-- {
		less := min(rest, p.held[a][i].left)
		p.held[a][i].left -= less
		rest -= less
	}
}

// pay ends a lease and divides what it comes to.
func (p *paper) pay(l *paperLease, amount int64, done bool) {
	j := l.job
	l.ended, j.runs[l.shard] = true, nil
	j.bound -= l.reserve
	j.left -= amount
	p.due[l.payee] -= l.reserve
	if done {
		j.done[l.shard] = true
	}
	if m := j.mandates[l.under]; m != nil {
		m.drawn -= l.reserve - amount
	}
	held, fee := amount*p.params.holdback/1e6, amount*p.params.fee/1e6
	p.give(p.earned, l.payee, amount-held-fee)
	p.fees += fee
	if held == 0 {
		return
	}
	p.touched[l.of] = true
	today := p.now / int64(day)
	for i, d := range p.held[l.of] {
		if d.day == today && d.span == p.params.vest {
			p.held[l.of][i].held += held
			p.held[l.of][i].left += held
			return
		}
	}
	p.held[l.of] = append(p.held[l.of], paperDay{today, p.params.vest, held, held})
}

// spends reports whether a key may spend a job's escrow.
func (p *paper) spends(j *paperJob, k int) bool {
	return p.acts(k) && (k == j.supervisor() || p.acct(k) == p.acct(j.tenant))
}

func (j *paperJob) supervisor() int {
	if j.adopter >= 0 {
		return j.adopter
	}
	return j.gateway
}

func (j *paperJob) running() bool { return j.runs[0] != nil || j.runs[1] != nil }

func (j *paperJob) undone() bool {
	for s := range j.shards {
		if !j.done[s] {
			return true
		}
	}
	return false
}

// refund closes a job.
func (p *paper) refund(j *paperJob) {
	p.give(p.free, p.acct(j.tenant), j.left)
	j.left, j.closed = 0, true
}

// compare returns what differs between the paper and a state, or "".
func (p *paper) compare(m *maps) (string, record.NodeID, int64, record.Amount) {
	names := map[record.NodeID]bool{}
	for k := range cast {
		names[id(cast[k])], names[p.acct(k)] = true, true
	}
	for a := range names {
		for _, x := range []struct {
			what string
			kind account.Kind
			want int64
		}{
			{"free", account.Tenant, p.free[a]}, {"earned", account.Provider, p.earned[a]},
			{"bond", account.Stake, p.bond[a]}, {"held", account.Holdback, p.heldOf(a)},
		} {
			if got := m.free(x.kind, a); got != record.Amount(x.want) {
				return x.what, a, x.want, got
			}
		}
	}
	for _, j := range p.jobs {
		if got := m.free(account.Escrow, j.signed.Ref()); got != record.Amount(j.left-j.bound) {
			return "escrow", record.NodeID(j.signed.Ref()), j.left - j.bound, got
		}
	}
	if got := m.free(account.Fees, [32]byte{}); got != record.Amount(p.fees) {
		return "fees", record.NodeID{}, p.fees, got
	}
	if got := m.free(account.Insurance, [32]byte{}); got != record.Amount(p.insurance) {
		return "insurance", record.NodeID{}, p.insurance, got
	}
	return "", record.NodeID{}, 0, 0
}
