package account_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

const day record.Millis = 86_400_000

var keeper, second = newKey(6), newKey(7)

func id(k ed25519.PrivateKey) record.NodeID { return pub(k).ID() }

// wealthy returns a state in which the tenant has 1000 free, the provider 500 earned,
// the fees 50, and two keepers must agree.
func wealthy(t *testing.T) *maps {
	t.Helper()
	m := newMaps()
	m.mesh.Keepers, m.mesh.Quorum = []record.Member{{Key: pub(keeper)}, {Key: pub(second)}}, 2
	if err := m.post(mint, now, deposit(1000, "x")); err != nil {
		t.Fatal(err)
	}
	m.balance[account.ID{Kind: account.Provider, Owner: id(provider)}] = account.Balance{CreditsPosted: 500}
	m.balance[account.ID{Kind: account.Fees}] = account.Balance{CreditsPosted: 50}
	m.balance[account.ID{Kind: account.Mint}] = account.Balance{DebitsPosted: 1550}
	return m
}

// approve adds the consent of keepers.
func approve(m *maps, e record.Entry, by ...ed25519.PrivateKey) record.Entry {
	e.V = 1
	matter, err := record.Matter(m.mesh, e)
	if err != nil {
		panic(err)
	}
	for _, k := range by {
		e.Approvals = append(e.Approvals, sign(k, record.Approval{Matter: matter}))
	}
	return e
}

func transfer(to ed25519.PrivateKey, amount record.Amount, earned bool) record.Entry {
	return record.Entry{Kind: record.TypeTransfer, Transfer: &record.Transfer{To: id(to), Amount: amount, Earned: earned}}
}

func withdraw(amount record.Amount, external string, earned bool) record.Entry {
	return record.Entry{Kind: record.TypeWithdraw, Withdraw: &record.Withdraw{Amount: amount, External: external, Earned: earned}}
}

func stake(amount record.Amount, earned bool) record.Entry {
	return record.Entry{Kind: record.TypeStake, Stake: &record.Stake{Amount: amount, Earned: earned}}
}

func unstake(amount record.Amount) record.Entry {
	return record.Entry{Kind: record.TypeUnstake, Unstake: &record.Unstake{Amount: amount}}
}

func vest(of ed25519.PrivateKey) record.Entry {
	return record.Entry{Kind: record.TypeVest, Vest: &record.Vest{Of: id(of)}}
}

func reward(amount record.Amount, insurance bool, external string) record.Entry {
	return record.Entry{Kind: record.TypeReward, Reward: &record.Reward{To: id(stranger), Amount: amount, Insurance: insurance, External: external}}
}

// poor is any overdraft, for tables.
var poor error = &account.OverdraftError{}

// is reports whether err is what a table wants.
func is(err, want error) bool {
	var a, b *account.OverdraftError
	if errors.As(want, &b) {
		return errors.As(err, &a)
	}
	return errors.Is(err, want) && (err == nil) == (want == nil)
}

