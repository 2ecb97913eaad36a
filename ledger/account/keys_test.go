package account_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

var recovery, third = newKey(8), newKey(9)

func register(k, rec ed25519.PrivateKey) record.Entry {
	return record.Entry{Kind: record.TypeRegister, Register: &record.Register{Key: pub(k), Recovery: pub(rec)}}
}

// named is the account that register makes.
func named(k, rec ed25519.PrivateKey) record.NodeID { return register(k, rec).Register.Account() }

func next(of record.NodeID, k ed25519.PrivateKey) record.Signed[record.Successor] {
	return sign(k, record.Successor{Account: of})
}

func rotate(of record.NodeID, k ed25519.PrivateKey) record.Entry {
	return record.Entry{Kind: record.TypeRotate, Rotate: &record.Rotate{Next: next(of, k)}}
}

func veto(of record.NodeID) record.Entry {
	return record.Entry{Kind: record.TypeVeto, Veto: &record.Veto{Account: of}}
}

func revoke(of record.NodeID, k ed25519.PrivateKey) record.Entry {
	r := &record.Revoke{Account: of}
	if k != nil {
		s := next(of, k)
		r.Next = &s
	}
	return record.Entry{Kind: record.TypeRevoke, Revoke: r}
}

// A step is one entry of a play, and what becomes of it.
type step struct {
	what string
	at   record.Millis
	by   ed25519.PrivateKey
	e    record.Entry
	err  error
}

func act(t *testing.T, m *maps, steps ...step) {
	t.Helper()
	for _, s := range steps {
		if err := m.post(s.by, s.at, s.e); !is(err, s.err) {
			t.Errorf("%s: %v, want %v", s.what, err, s.err)
		}
	}
}

// registered returns a state in which the tenant with 1000 has registered.
func registered(t *testing.T) (*maps, record.NodeID) {
	t.Helper()
	m := wealthy(t)
	if err := m.post(tenant, now, register(tenant, recovery)); err != nil {
		t.Fatal(err)
	}
	return m, named(tenant, recovery)
}

func TestRegister(t *testing.T) {
	m := wealthy(t)
	of := named(tenant, recovery)
	act(t, m,
		step{"stake before", now, tenant, stake(100, false), nil},
		step{"part of it leaves", now, tenant, unstake(40), nil},
		step{"another's key", now, stranger, register(tenant, recovery), account.ErrAuthor},
		step{"recovered by itself", now, tenant, register(tenant, tenant), account.ErrEntry},
		step{"recovered by nobody", now, tenant, record.Entry{Kind: record.TypeRegister, Register: &record.Register{Key: pub(tenant)}}, account.ErrEntry},
		step{"register", now, tenant, register(tenant, recovery), nil},
		step{"again", now, tenant, register(tenant, recovery), account.ErrOnce},
		step{"again with another", now, tenant, register(tenant, third), account.ErrOnce},
		step{"spend", now, tenant, transfer(stranger, 100, false), nil},
		step{"a deposit to the key", now + day, mint, deposit(50, "key"), nil},
		step{"a transfer to the account", now, stranger, record.Entry{Kind: record.TypeTransfer, Transfer: &record.Transfer{To: of, Amount: 10}}, nil},
		step{"to oneself by name", now, tenant, record.Entry{Kind: record.TypeTransfer, Transfer: &record.Transfer{To: of, Amount: 10}}, account.ErrEntry},
		step{"what leaves still leaves", now + 7*day, stranger, vest(tenant), nil},
	)
	if got := m.free(account.Tenant, of); got != 900-100+50+10+40 {
		t.Errorf("the account has %v", got)
	}
	if got := m.free(account.Stake, of); got != 60 {
		t.Errorf("its bond is %v", got)
	}
	if m.free(account.Tenant, id(tenant)) != 0 || m.free(account.Stake, id(tenant)) != 0 {
		t.Error("the key has kept something")
	}
	busy, l := leased(t)
	act(t, busy,
		step{"a provider with a lease", now, provider, register(provider, recovery), account.ErrEntry},
		step{"the tenant with a job", now, tenant, register(tenant, recovery), nil},
	)
	r, v := result(l)
	act(t, busy,
		step{"the lease ends", now, gateway, settle(r, v, false), nil},
		step{"then he may", now, provider, register(provider, recovery), nil},
		step{"the tenant ends the job", now, tenant, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: l.Value.Job, Why: record.ByTenant}}, nil},
	)
	if got := busy.free(account.Tenant, named(tenant, recovery)); got != 980 {
		t.Errorf("the refund: the tenant's account has %v", got)
	}
	if got := busy.free(account.Provider, named(provider, recovery)) + busy.free(account.Holdback, named(provider, recovery)); got != 18 {
		t.Errorf("the provider's account has %v", got)
	}
}

