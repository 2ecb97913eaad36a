package account_test

import (
	"crypto/ed25519"
	"errors"
	"math"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

var backup = newKey(10)

func vouch(by ed25519.PrivateKey, v record.Voucher) record.Entry {
	s := sign(by, v)
	return record.Entry{Kind: record.TypeVoucher, Voucher: &s}
}

func cutOf(l record.Ref) record.Entry {
	return record.Entry{Kind: record.TypeCut, Cut: &record.Cut{Lease: l}}
}

func TestVouch(t *testing.T) {
	const ms = 144e5 // of work: a µcredit at a quarter of a credit an hour
	for name, tc := range map[string]struct {
		by     ed25519.PrivateKey
		change func(*record.Voucher)
		err    error
	}{
		"the next":             {gateway, func(*record.Voucher) {}, nil},
		"by the tenant":        {tenant, func(*record.Voucher) {}, nil},
		"by the provider":      {provider, func(*record.Voucher) {}, account.ErrAuthor},
		"by a stranger":        {stranger, func(*record.Voucher) {}, account.ErrAuthor},
		"replayed":             {gateway, func(v *record.Voucher) { v.N = 3 }, account.ErrOnce},
		"an older one":         {gateway, func(v *record.Voucher) { v.N, v.Amount = 2, 40 }, account.ErrOnce},
		"a gap":                {gateway, func(v *record.Voucher) { v.N = math.MaxUint32 }, nil},
		"the same again":       {gateway, func(v *record.Voucher) { v.Amount, v.Work = 10, 10*ms }, nil},
		"less":                 {gateway, func(v *record.Voucher) { v.Amount = 9 }, account.ErrEntry},
		"less work":            {gateway, func(v *record.Voucher) { v.Work = 10*ms - 1 }, account.ErrEntry},
		"all that is reserved": {gateway, func(v *record.Voucher) { v.Amount, v.Work = 40, 40*ms }, nil},
		"more than reserved":   {gateway, func(v *record.Voucher) { v.Amount, v.Work = 41, 41*ms }, account.ErrEntry},
		"more than the work":   {gateway, func(v *record.Voucher) { v.Amount = 21 }, account.ErrEntry},
		"more than numbers":    {gateway, func(v *record.Voucher) { v.Amount, v.Work = math.MaxUint64, math.MaxUint64 }, account.ErrEntry},
		"of another epoch":     {gateway, func(v *record.Voucher) { v.Epoch = 1 }, account.ErrEntry},
		"of no lease":          {gateway, func(v *record.Voucher) { v.Lease = record.Ref{9} }, account.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			m, l := leased(t)
			if err := m.post(stranger, now, vouch(gateway, record.Voucher{Lease: l.Ref(), N: 3, Amount: 10, Work: 10 * ms})); err != nil {
				t.Fatal(err)
			}
			v := record.Voucher{Lease: l.Ref(), N: 4, Amount: 20, Work: 20 * ms}
			tc.change(&v)
			if err := m.post(stranger, now, vouch(tc.by, v)); !is(err, tc.err) {
				t.Errorf("post: %v, want %v", err, tc.err)
			}
			want := v.Amount
			if tc.err != nil {
				want = 10
			}
			if got := m.lease[l.Ref()].Vouched; got != want {
				t.Errorf("vouched %v, want %v", got, want)
			}
			if err := m.post(gateway, now, cutOf(l.Ref())); err != nil {
				t.Fatal(err)
			}
			who := id(provider)
			got := m.free(account.Provider, who) + m.free(account.Holdback, who) + m.free(account.Fees, [32]byte{})
			if got != want || m.free(account.Escrow, l.Value.Job) != 100-want || m.lease[l.Ref()].Paid != want {
				t.Errorf("the cut lease earned %v, want %v", got, want)
			}
			if err := m.post(stranger, now, vouch(gateway, v)); tc.err == nil && !errors.Is(err, account.ErrOnce) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// TestVouchedStays settles leases for less than what was posted.
func TestVouchedStays(t *testing.T) {
	for name, tc := range map[string]struct {
		end  record.End
		work record.Work
		pays record.Amount
		err  error
	}{
		"more than posted":       {record.Exited, 288e6, 20, nil},
		"less than posted":       {record.Exited, 144e5, 1, account.ErrEntry},
		"less, but what stands":  {record.Exited, 144e5, 10, nil},
		"lost":                   {record.NodeLost, 0, 0, account.ErrEntry},
		"lost, and what stands":  {record.NodeLost, 0, 10, nil},
		"lost, and more than it": {record.NodeLost, 0, 11, account.ErrEntry},
	} {
		m, l := leased(t)
		r, v := result(l)
		r.End, r.Usage.Work, v.Work, v.Amount = tc.end, tc.work, tc.work, tc.pays
		act(t, m, step{"voucher", now, stranger, vouch(gateway, record.Voucher{Lease: l.Ref(), N: 1, Amount: 10, Work: 144e6}), nil},
			step{name, now, gateway, settle(r, v, false), tc.err})
	}
}

func delegation(job record.Ref, change func(*record.Delegation)) record.Entry {
	d := &record.Delegation{Gateway: id(backup), Job: job, Amount: 50, Rate: record.Credit / 4, Expires: now + 1000}
	if change != nil {
		change(d)
	}
	return record.Entry{Kind: record.TypeDelegate, Delegate: d}
}

func adoption(job record.Ref, epoch uint32) record.Entry {
	return record.Entry{Kind: record.TypeAdopt, Stream: job, Adopt: &record.Adopt{Job: job, Epoch: epoch}}
}

// supervised returns a state with one shard of two leased and a second gateway.
func supervised(t *testing.T) (*maps, record.Signed[record.Lease]) {
	m, l := leased(t)
	m.mesh.Gateways = append(m.mesh.Gateways, record.Member{Key: pub(backup)})
	return m, l
}

func TestDelegate(t *testing.T) {
	m, l := supervised(t)
	job := l.Value.Job
	for name, s := range map[string]step{
		"by a stranger":          {"", now, stranger, delegation(job, nil), account.ErrAuthor},
		"by the gateway":         {"", now, gateway, delegation(job, nil), account.ErrAuthor},
		"to no gateway":          {"", now, tenant, delegation(job, func(d *record.Delegation) { d.Gateway = id(stranger) }), account.ErrEntry},
		"to the same gateway":    {"", now, tenant, delegation(job, func(d *record.Delegation) { d.Gateway = id(gateway) }), account.ErrEntry},
		"expired":                {"", now, tenant, delegation(job, func(d *record.Delegation) { d.Expires = now }), account.ErrClosed},
		"of no job":              {"", now, tenant, delegation(record.Ref{1}, nil), account.ErrUnknown},
		"adopted without it":     {"", now, backup, adoption(job, 1), account.ErrAuthor},
		"adopted by a stranger":  {"", now, stranger, adoption(job, 1), account.ErrAuthor},
		"adopted by who has it":  {"", now, gateway, adoption(job, 1), account.ErrOnce},
		"adopted, but no job is": {"", now, gateway, adoption(record.Ref{1}, 1), account.ErrUnknown},
	} {
		s.what = name
		act(t, m, s)
	}
}

func TestAdopt(t *testing.T) {
	m, old := supervised(t)
	job := old.Value.Job
	l, b := offer(job)
	l.Epoch, l.Attempt = 1, 2
	by := func(k ed25519.PrivateKey, change func(*record.Lease)) record.Entry {
		l := l
		if change != nil {
			change(&l)
		}
		l.Bid = sign(provider, b)
		s := sign(k, l)
		return record.Entry{Kind: record.TypeLease, Lease: &s}
	}
	r, v := result(old)
	last := record.Voucher{Lease: old.Ref(), N: 2, Amount: 10, Work: 144e6}
	more := last
	more.N = 3
	act(t, m,
		step{"delegate", now, tenant, delegation(job, nil), nil},
		step{"a voucher", now, gateway, vouch(gateway, last), nil},
		step{"too late", now + 1001, backup, adoption(job, 1), account.ErrAuthor},
		step{"two epochs on", now, backup, adoption(job, 2), account.ErrEntry},
		step{"epoch 0", now, backup, adoption(job, 0), account.ErrOnce},
		step{"adopt", now, backup, adoption(job, 1), nil},
		step{"the same epoch again", now, gateway, adoption(job, 1), account.ErrOnce},
		step{"what it has", now, backup, adoption(job, 2), account.ErrOnce},
		step{"the old one settles", now, gateway, settle(r, v, false), account.ErrClosed},
		step{"the old one vouches", now, gateway, vouch(gateway, more), account.ErrAuthor},
		step{"the new one vouches for the old lease", now, backup, vouch(backup, more), account.ErrEntry},
		step{"the old one cuts", now, gateway, cutOf(old.Ref()), account.ErrAuthor},
		step{"the old one closes", now, gateway, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job, Why: record.Expired}}, account.ErrAuthor},
		step{"a lease before the cut", now, backup, by(backup, nil), account.ErrEntry},
		step{"the new one cuts", now, backup, cutOf(old.Ref()), nil},
		step{"a lease of the old epoch", now, backup, by(backup, func(l *record.Lease) { l.Epoch = 0 }), account.ErrEntry},
		step{"a lease by the old one", now, gateway, by(gateway, nil), account.ErrAuthor},
		step{"above the delegation's rate", now, backup, by(backup, func(l *record.Lease) { l.Rate++ }), account.ErrEntry},
		step{"above the delegation", now, backup, by(backup, func(l *record.Lease) { l.Reserve = 51 }), account.ErrEntry},
		step{"a lease", now, backup, by(backup, nil), nil},
		step{"another above the delegation", now, backup, by(backup, func(l *record.Lease) { l.Shard, l.Attempt, l.Reserve = 1, 1, 11 }), account.ErrEntry},
	)
	if who := id(provider); m.free(account.Provider, who)+m.free(account.Holdback, who)+m.free(account.Fees, [32]byte{}) != 10 {
		t.Error("the old lease did not earn its last voucher")
	}
	fresh := *by(backup, nil).Lease
	r, v = result(fresh)
	v.Epoch = 1
	s := sign(provider, r)
	v.Receipt = s.Ref()
	act(t, m,
		step{"settle", now, backup, record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: s, Voucher: sign(backup, v)}}, nil},
		step{"what is left of the delegation", now, backup, by(backup, func(l *record.Lease) { l.Shard, l.Attempt, l.Reserve = 1, 1, 31 }), account.ErrEntry},
		step{"and no more", now, backup, by(backup, func(l *record.Lease) { l.Shard, l.Attempt, l.Reserve = 1, 1, 30 }), nil},
		step{"the first takes it back", now, gateway, adoption(job, 2), nil},
		step{"by whom it is ended", now, gateway, cutOf(by(backup, func(l *record.Lease) { l.Shard, l.Attempt, l.Reserve = 1, 1, 30 }).Lease.Ref()), nil},
		step{"the adopter is out", now, backup, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job, Why: record.Expired}}, account.ErrAuthor},
		step{"the end", now, gateway, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job, Why: record.Expired}}, nil},
	)
	if got := m.free(account.Tenant, id(tenant)); got != 1000-30 {
		t.Errorf("the tenant has %v", got)
	}
}

