package account_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// An oracle is the money of a mesh as somebody would keep it on paper: one number a
// purse, no pending, no signatures.
type oracle struct {
	purse      [3]int64 // of the tenants
	jobs       [12]oracleJob
	earned     int64
	held, fees int64
	minted     map[int]int64
	used       map[int]bool
	day        int
}

type oracleJob struct {
	open, closed     bool
	left, bound      int64 // in escrow, of it reserved
	attempts, undone [3]int
	running          [3]*oracleLease
}

type oracleLease struct {
	job, shard int
	reserve    int64
	rate       record.Amount
	signed     record.Signed[record.Lease]
	ended      bool
}

// Job k of the test is fixed by k alone, so that its signature is made once.
func jobShards(k int) int    { return 1 + k%3 }
func jobRetries(k int) int   { return k % 3 }
func jobTotal(k int) int64   { return 20 * int64(k%4) }
func jobTenant(k int) int    { return k % 3 }
func jobExpires(k int) int64 { return int64(now) + 86_400_000*int64(1+k%4) }

// A play drives the rules and the oracle side by side.
type play struct {
	*rapid.T
	state  *maps
	paper  oracle
	leases []*oracleLease
	signed *cache
}

// A cache keeps signed records between runs: making them is most of the work.
type cache struct {
	tenants [3]ed25519.PrivateKey
	jobs    [12]record.Signed[record.Job]
	leases  map[string]record.Signed[record.Lease]
	settles map[string]record.Entry
}

func newCache() *cache {
	c := &cache{leases: map[string]record.Signed[record.Lease]{}, settles: map[string]record.Entry{}}
	for i := range c.tenants {
		c.tenants[i] = newKey(byte(20 + i))
	}
	for k := range c.jobs {
		j := terms()
		j.Shards, j.Retries, j.MaxTotal = uint32(jobShards(k)), uint32(jobRetries(k)), record.Amount(jobTotal(k))
		j.Expires, j.Body = record.Millis(jobExpires(k)), record.Ref{byte(k + 1)}
		c.jobs[k] = sign(c.tenants[jobTenant(k)], j)
	}
	return c
}

// TestProperty compares random entries with an oracle: 200,000 of them, or
// IDLEMESH_OPERATIONS. A failure prints the seed that repeats it.
func TestProperty(t *testing.T) {
	ops := 200_000
	if s := os.Getenv("IDLEMESH_OPERATIONS"); s != "" {
		var err error
		if ops, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	signed := newCache()
	done, taken := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		p := play{T: rt, state: newMaps(), paper: oracle{minted: map[int]int64{}, used: map[int]bool{}}, signed: signed}
		for i := range max(ops/100, 1) {
			if p.step() {
				taken++
			}
			if i%20 == 0 {
				p.compare()
			}
			done++
		}
		p.compare()
	})
	t.Logf("%d operations, %d taken", done, taken)
	if testing.Short() {
		ops /= 5 // as rapid does
	}
	if !t.Failed() && (done < ops || taken < ops/20) {
		t.Errorf("only %d operations, of which %d taken, of %d", done, taken, ops)
	}
}

func (p *play) n(what string, limit int) int { return rapid.IntRange(0, limit-1).Draw(p.T, what) }

// step makes one entry and reports whether both took it.
func (p *play) step() bool {
	var want bool
	var err error
	switch p.n("entry", 12) {
	case 0, 1:
		want, err = p.deposit()
	case 2, 3:
		want, err = p.open()
	case 4, 5, 6:
		want, err = p.lease()
	case 7, 8:
		want, err = p.settle()
	case 9:
		want, err = p.cut()
	case 10:
		want, err = p.close()
	default:
		if p.n("wait", 8) == 0 {
			p.paper.day++
		}
		if p.paper.day > 6 { // a fresh mesh: else everything is closed before long
			p.state, p.leases = newMaps(), nil
			p.paper = oracle{minted: map[int]int64{}, used: map[int]bool{}}
		}
		return false
	}
	if (err == nil) != want {
		p.Fatalf("taken %v by the oracle, by the rules: %v", want, err)
	}
	return want
}