func TestMoney(t *testing.T) {
	type balances map[string]record.Amount
	for name, tc := range map[string]struct {
		by   ed25519.PrivateKey
		e    record.Entry
		err  error
		want balances // that differ from those before
	}{
		"to another":                {tenant, transfer(stranger, 1000, false), nil, balances{"tenant": 0, "stranger": 1000}},
		"to another, too much":      {tenant, transfer(stranger, 1001, false), poor, nil},
		"all there is":              {tenant, transfer(stranger, math.MaxUint64, false), poor, nil},
		"to oneself":                {tenant, transfer(tenant, 1, false), account.ErrEntry, nil},
		"nothing":                   {tenant, transfer(stranger, 0, false), account.ErrEntry, nil},
		"to nobody":                 {tenant, record.Entry{Kind: record.TypeTransfer, Transfer: &record.Transfer{Amount: 1}}, account.ErrEntry, nil},
		"spend what is earned":      {provider, transfer(provider, 500, true), nil, balances{"earned": 0, "provider": 500}},
		"earned, to another":        {provider, transfer(tenant, 200, true), nil, balances{"earned": 300, "tenant": 1200}},
		"more than is earned":       {provider, transfer(provider, 501, true), poor, nil},
		"earned by another":         {stranger, transfer(stranger, 1, true), poor, nil},
		"free, but only has earned": {provider, transfer(stranger, 1, false), poor, nil},

		"stake":                {tenant, stake(1000, false), nil, balances{"tenant": 0, "bond": 1000}},
		"stake what is earned": {provider, stake(500, true), nil, balances{"earned": 0, "provider's bond": 500}},
		"stake too much":       {tenant, stake(1001, false), poor, nil},
		"stake nothing":        {tenant, stake(0, false), account.ErrEntry, nil},
		"unstake nothing":      {tenant, unstake(0), account.ErrEntry, nil},
		"unstake what is not":  {tenant, unstake(1), poor, nil},

		"withdraw":            {tenant, withdraw(1000, "iban", false), nil, balances{"tenant": 0}},
		"withdraw earned":     {provider, withdraw(1, "iban", true), nil, balances{"earned": 499}},
		"withdraw too much":   {tenant, withdraw(1001, "iban", false), poor, nil},
		"withdraw nothing":    {tenant, withdraw(0, "iban", false), account.ErrEntry, nil},
		"withdraw to nowhere": {tenant, withdraw(1, "", false), account.ErrEntry, nil},
		"withdraw far":        {tenant, withdraw(1, strings.Repeat("x", 129), false), account.ErrEntry, nil},
		"confirm what is not": {mint, record.Entry{Kind: record.TypeConfirm, Confirm: &record.Confirm{Withdrawal: record.Ref{1}, Paid: true, External: "x"}}, account.ErrUnknown, nil},
		"vest what is not":    {tenant, vest(provider), account.ErrEntry, nil},
		"in another stream":   {tenant, record.Entry{Kind: record.TypeStake, Stream: record.Ref{1}, Stake: &record.Stake{Amount: 1}}, account.ErrEntry, nil},
		"of another kind":     {tenant, record.Entry{Kind: record.TypeStake, Unstake: &record.Unstake{Amount: 1}}, account.ErrEntry, nil},
		"two bodies":          {tenant, record.Entry{Kind: record.TypeStake, Unstake: &record.Unstake{Amount: 1}, Stake: &record.Stake{Amount: 1}}, account.ErrEntry, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := wealthy(t)
			read := func() balances {
				return balances{
					"tenant": m.free(account.Tenant, id(tenant)), "stranger": m.free(account.Tenant, id(stranger)),
					"provider": m.free(account.Tenant, id(provider)), "earned": m.free(account.Provider, id(provider)),
					"bond": m.free(account.Stake, id(tenant)), "provider's bond": m.free(account.Stake, id(provider)),
				}
			}
			want := read()
			if err := m.post(tc.by, now, tc.e); !is(err, tc.err) {
				t.Errorf("post: %v, want %v", err, tc.err)
			}
			for k, v := range tc.want {
				want[k] = v
			}
			if got := read(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("balances %v, want %v", got, want)
			}
		})
	}
}