func TestRotate(t *testing.T) {
	m, of := registered(t)
	act(t, m,
		step{"of no account", now, stranger, rotate(of, third), account.ErrUnknown},
		step{"a key that consents to another", now, tenant, rotate(record.NodeID{1}, third), account.ErrEntry},
		step{"the recovery key", now, tenant, rotate(of, recovery), account.ErrEntry},
		step{"a key that is an account", now, tenant, rotate(of, provider), account.ErrEntry},
		step{"rotate", now, tenant, rotate(of, third), nil},
		step{"the next is not in force", now + day - 1, third, stake(1, false), account.ErrAuthor},
		step{"the old one is", now + day - 1, tenant, stake(1, false), nil},
		step{"the old one is replaced", now + day, tenant, stake(1, false), account.ErrAuthor},
		step{"the next is in force", now + day, third, stake(1, false), nil},
		step{"too late for a veto", now + day, recovery, veto(of), account.ErrClosed},
		step{"back to an old key", now + day, third, rotate(of, tenant), account.ErrOnce},
		step{"the old one registers", now + day, tenant, register(tenant, stranger), account.ErrAuthor},
		step{"a deposit to the old key", now + day, mint, deposit(50, "key"), nil},
	)
	if got := m.free(account.Tenant, of); got != 1000-2+50 {
		t.Errorf("the account has %v", got)
	}
}

func TestVeto(t *testing.T) {
	m, of := registered(t)
	act(t, m,
		step{"nothing waits", now, recovery, veto(of), account.ErrClosed},
		step{"of no account", now, recovery, veto(record.NodeID{1}), account.ErrUnknown},
		step{"rotate", now, tenant, rotate(of, third), nil},
		step{"by the key", now, tenant, veto(of), account.ErrAuthor},
		step{"by the next", now, third, veto(of), account.ErrAuthor},
		step{"by the recovery key, at the last moment", now + day - 1, recovery, veto(of), nil},
		step{"the next never comes", now + day, third, rotate(of, stranger), account.ErrUnknown},
		step{"the key stays", now + day, tenant, stake(1, false), nil},
		step{"another rotation", now + day, tenant, rotate(of, third), nil},
		step{"replaced by another", now + day, tenant, rotate(of, stranger), nil},
		step{"the first is free again", now + 3*day, third, register(third, recovery), nil},
		step{"the second is in force", now + 3*day, stranger, stake(1, false), nil},
	)
}

func TestRevoke(t *testing.T) {
	m, of := registered(t)
	act(t, m,
		step{"by a stranger", now, stranger, revoke(of, nil), account.ErrAuthor},
		step{"of no account", now, tenant, revoke(id(tenant), nil), account.ErrUnknown},
		step{"by itself, with a successor", now, tenant, revoke(of, third), account.ErrAuthor},
		step{"a thief rotates", now, tenant, rotate(of, stranger), nil},
		step{"by itself", now, tenant, revoke(of, nil), nil},
		step{"it signs no more", now, tenant, stake(1, false), account.ErrAuthor},
		step{"nor the thief's", now + day, stranger, rotate(of, third), account.ErrUnknown},
		step{"twice", now, recovery, revoke(of, nil), account.ErrOnce},
		step{"a deposit still comes", now + day, mint, deposit(50, "key"), nil},
		step{"to a used key", now, recovery, revoke(of, provider), account.ErrEntry},
		step{"the recovery key names another", now, recovery, revoke(of, third), nil},
		step{"that acts at once", now, third, transfer(stranger, 1050, false), nil},
		step{"the recovery key takes it back", now, recovery, revoke(of, second), nil},
		step{"the third is out", now, third, stake(1, false), account.ErrAuthor},
	)
}