func (p *play) post(by ed25519.PrivateKey, e record.Entry) error {
	err := p.state.post(by, now+record.Millis(p.paper.day)*86_400_000, e)
	var overdraft *account.OverdraftError
	known := errors.As(err, &overdraft)
	for _, k := range []error{account.ErrEntry, account.ErrAuthor, account.ErrOnce, account.ErrClosed, account.ErrUnknown, account.ErrCap} {
		known = known || errors.Is(err, k)
	}
	if err != nil && !known {
		p.Fatalf("an error of no kind: %v", err)
	}
	return err
}

func (p *play) deposit() (want bool, err error) {
	to, amount, name := p.n("tenant", 3), int64(p.n("amount", 200)), p.n("reference", 400)
	o := &p.paper
	if want = amount > 0 && !o.used[name] && o.minted[o.day]+amount <= 1000; want {
		o.used[name] = true
		o.minted[o.day] += amount
		o.purse[to] += amount
	}
	return want, p.post(mint, record.Entry{Kind: record.TypeDeposit, Deposit: &record.Deposit{
		To: pub(p.signed.tenants[to]).ID(), Amount: record.Amount(amount), External: fmt.Sprint(name),
	}})
}

func (p *play) at() int64 { return int64(now) + int64(p.paper.day)*86_400_000 }

func (p *play) open() (want bool, err error) {
	k := p.n("job", 12)
	j, purse := &p.paper.jobs[k], &p.paper.purse[jobTenant(k)]
	total := jobTotal(k)
	if want = !j.open && total > 0 && *purse >= total && jobExpires(k) > p.at(); want {
		j.open, j.left = true, total
		*purse -= total
		for s := range j.undone {
			j.undone[s] = 1
		}
	}
	return want, p.post(gateway, record.Entry{Kind: record.TypeJob, Job: &p.signed.jobs[k]})
}

func (p *play) lease() (want bool, err error) {
	k, s := p.n("job", 12), p.n("shard", 3)
	j := &p.paper.jobs[k]
	attempt := j.attempts[s] + 1
	if p.n("other attempt", 8) == 0 {
		attempt = p.n("attempt", 4)
	}
	reserve, rate := int64(p.n("reserve", 30)), record.Credit/4
	if p.n("rate", 10) == 0 {
		rate++
	}
	text := fmt.Sprint(k, s, attempt, reserve, rate)
	signed, ok := p.signed.leases[text]
	if !ok {
		ref := p.signed.jobs[k].Ref()
		bid := sign(provider, record.Bid{Job: ref, Expires: now + 7*86_400_000})
		signed = sign(gateway, record.Lease{Bid: bid, Job: ref, Shard: uint32(s), Attempt: uint32(attempt), Rate: rate, Reserve: record.Amount(reserve)})
		p.signed.leases[text] = signed
	}
	want = j.open && !j.closed && s < jobShards(k) && attempt == j.attempts[s]+1 && attempt <= jobRetries(k)+1 &&
		j.running[s] == nil && j.undone[s] > 0 && rate == record.Credit/4 && reserve > 0 && reserve <= j.left-j.bound && p.at() <= jobExpires(k)
	if want {
		l := &oracleLease{job: k, shard: s, reserve: reserve, rate: rate, signed: signed}
		j.attempts[s], j.running[s] = attempt, l
		j.bound += reserve
		p.leases = append(p.leases, l)
	}
	return want, p.post(tenant, record.Entry{Kind: record.TypeLease, Lease: &signed})
}

// pick returns a lease, most often one of the last.
func (p *play) pick() *oracleLease {
	if len(p.leases) == 0 {
		return nil
	}
	return p.leases[max(0, len(p.leases)-1-p.n("lease", 6))]
}

