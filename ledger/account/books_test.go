package account_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// cast are the keys of the play: anybody may try anything.
var cast = func() (keys [16]ed25519.PrivateKey) {
	for i := range keys {
		keys[i] = newKey(byte(100 + i))
	}
	return keys
}()

const (
	mintKey      = 9
	gatewayA     = 5
	gatewayB     = 6
	forker       = 3 // a keeper that signs whatever one asks
	slashShare   = 300_000
	workUnit     = 144e5 // a µcredit's work at a quarter of a credit an hour
	castRate     = record.Credit / 4
	opsPerWorld  = 500
	defaultBooks = 60_000
)

// A stage drives the rules and the paper side by side.
type stage struct {
	*testing.T
	*paper
	r      *rand.Rand
	seed   uint64
	op     int
	m      *maps
	leases []*paperLease
	taken  map[record.EntryType]int
}

// TestBooks compares random entries of every type with a paper oracle: 60,000 of them, or
// IDLEMESH_OPS. A failure names the seed of its world; IDLEMESH_SEED plays that one alone.
func TestBooks(t *testing.T) {
	ops, seed := number(t, "IDLEMESH_OPS", defaultBooks), number(t, "IDLEMESH_SEED", 0)
	if testing.Short() {
		ops /= 5
	}
	taken, done := map[record.EntryType]int{}, 0
	for world := uint64(1); done < ops && !t.Failed(); world++ {
		s := newStage(t, world, taken)
		if seed > 0 {
			s = newStage(t, uint64(seed), taken)
		}
		for s.op = range opsPerWorld {
			s.step()
			if s.op%50 == 49 {
				s.check()
			}
		}
		if done += opsPerWorld; seed > 0 {
			break
		}
	}
	t.Logf("%d operations: %v", done, counts(taken))
	for kind := record.TypeDeposit; kind.String() != "unknown" && seed == 0; kind++ {
		if taken[kind] < ops/10_000 {
			t.Errorf("only %d entries of type %v were taken", taken[kind], kind)
		}
	}
}