func TestWithdrawal(t *testing.T) {
	end := func(of record.Ref, paid bool, external string) record.Entry {
		return record.Entry{Kind: record.TypeConfirm, Confirm: &record.Confirm{Withdrawal: of, Paid: paid, External: external}}
	}
	name := record.Entry{Idem: record.Ref{1}}.Name(id(tenant)) // as post numbers them
	for what, tc := range map[string]struct {
		by   ed25519.PrivateKey
		e    record.Entry
		err  error
		free record.Amount
	}{
		"paid":                  {mint, end(name, true, "tx"), nil, 600},
		"given back":            {mint, end(name, false, ""), nil, 1000},
		"by the author":         {tenant, end(name, false, ""), account.ErrAuthor, 600},
		"paid for nothing":      {mint, end(name, true, ""), account.ErrEntry, 600},
		"given back by payment": {mint, end(name, false, "tx"), account.ErrEntry, 600},
		"another's":             {mint, end(record.Entry{Idem: record.Ref{1}}.Name(id(stranger)), true, "tx"), account.ErrUnknown, 600},
		"by a payment again":    {mint, end(name, true, "used"), account.ErrOnce, 600},
	} {
		t.Run(what, func(t *testing.T) {
			m := wealthy(t)
			for _, p := range []struct {
				by ed25519.PrivateKey
				e  record.Entry
			}{
				{provider, withdraw(10, "iban", true)}, {mint, end(record.Entry{Idem: record.Ref{1}}.Name(id(provider)), true, "used")},
				{tenant, withdraw(400, "iban", false)},
			} {
				if err := m.post(p.by, now, p.e); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.post(tenant, now, stake(601, false)); !is(err, poor) {
				t.Errorf("what is pending was spent: %v", err)
			}
			if err := m.post(tc.by, now, tc.e); !is(err, tc.err) {
				t.Errorf("post: %v, want %v", err, tc.err)
			}
			if got := m.free(account.Tenant, id(tenant)); got != tc.free {
				t.Errorf("free %v, want %v", got, tc.free)
			}
			want := record.Amount(0)
			if tc.err != nil {
				want = 400
			}
			if b := m.balance[account.ID{Kind: account.Mint}]; b.CreditsPending != want {
				t.Errorf("pending for the mint: %v, want %v", b.CreditsPending, want)
			}
			if again := m.post(mint, now, end(name, false, "")); tc.err == nil && !errors.Is(again, account.ErrOnce) {
				t.Errorf("ended twice: %v", again)
			}
		})
	}
}

func TestApprovals(t *testing.T) {
	big := deposit(5000, "big") // the day's cap is 1000, and used up
	other := deposit(5001, "big")
	for name, tc := range map[string]struct {
		by     ed25519.PrivateKey
		e      record.Entry
		agree  []ed25519.PrivateKey
		change func(*maps, *record.Entry)
		err    error
	}{
		"a deposit above the cap":        {by: mint, e: big, err: account.ErrCap},
		"with a quorum":                  {by: mint, e: big, agree: []ed25519.PrivateKey{keeper, second}},
		"with one keeper":                {by: mint, e: big, agree: []ed25519.PrivateKey{keeper}, err: account.ErrAuthor},
		"with one keeper twice":          {by: mint, e: big, agree: []ed25519.PrivateKey{keeper, keeper}, err: account.ErrEntry},
		"with a stranger":                {by: mint, e: big, agree: []ed25519.PrivateKey{keeper, stranger}, err: account.ErrAuthor},
		"for another deposit":            {by: mint, e: big, agree: []ed25519.PrivateKey{keeper, second}, change: func(_ *maps, e *record.Entry) { e.Deposit = other.Deposit }, err: account.ErrEntry},
		"for another mesh":               {by: mint, e: big, agree: []ed25519.PrivateKey{keeper, second}, change: func(m *maps, _ *record.Entry) { m.mesh.Name = "other" }, err: account.ErrEntry},
		"by another than the mint":       {by: keeper, e: big, agree: []ed25519.PrivateKey{keeper, second}, err: account.ErrAuthor},
		"a reward":                       {by: stranger, e: reward(50, false, "canary"), agree: []ed25519.PrivateKey{keeper, second}},
		"a reward of more than is there": {by: stranger, e: reward(51, false, "canary"), agree: []ed25519.PrivateKey{keeper, second}, err: poor},
		"of an empty insurance":          {by: stranger, e: reward(1, true, "canary"), agree: []ed25519.PrivateKey{keeper, second}, err: poor},
		"a reward nobody agreed to":      {by: keeper, e: reward(1, false, "canary"), err: account.ErrAuthor},
		"a reward for nothing":           {by: keeper, e: reward(1, false, ""), agree: []ed25519.PrivateKey{keeper, second}, err: account.ErrEntry},
		"what needs none":                {by: tenant, e: stake(1, false), agree: []ed25519.PrivateKey{keeper, second}, err: account.ErrEntry},
	} {
		t.Run(name, func(t *testing.T) {
			m := wealthy(t)
			e := approve(m, tc.e, tc.agree...)
			if tc.change != nil {
				tc.change(m, &e)
			}
			if err := m.post(tc.by, now, e); !is(err, tc.err) {
				t.Errorf("post: %v, want %v", err, tc.err)
			} else if err == nil {
				if again := m.post(tc.by, now, e); !errors.Is(again, account.ErrOnce) {
					t.Errorf("the same consent again: %v", again)
				}
			}
		})
	}
}

// TestApprovedStandsApart holds that an approved deposit takes nothing of the day's cap.
func TestApprovedStandsApart(t *testing.T) {
	m := newMaps()
	m.mesh.Keepers, m.mesh.Quorum = []record.Member{{Key: pub(keeper)}}, 1
	for _, e := range []record.Entry{approve(m, deposit(5000, "big"), keeper), deposit(1000, "small")} {
		if err := m.post(mint, now, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.post(mint, now, deposit(1, "one more")); !errors.Is(err, account.ErrCap) {
		t.Errorf("above the cap: %v", err)
	}
}

func TestUnstake(t *testing.T) {
	m := wealthy(t)
	m.mesh.Params.Unbond = 7 * day
	post := func(what string, at record.Millis, by ed25519.PrivateKey, e record.Entry, want error) {
		t.Helper()
		if err := m.post(by, at, e); !is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	post("stake", now, tenant, stake(100, false), nil)
	post("the first part", now, tenant, unstake(60), nil)
	post("more than the rest", now, tenant, unstake(41), poor)
	post("the rest", now+day, tenant, unstake(40), nil)
	post("too early", now+7*day-1, stranger, vest(tenant), account.ErrEntry)
	post("the first is ripe", now+7*day, stranger, vest(tenant), nil)
	if got := m.free(account.Stake, id(tenant)); got != 40 {
		t.Errorf("the bond is %v", got)
	}
	post("again", now+7*day, stranger, vest(tenant), account.ErrEntry)
	post("the second is ripe", now+8*day, stranger, vest(tenant), nil)
	if got := m.free(account.Tenant, id(tenant)); got != 1000 {
		t.Errorf("free: %v", got)
	}
	post("stake again", now, tenant, stake(100, false), nil)
	for range 32 {
		post("one of many", now, tenant, unstake(1), nil)
	}
	post("one too many", now, tenant, unstake(1), account.ErrEntry)
	m.mesh.Params.Unbond = 0
	post("with no wait", now, tenant, unstake(68), nil)
	if got := m.free(account.Tenant, id(tenant)); got != 968 {
		t.Errorf("free at once: %v", got)
	}
}

// TestVesting settles two leases on two days and lets time pass.
func TestVesting(t *testing.T) {
	m, first := leased(t)
	m.mesh.Params.VestDays = 10
	start := record.Millis(account.Day(now)+1) * day // the day after
	r, v := result(first)
	r.Usage.Work, v.Work, v.Amount = 576e6, 576e6, 40 // 10 held back
	if err := m.post(gateway, now, settle(r, v, false)); err != nil {
		t.Fatal(err)
	}
	held := func() record.Amount { return m.free(account.Holdback, id(provider)) }
	for _, tc := range []struct {
		at   record.Millis
		left record.Amount
		err  error
	}{
		{start - 1, 10, account.ErrEntry}, {start, 10, account.ErrEntry}, {start + day - 1, 10, account.ErrEntry},
		{start + day, 9, nil}, {start + day, 9, account.ErrEntry}, {start + 5*day + day/2, 5, nil},
		{start + 10*day - 1, 1, nil}, {start + 10*day, 0, nil}, {start + 99*day, 0, account.ErrEntry},
	} {
		if err := m.post(stranger, tc.at, vest(provider)); !is(err, tc.err) || held() != tc.left {
			t.Errorf("%v after the start: %v held, %v; want %v, %v", (tc.at - start).Duration(), held(), err, tc.left, tc.err)
		}
	}
	if got := m.free(account.Provider, id(provider)); got != 26+10 {
		t.Errorf("earned %v", got)
	}
}

// FuzzVesting compares random payouts, losses and vests with rational numbers on paper:
// what is payable is never more than the line through a day's holdback allows, and when
// all days are over nothing is left.
func FuzzVesting(f *testing.F) {
	f.Add([]byte{1, 200, 3, 90, 7, 4, 255, 0, 0, 9, 9, 9, 30, 100, 2})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var v account.Vesting
		var paper []account.VestDay
		at := now
		for i := 0; i+2 < len(steps) && i < 300; i += 3 {
			at += record.Millis(steps[i]) * day / 16
			amount := record.Amount(steps[i+1])
			span := uint32(steps[i+2] % 20)
			if amount > 0 {
				v = v.Hold(at, span, amount)
				paper = append(paper, account.VestDay{Day: account.Day(at), Span: span, Held: amount, Left: amount})
			}
			var paid record.Amount
			v, paid = v.Pay(at)
			var most record.Amount
			for k := range paper {
				since := at - record.Millis(paper[k].Day+1)*day
				if since < 0 {
					continue
				}
				all := paper[k].Held
				if full := record.Millis(paper[k].Span) * day; since < full {
					all = record.Amount(uint64(paper[k].Held)*uint64(since)/uint64(full)) + 1 // rounding of a day together
				}
				most += all - min(all, paper[k].Held-paper[k].Left)
			}
			if paid > most {
				t.Fatalf("paid %v of at most %v", paid, most)
			}
			for k := range paper { // the oldest first, as it comes
				less := min(paper[k].Left, paid)
				paper[k].Left, paid = paper[k].Left-less, paid-less
			}
			if len(v.Days) > 24 {
				t.Fatalf("%d days remembered", len(v.Days))
			}
		}
		var left, want record.Amount
		for _, d := range paper {
			want += d.Left
		}
		v, left = v.Pay(at + 400*day)
		if left != want || len(v.Days) != 0 {
			t.Errorf("at the end %v is paid, %v was left, %d days stay", left, want, len(v.Days))
		}
	})
}

func TestTopUp(t *testing.T) {
	up := func(job, lease record.Ref, amount record.Amount) record.Entry {
		return record.Entry{Kind: record.TypeTopUp, Stream: job, TopUp: &record.TopUp{Job: job, Lease: lease, Amount: amount}}
	}
	m, l := leased(t)
	job := l.Value.Job
	for name, tc := range map[string]struct {
		by  ed25519.PrivateKey
		e   record.Entry
		err error
	}{
		"nothing":                   {tenant, up(job, record.Ref{}, 0), account.ErrEntry},
		"of no job":                 {tenant, up(record.Ref{1}, record.Ref{}, 1), account.ErrUnknown},
		"by the delegate":           {gateway, up(job, record.Ref{}, 1), account.ErrAuthor},
		"more than there is":        {tenant, up(job, record.Ref{}, 901), poor},
		"more than 64 bits":         {tenant, up(job, record.Ref{}, math.MaxUint64), poor},
		"a lease, by the tenant":    {tenant, up(job, l.Ref(), 1), account.ErrAuthor},
		"a lease, above the escrow": {gateway, up(job, l.Ref(), 61), poor},
		"a lease, above 64 bits":    {gateway, up(job, l.Ref(), math.MaxUint64), account.ErrEntry},
		"a lease that is not":       {gateway, up(job, record.Ref{1}, 1), account.ErrUnknown},
	} {
		if err := m.post(tc.by, now, tc.e); !is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
	}
	for _, p := range []struct {
		by ed25519.PrivateKey
		e  record.Entry
	}{{tenant, up(job, record.Ref{}, 100)}, {gateway, up(job, l.Ref(), 110)}} {
		if err := m.post(p.by, now, p.e); err != nil {
			t.Fatal(err)
		}
	}
	r, v := result(l)
	r.Usage.Work, v.Work, v.Amount = 1e12, 1e12, 150 // 40 reserved at first, and 110
	if err := m.post(gateway, now, settle(r, v, false)); err != nil {
		t.Fatal(err)
	}
	if got := m.free(account.Escrow, job); got != 50 {
		t.Errorf("the escrow has %v", got)
	}
	if err := m.post(gateway, now, up(job, l.Ref(), 1)); !errors.Is(err, account.ErrOnce) {
		t.Errorf("after its end: %v", err)
	}
	if err := m.post(tenant, now, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job, Why: record.ByTenant}}); err != nil {
		t.Fatal(err)
	}
	if err := m.post(tenant, now, up(job, record.Ref{}, 1)); !errors.Is(err, account.ErrClosed) {
		t.Errorf("after the job's end: %v", err)
	}
	if got := m.free(account.Tenant, id(tenant)); got != 850 {
		t.Errorf("the tenant has %v", got)
	}
}