func (p *play) settle() (want bool, err error) {
	l := p.pick()
	if l == nil {
		return false, account.ErrUnknown
	}
	end, work, last := record.Exited, record.Work(p.n("work", 40))*14_400_000, p.n("last", 2) == 0
	if p.n("lost", 4) == 0 {
		end = record.NodeLost
	}
	due := min(int64(work/14_400_000), l.reserve)
	if end == record.NodeLost {
		due = 0
	}
	paid := due
	if p.n("wrong", 8) == 0 {
		paid++
	}
	text := fmt.Sprint(l.signed.Ref(), end, work, paid, last)
	e, ok := p.signed.settles[text]
	if !ok {
		r := record.Receipt{Lease: l.signed.Ref(), Job: l.signed.Value.Job, Shard: uint32(l.shard), Attempt: l.signed.Value.Attempt, End: end, Usage: record.Usage{Work: work}}
		v := record.Voucher{Lease: l.signed.Ref(), N: 1, Amount: record.Amount(paid), Work: work}
		e = settle(r, v, last)
		p.signed.settles[text] = e
	}
	j := &p.paper.jobs[l.job]
	left := 0
	for s := range jobShards(l.job) {
		if s != l.shard || end == record.NodeLost {
			left += j.undone[s]
		}
	}
	if want = !l.ended && paid == due && !(last && left > 0); want {
		p.paper.pay(l, due, end != record.NodeLost)
		if last {
			p.paper.refund(l.job)
		}
	}
	return want, p.post(stranger, e)
}

func (o *oracle) pay(l *oracleLease, due int64, done bool) {
	j := &o.jobs[l.job]
	l.ended, j.running[l.shard] = true, nil
	j.bound -= l.reserve
	j.left -= due
	o.held, o.fees, o.earned = o.held+due/4, o.fees+due/10, o.earned+due-due/4-due/10
	if done {
		j.undone[l.shard] = 0
	}
}

func (o *oracle) refund(k int) {
	o.purse[jobTenant(k)] += o.jobs[k].left
	o.jobs[k].left, o.jobs[k].closed = 0, true
}

func (p *play) cut() (want bool, err error) {
	l := p.pick()
	if l == nil {
		return false, account.ErrUnknown
	}
	by, may := gateway, true
	if p.n("by", 4) == 0 {
		by, may = stranger, false
	}
	if want = !l.ended && may; want {
		p.paper.pay(l, 0, false)
	}
	return want, p.post(by, record.Entry{Kind: record.TypeCut, Cut: &record.Cut{Lease: l.signed.Ref()}})
}

func (p *play) close() (want bool, err error) {
	k, why := p.n("job", 12), record.Reason(p.n("why", 7))
	j := &p.paper.jobs[k]
	running, undone := false, 0
	for s := range jobShards(k) {
		running = running || j.running[s] != nil
		undone += j.undone[s]
	}
	if want = j.open && !j.closed && !running && why >= 1 && why <= 5 && (why != record.Finished || undone == 0); want {
		p.paper.refund(k)
	}
	ref := p.signed.jobs[k].Ref()
	return want, p.post(gateway, record.Entry{Kind: record.TypeClose, Stream: ref, Close: &record.Close{Job: ref, Why: why}})
}

// compare reads every account against the paper and adds all of them up.
func (p *play) compare() {
	who := pub(provider).ID()
	is := func(what string, k account.Kind, owner [32]byte, want int64) {
		if got := p.state.free(k, owner); got != record.Amount(want) {
			p.Fatalf("%s is %d, on paper %d", what, uint64(got), want)
		}
	}
	for i, key := range p.signed.tenants {
		is("purse", account.Tenant, pub(key).ID(), p.paper.purse[i])
	}
	for k, j := range p.paper.jobs {
		is("escrow", account.Escrow, p.signed.jobs[k].Ref(), j.left-j.bound)
	}
	is("earned", account.Provider, who, p.paper.earned)
	is("held", account.Holdback, who, p.paper.held)
	is("fees", account.Fees, [32]byte{}, p.paper.fees)
	var sum account.Balance
	for id, b := range p.state.balance {
		if id.Kind != account.Mint && b.CreditsPosted < b.DebitsPosted+b.DebitsPending {
			p.Fatalf("%v is below zero: %+v", id, b)
		}
		sum.DebitsPending += b.DebitsPending
		sum.DebitsPosted += b.DebitsPosted
		sum.CreditsPending += b.CreditsPending
		sum.CreditsPosted += b.CreditsPosted
	}
	if sum.DebitsPending != sum.CreditsPending || sum.DebitsPosted != sum.CreditsPosted {
		p.Fatalf("debits and credits differ: %+v", sum)
	}
}