func number(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func counts(taken map[record.EntryType]int) (s string) {
	for kind := record.TypeDeposit; kind.String() != "unknown"; kind++ {
		s += fmt.Sprintf("%v %d, ", kind, taken[kind])
	}
	return s
}

func newStage(t *testing.T, seed uint64, taken map[record.EntryType]int) *stage {
	m := newMaps()
	m.mesh.Mint = pub(cast[mintKey])
	m.mesh.Gateways = []record.Member{{Key: pub(cast[gatewayA])}, {Key: pub(cast[gatewayB])}}
	m.mesh.Keepers, m.mesh.Quorum = []record.Member{{Key: pub(keeper)}, {Key: pub(cast[forker])}}, 1
	m.mesh.Params.Slash = slashShare
	m.mesh.Params.VestDays, m.mesh.Params.Unbond = 3, 2*day
	return &stage{T: t, paper: newPaper(int64(now)), r: rand.New(rand.NewPCG(seed, 1)), seed: seed, m: m, taken: taken}
}

func (s *stage) n(limit int) int { return s.r.IntN(limit) }

// key picks one: most often of those that have a part.
func (s *stage) key() int {
	if s.n(3) == 0 {
		return s.n(len(cast))
	}
	return s.n(7)
}

func (s *stage) step() {
	if s.n(25) == 0 {
		s.wait(int64(s.n(int(day))))
		return
	}
	often := []func() (bool, error){s.deposit, s.transfer, s.withdraw, s.confirm, s.stake, s.unstake, s.vest, s.reward, s.open, s.delegate, s.adopt, s.topUp,
		s.deposit, s.open, s.lease, s.lease, s.lease, s.lease, s.lease, s.lease, s.lease, s.vouch, s.vouch, s.vouch, s.settle, s.settle, s.settle, s.settle, s.cut}
	seldom := []func() (bool, error){s.register, s.rotate, s.veto, s.revoke, s.own, s.change, s.cancel, s.close, s.accuse}
	all := often
	if s.n(8) == 0 {
		all = seldom
	}
	i := s.n(len(all))
	want, err := all[i]()
	if want != (err == nil) {
		s.Fatalf("seed %d, operation %d: the paper says %v, the rules %v", s.seed, s.op, want, err)
	}
}

// post applies an entry and sees that a refusal is one of the known kinds.
func (s *stage) post(by int, want bool, e record.Entry) (bool, error) {
	s.m.n++
	e.V, e.Idem = 1, record.Ref{byte(s.m.n), byte(s.m.n >> 8), byte(s.m.n >> 16)}
	f, err := account.Apply(s.m, id(cast[by]), record.Millis(s.now), e)
	if err == nil {
		s.m.store(f)
		s.taken[e.Kind]++
		return want, nil
	}
	var overdraft *account.OverdraftError
	known := errors.As(err, &overdraft)
	for _, k := range []error{account.ErrEntry, account.ErrAuthor, account.ErrOnce, account.ErrClosed, account.ErrUnknown, account.ErrCap} {
		known = known || errors.Is(err, k)
	}
	if !known {
		s.Fatalf("seed %d, operation %d: an error of no kind: %v", s.seed, s.op, err)
	}
	return want, err
}

func (s *stage) check() {
	if what, a, want, got := s.compare(s.m); what != "" {
		s.Fatalf("seed %d, operation %d: %s of %s is %d, on paper %d", s.seed, s.op, what, a.Short(), uint64(got), want)
	}
	var sum account.Balance
	for id, b := range s.m.balance {
		if id.Kind != account.Mint && b.CreditsPosted < b.DebitsPosted+b.DebitsPending {
			s.Fatalf("seed %d, operation %d: %v is below zero: %+v", s.seed, s.op, id, b)
		}
		sum.DebitsPending += b.DebitsPending
		sum.DebitsPosted += b.DebitsPosted
		sum.CreditsPending += b.CreditsPending
		sum.CreditsPosted += b.CreditsPosted
	}
	if sum.DebitsPending != sum.CreditsPending || sum.DebitsPosted != sum.CreditsPosted {
		s.Fatalf("seed %d, operation %d: debits and credits differ: %+v", s.seed, s.op, sum)
	}
}

// use reports whether a reference is new, and uses it when the entry is taken.
func (s *stage) use(ref string, taken bool) bool {
	if taken {
		s.used[ref] = true
	}
	return taken
}

func (s *stage) deposit() (bool, error) {
	by, to, amount, ref := mintKey, s.key(), int64(s.n(200)), fmt.Sprint("d", s.n(500))
	if s.n(20) == 0 {
		by = s.key()
	}
	e := record.Entry{Kind: record.TypeDeposit, Deposit: &record.Deposit{To: id(cast[to]), Amount: record.Amount(amount), External: ref}}
	d := s.now / int64(day)
	want := s.acts(by) && by == mintKey && amount > 0 && !s.used[ref]
	if s.n(8) == 0 {
		e = approve(s.m, e, keeper)
	} else if want = want && s.minted[d]+amount <= s.params.cap; want {
		s.minted[d] += amount
	}
	if s.use(ref, want) {
		s.give(s.free, s.acct(to), amount)
	}
	return s.post(by, want, e)
}

func (s *stage) transfer() (bool, error) {
	by, to, amount, earned := s.key(), s.key(), int64(s.n(120)), s.n(2) > 0
	from, into := s.acct(by), s.acct(to)
	want := s.acts(by) && amount > 0 && s.purse(earned)[from] >= amount && (earned || from != into)
	if want {
		s.purse(earned)[from] -= amount
		s.give(s.free, into, amount)
	}
	return s.post(by, want, record.Entry{Kind: record.TypeTransfer, Transfer: &record.Transfer{To: id(cast[to]), Amount: record.Amount(amount), Earned: earned}})
}

func (s *stage) withdraw() (bool, error) {
	by, amount, earned := s.key(), int64(s.n(60)), s.n(2) == 0
	of := s.acct(by)
	want := s.acts(by) && amount > 0 && s.purse(earned)[of] >= amount
	e := record.Entry{Kind: record.TypeWithdraw, Withdraw: &record.Withdraw{Amount: record.Amount(amount), External: "x", Earned: earned}}
	want, err := s.post(by, want, e)
	if want && err == nil {
		n := s.m.n
		e.Idem = record.Ref{byte(n), byte(n >> 8), byte(n >> 16)}
		s.purse(earned)[of] -= amount
		s.out[of] += amount
		s.outs = append(s.outs, &paperOut{of: of, earned: earned, amount: amount, name: e.Name(id(cast[by]))})
	}
	return want, err
}

func (s *stage) confirm() (bool, error) {
	if len(s.outs) == 0 {
		return false, account.ErrUnknown
	}
	o, by, paid, ref := s.outs[max(0, len(s.outs)-1-s.n(4))], mintKey, s.n(2) == 0, fmt.Sprint("c", s.n(300))
	if s.n(8) == 0 {
		by = s.key()
	}
	want := s.acts(by) && by == mintKey && !o.ended && (!paid || !s.used[ref])
	c := &record.Confirm{Withdrawal: o.name, Paid: paid}
	if paid {
		c.External = ref
		s.use(ref, want)
	}
	if want {
		o.ended = true
		s.out[o.of] -= o.amount
		if !paid {
			s.purse(o.earned)[o.of] += o.amount
		} else {
			s.touched[o.of] = true
		}
	}
	return s.post(by, want, record.Entry{Kind: record.TypeConfirm, Confirm: c})
}

func (s *stage) stake() (bool, error) {
	by, amount, earned := s.key(), int64(s.n(60)), s.n(2) == 0
	of := s.acct(by)
	want := s.acts(by) && amount > 0 && s.purse(earned)[of] >= amount
	if want {
		s.purse(earned)[of] -= amount
		s.give(s.bond, of, amount)
	}
	return s.post(by, want, stake(record.Amount(amount), earned))
}

func (s *stage) unstake() (bool, error) {
	by, amount := s.key(), int64(s.n(30))
	of := s.acct(by)
	want := s.acts(by) && amount > 0 && s.bond[of]-s.leavingOf(of) >= amount
	switch {
	case want && s.params.unbond == 0:
		s.bond[of] -= amount
		s.give(s.free, of, amount)
	case want && len(s.leaving[of]) >= 32:
		want = false
	case want:
		s.leaving[of] = append(s.leaving[of], paperPart{amount, s.now + s.params.unbond})
	}
	return s.post(by, want, unstake(record.Amount(amount)))
}

func (s *stage) vest() (bool, error) {
	by, who := s.key(), s.key()
	of := s.acct(who)
	var held, back int64
	var parts []paperPart
	for _, d := range s.held[of] {
		held += s.ripe(d)
	}
	for _, x := range s.leaving[of] {
		if x.ripe <= s.now {
			back += x.amount
		} else {
			parts = append(parts, x)
		}
	}
	want := s.acts(by) && held+back > 0
	if want {
		for i, d := range s.held[of] {
			s.held[of][i].left -= s.ripe(d)
		}
		s.give(s.earned, s.payee(of), held)
		s.leaving[of] = parts
		s.bond[of] -= back
		s.give(s.free, of, back)
	}
	return s.post(by, want, vest(cast[who]))
}

func (s *stage) reward() (bool, error) {
	by, to, amount, insured, ref := s.key(), s.key(), int64(s.n(4)), s.n(6) == 0, fmt.Sprint("r", s.n(300))
	e := record.Entry{Kind: record.TypeReward, Reward: &record.Reward{To: id(cast[to]), Amount: record.Amount(amount), Insurance: insured, External: ref}}
	has, agreed := s.fees, s.n(6) > 0
	if insured {
		has = s.insurance
	}
	if agreed {
		e = approve(s.m, e, keeper)
	}
	want := s.acts(by) && agreed && amount > 0 && !s.used[ref] && has >= amount
	if s.use(ref, want) {
		if insured {
			s.insurance -= amount
		} else {
			s.fees -= amount
		}
		s.give(s.earned, s.acct(to), amount)
	}
	return s.post(by, want, e)
}

// accuse brings a fork by the keeper, of one of some logs.
func (s *stage) accuse() (bool, error) {
	by, log := s.key(), record.Ref{byte(s.n(8))}
	e := &record.Evidence{Keeper: pub(cast[forker]), Mesh: log, Size: 1}
	for i, h := range []*record.HeadSign{&e.A, &e.B} {
		h.Root = record.Ref{byte(i)}
		h.Sign = ed25519.Sign(cast[forker], record.HeadText(log, 1, h.Root))
	}
	ref := fmt.Sprint("e", log)
	want := s.acts(by) && !s.used[ref]
	if s.use(ref, want) {
		s.slash(s.acct(forker), slashShare)
	}
	return s.post(by, want, record.Entry{Kind: record.TypeEvidence, Evidence: e})
}

func (s *stage) change() (bool, error) {
	by, wait := s.key(), int64(day)+int64(s.n(int(day)))-int64(s.n(int(day/2)))
	p := paperParams{cap: int64(500 + s.n(1000)), holdback: int64(s.n(5)) * 100_000, fee: int64(s.n(3)) * 50_000, vest: int64(s.n(4)), unbond: int64(s.n(3)) * int64(day)}
	c := &record.Change{N: s.changes + 1, Params: s.m.mesh.Params, From: record.Millis(s.now + wait)}
	c.Params.DailyMint, c.Params.Holdback, c.Params.Fee = record.Amount(p.cap), uint32(p.holdback), uint32(p.fee)
	c.Params.VestDays, c.Params.Unbond = uint32(p.vest), record.Millis(p.unbond)
	want := s.acts(by) && wait >= int64(day)
	if want {
		s.next, s.from = p, s.now+wait
		s.changes++
	}
	return s.post(by, want, approve(s.m, record.Entry{Kind: record.TypeParams, Change: c}, keeper))
}