// TestDelegateToItself keeps a delegate from leasing of its own owner group.
func TestDelegateToItself(t *testing.T) {
	m, old := supervised(t)
	job := old.Value.Job
	for _, k := range []ed25519.PrivateKey{provider, backup} {
		s := sign(k, record.Owned{Owner: id(third)})
		act(t, m, step{"own", now, third, record.Entry{Kind: record.TypeOwn, Own: &record.Own{Node: &s}}, nil})
	}
	l, b := offer(job)
	l.Epoch, l.Shard = 1, 1
	l.Bid = sign(provider, b)
	s := sign(backup, l)
	l.Bid = sign(backup, b)
	self := sign(backup, l)
	act(t, m, step{"delegate", now, tenant, delegation(job, nil), nil}, step{"adopt", now, backup, adoption(job, 1), nil},
		step{"from a node of its owner", now, backup, record.Entry{Kind: record.TypeLease, Lease: &s}, account.ErrAuthor},
		step{"from itself", now, backup, record.Entry{Kind: record.TypeLease, Lease: &self}, account.ErrAuthor})
}

func TestChange(t *testing.T) {
	m := wealthy(t)
	change := func(n uint32, from record.Millis, edit func(*record.Params)) record.Entry {
		p := m.mesh.Params
		edit(&p)
		return record.Entry{Kind: record.TypeParams, Change: &record.Change{N: n, Params: p, From: from}}
	}
	fee := func(ppm uint32) func(*record.Params) { return func(p *record.Params) { p.Fee = ppm } }
	yes := func(e record.Entry) record.Entry { return approve(m, e, keeper, second) }
	mintable := func(cap record.Amount) func(*record.Params) { return func(p *record.Params) { p.DailyMint = cap } }
	act(t, m,
		step{"by one keeper", now, keeper, approve(m, change(1, now+day, fee(0)), keeper), account.ErrAuthor},
		step{"without notice", now, keeper, yes(change(1, now+day-1, fee(0))), account.ErrEntry},
		step{"the second first", now, keeper, yes(change(2, now+day, fee(0))), account.ErrEntry},
		step{"more than all", now, keeper, yes(change(1, now+day, fee(1e6+1))), account.ErrEntry},
		step{"no reserve", now, keeper, yes(change(1, now+day, func(p *record.Params) { p.Reserve = 0 })), account.ErrEntry},
		step{"a vest of years", now, keeper, yes(change(1, now+day, func(p *record.Params) { p.VestDays = 367 })), account.ErrEntry},
		step{"for ever bound", now, keeper, yes(change(1, now+day, func(p *record.Params) { p.Unbond = 367 * day })), account.ErrEntry},
		step{"a cap of 5", now, stranger, yes(change(1, now+2*day, mintable(5))), nil},
		step{"again", now, stranger, yes(change(1, now+2*day, mintable(5))), account.ErrOnce},
		step{"before it is in force", now + 2*day - 1, mint, deposit(500, "a"), nil},
		step{"in force", now + 2*day, mint, deposit(6, "b"), account.ErrCap},
		step{"within it", now + 3*day, mint, deposit(5, "c"), nil},
		step{"above it, approved by the file's keepers", now + 3*day, mint, approve(m, deposit(7, "d"), keeper, second), nil},
		step{"a cap of 9", now + 3*day, stranger, yes(change(2, now+9*day, mintable(9))), nil},
		step{"replaced before it comes", now + 4*day, stranger, yes(change(3, now+6*day, mintable(7))), nil},
		step{"the old one until then", now + 6*day - 1, mint, deposit(6, "e"), account.ErrCap},
		step{"the new one", now + 6*day, mint, deposit(7, "f"), nil},
		step{"never the replaced one", now + 10*day, mint, deposit(8, "g"), account.ErrCap},
	)
}