// TestRevokedSigners plays what a revoked key signed before, inside entries that others
// append later: the order of the log counts, not the time of the signature.
func TestRevokedSigners(t *testing.T) {
	job := open(terms(), tenant)
	for name, tc := range map[string]struct {
		who  ed25519.PrivateKey // is registered, and revoked in the end
		play func(*maps) record.Entry
	}{
		"a job":     {who: tenant, play: func(*maps) record.Entry { return job }},
		"a bid":     {who: provider, play: func(m *maps) record.Entry { begin(m, job); return lease(offer(job.Job.Ref())) }},
		"a lease":   {who: gateway, play: func(m *maps) record.Entry { begin(m, job); return lease(offer(job.Job.Ref())) }},
		"a receipt": {who: provider, play: func(m *maps) record.Entry { return settlement(m, job) }},
		"a voucher": {who: gateway, play: func(m *maps) record.Entry { return settlement(m, job) }},
		"an end":    {who: tenant, play: func(m *maps) record.Entry { begin(m, job); return record.Entry{} }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaps()
			of := named(tc.who, recovery)
			act(t, m, step{"deposit", now, mint, deposit(1000, "x"), nil}, step{"register", now, tc.who, register(tc.who, recovery), nil})
			e := tc.play(m)
			act(t, m, step{"revoke", now, recovery, revoke(of, nil), nil})
			by := stranger
			if e.Kind == 0 {
				by, e = tenant, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job.Job.Ref(), Why: record.ByTenant}}
			}
			if err := m.post(by, now, e); !errors.Is(err, account.ErrAuthor) {
				t.Errorf("after the revocation: %v", err)
			}
			act(t, m, step{"another key", now, recovery, revoke(of, third), nil})
			if err := m.post(by, now, e); !errors.Is(err, account.ErrAuthor) {
				t.Errorf("after another key: %v", err)
			}
		})
	}
}

func begin(m *maps, e record.Entry) {
	if err := m.post(stranger, now, e); err != nil {
		panic(err)
	}
}

// settlement begins a job and a lease, and returns the lease's end.
func settlement(m *maps, job record.Entry) record.Entry {
	begin(m, job)
	l := lease(offer(job.Job.Ref()))
	begin(m, l)
	r, v := result(*l.Lease)
	return settle(r, v, false)
}

// TestRotatedProvider ends a lease by the key that has replaced the bidder's.
func TestRotatedProvider(t *testing.T) {
	m := newMaps()
	of := named(provider, recovery)
	j := terms()
	j.Expires = now + 9*day
	job := open(j, tenant)
	act(t, m, step{"deposit", now, mint, deposit(1000, "x"), nil}, step{"register", now, provider, register(provider, recovery), nil},
		step{"rotate", now, provider, rotate(of, third), nil})
	old := settlement(m, job)
	e := old.Settle
	e.Receipt = sign(third, e.Receipt.Value)
	v := e.Voucher.Value
	v.Receipt = e.Receipt.Ref()
	act(t, m,
		step{"too early", now, gateway, record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: e.Receipt, Voucher: sign(gateway, v)}}, account.ErrAuthor},
		step{"by the next", now + day, gateway, record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: e.Receipt, Voucher: sign(gateway, v)}}, nil},
	)
	if got := m.free(account.Provider, of) + m.free(account.Holdback, of); got != 18 {
		t.Errorf("the account has %v", got)
	}
}

func TestOwn(t *testing.T) {
	m := newMaps()
	m.mesh.Params.VestDays = 1
	owned := func(node ed25519.PrivateKey, by record.NodeID) record.Entry {
		s := sign(node, record.Owned{Owner: by})
		return record.Entry{Kind: record.TypeOwn, Own: &record.Own{Node: &s}}
	}
	let := func(node record.NodeID) record.Entry {
		return record.Entry{Kind: record.TypeOwn, Own: &record.Own{Let: node}}
	}
	both := owned(provider, id(third))
	both.Own.Let = id(provider)
	act(t, m,
		step{"deposit", now, mint, deposit(1000, "x"), nil},
		step{"a consent to another", now, stranger, owned(provider, id(third)), account.ErrAuthor},
		step{"oneself", now, provider, owned(provider, id(provider)), account.ErrEntry},
		step{"both", now, third, both, account.ErrEntry},
		step{"own", now, third, owned(provider, id(third)), nil},
		step{"own again", now, third, owned(provider, id(third)), account.ErrOnce},
		step{"by another", now, second, owned(provider, id(second)), account.ErrOnce},
		step{"an owned one owns", now, provider, owned(second, id(provider)), account.ErrEntry},
		step{"let go by a stranger", now, stranger, let(id(provider)), account.ErrAuthor},
		step{"let go of nothing", now, stranger, let(id(second)), account.ErrUnknown},
	)
	act(t, m, step{"settle", now, gateway, settlement(m, open(terms(), tenant)), nil})
	if a, b := m.free(account.Provider, id(third)), m.free(account.Holdback, id(provider)); a != 13 || b != 5 {
		t.Errorf("the owner has %v, the node's holdback %v", a, b)
	}
	act(t, m, step{"vest", now + 2*day, stranger, vest(provider), nil})
	if a, b := m.free(account.Provider, id(third)), m.free(account.Provider, id(provider)); a != 18 || b != 0 {
		t.Errorf("after the vest the owner has %v, the node %v", a, b)
	}
	act(t, m,
		step{"let go by the node", now, provider, let(id(provider)), nil},
		step{"own again", now, third, owned(provider, id(third)), nil},
		step{"let go by the owner", now, third, let(id(provider)), nil},
	)
}
