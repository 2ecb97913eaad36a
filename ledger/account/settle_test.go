package account_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// leased returns a state with the first shard of two leased.
func leased(t *testing.T) (*maps, record.Signed[record.Lease]) {
	t.Helper()
	m, job := started(t)
	e := lease(offer(job))
	if err := m.post(gateway, now, e); err != nil {
		t.Fatal(err)
	}
	return m, *e.Lease
}

func TestSettle(t *testing.T) {
	type change = func(*record.Receipt, *record.Voucher)
	for name, tc := range map[string]struct {
		change change
		err    error
		paid   record.Amount
	}{
		"as it is":           {func(*record.Receipt, *record.Voucher) {}, nil, 20},
		"trapped":            {func(r *record.Receipt, _ *record.Voucher) { r.End = record.Trapped }, nil, 20},
		"capped":             {func(r *record.Receipt, v *record.Voucher) { r.Usage.Work, v.Work, v.Amount = 1e12, 1e12, 40 }, nil, 40},
		"above the reserve":  {func(r *record.Receipt, v *record.Voucher) { r.Usage.Work, v.Work, v.Amount = 1e12, 1e12, 41 }, account.ErrEntry, 0},
		"node lost":          {func(r *record.Receipt, v *record.Voucher) { r.End, v.Amount, v.Work = record.NodeLost, 0, 0 }, nil, 0},
		"node lost, work":    {func(r *record.Receipt, v *record.Voucher) { r.End, v.Amount = record.NodeLost, 0 }, nil, 0},
		"node lost but paid": {func(r *record.Receipt, v *record.Voucher) { r.End = record.NodeLost }, account.ErrEntry, 0},
		"no end":             {func(r *record.Receipt, _ *record.Voucher) { r.End = 0 }, account.ErrEntry, 0},
		"unknown end":        {func(r *record.Receipt, _ *record.Voucher) { r.End = record.NodeLost + 1 }, account.ErrEntry, 0},
		"one too little":     {func(_ *record.Receipt, v *record.Voucher) { v.Amount-- }, account.ErrEntry, 0},
		"one too much":       {func(_ *record.Receipt, v *record.Voucher) { v.Amount++ }, account.ErrEntry, 0},
		"other work":         {func(_ *record.Receipt, v *record.Voucher) { v.Work-- }, account.ErrEntry, 0},
		"other lease":        {func(_ *record.Receipt, v *record.Voucher) { v.Lease = record.Ref{1} }, account.ErrEntry, 0},
		"other epoch":        {func(_ *record.Receipt, v *record.Voucher) { v.Epoch = 1 }, account.ErrEntry, 0},
		"number 0":           {func(_ *record.Receipt, v *record.Voucher) { v.N = 0 }, account.ErrEntry, 0},
		"other receipt":      {func(_ *record.Receipt, v *record.Voucher) { v.Receipt = record.Ref{1} }, account.ErrEntry, 0},
		"receipt of no one":  {func(r *record.Receipt, _ *record.Voucher) { r.Lease = record.Ref{1} }, account.ErrUnknown, 0},
		"other job":          {func(r *record.Receipt, _ *record.Voucher) { r.Job = record.Ref{1} }, account.ErrEntry, 0},
		"other shard":        {func(r *record.Receipt, _ *record.Voucher) { r.Shard = 1 }, account.ErrEntry, 0},
		"other attempt":      {func(r *record.Receipt, _ *record.Voucher) { r.Attempt = 2 }, account.ErrEntry, 0},
		"simulated":          {func(r *record.Receipt, _ *record.Voucher) { r.Device.Simulated = true }, account.ErrEntry, 0},
		"long text":          {func(r *record.Receipt, _ *record.Voucher) { r.Ran = strings.Repeat("x", 257) }, account.ErrEntry, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, l := leased(t)
			r, v := result(l)
			tc.change(&r, &v)
			err := m.post(stranger, now, settle(r, v, false))
			if !errors.Is(err, tc.err) || (err != nil) != (tc.err != nil) {
				t.Fatalf("post: %v, want %v", err, tc.err)
			}
			if err != nil {
				if m.free(account.Escrow, l.Value.Job) != 60 {
					t.Error("a refusal changed the escrow")
				}
				return
			}
			who := pub(provider).ID()
			if got := m.free(account.Provider, who) + m.free(account.Holdback, who) + m.free(account.Fees, [32]byte{}); got != tc.paid {
				t.Errorf("paid %v, want %v", got, tc.paid)
			}
			if m.free(account.Holdback, who) != tc.paid/4 || m.free(account.Fees, [32]byte{}) != tc.paid/10 {
				t.Errorf("held back %v, fee %v of %v", m.free(account.Holdback, who), m.free(account.Fees, [32]byte{}), tc.paid)
			}
			if got := m.free(account.Escrow, l.Value.Job); got != 100-tc.paid {
				t.Errorf("the escrow has %v", got)
			}
			if again := m.post(gateway, now, settle(r, v, false)); !errors.Is(again, account.ErrOnce) {
				t.Errorf("settled twice: %v", again)
			}
		})
	}
}

func TestSettleSigners(t *testing.T) {
	m, l := leased(t)
	r, v := result(l)
	s := sign(stranger, r)
	v.Receipt = s.Ref()
	e := record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: s, Voucher: sign(gateway, v)}}
	if err := m.post(gateway, now, e); !errors.Is(err, account.ErrAuthor) {
		t.Errorf("receipt by a stranger: %v", err)
	}
	s = sign(provider, r)
	v.Receipt = s.Ref()
	for _, k := range []ed25519.PrivateKey{provider, stranger} {
		e.Settle = &record.Settle{Receipt: s, Voucher: sign(k, v)}
		if err := m.post(gateway, now, e); !errors.Is(err, account.ErrAuthor) {
			t.Errorf("voucher by another: %v", err)
		}
	}
	e.Settle = &record.Settle{Receipt: s, Voucher: sign(tenant, v)}
	if err := m.post(provider, now, e); err != nil {
		t.Errorf("voucher by the tenant, posted by the provider: %v", err)
	}
}

// TestLast plays a job of two shards to its end.
func TestLast(t *testing.T) {
	m, first := leased(t)
	job := first.Value.Job
	r, v := result(first)
	if err := m.post(gateway, now, settle(r, v, true)); !errors.Is(err, account.ErrEntry) {
		t.Errorf("last of two: %v", err)
	}
	if err := m.post(gateway, now, settle(r, v, false)); err != nil {
		t.Fatal(err)
	}
	done := func(why record.Reason) record.Entry {
		return record.Entry{Kind: record.TypeClose, Stream: job, Close: &record.Close{Job: job, Why: why}}
	}
	if err := m.post(gateway, now, done(record.Finished)); !errors.Is(err, account.ErrEntry) {
		t.Errorf("finished with a task to do: %v", err)
	}
	l, b := offer(job)
	if l.Attempt = 2; !errors.Is(m.post(gateway, now, lease(l, b)), account.ErrOnce) {
		t.Error("a lease of a task that is done")
	}
	l.Shard, l.Attempt = 1, 1
	second := lease(l, b)
	if err := m.post(gateway, now, second); err != nil {
		t.Fatal(err)
	}
	if err := m.post(gateway, now, done(record.ByTenant)); !errors.Is(err, account.ErrEntry) {
		t.Errorf("closed over a running lease: %v", err)
	}
	r, v = result(*second.Lease)
	if err := m.post(gateway, now, settle(r, v, true)); err != nil {
		t.Fatal(err)
	}
	if j := m.job[job]; j.Why != record.Finished || j.Done != 2 || j.Paid != 40 || j.Open != 0 {
		t.Errorf("job: %+v", j)
	}
	if m.free(account.Tenant, pub(tenant).ID()) != 960 || m.free(account.Escrow, job) != 0 {
		t.Errorf("refund: tenant has %v", m.free(account.Tenant, pub(tenant).ID()))
	}
	for name, e := range map[string]record.Entry{"lease": lease(l, b), "close": done(record.ByTenant)} {
		if err := m.post(gateway, now, e); !errors.Is(err, account.ErrClosed) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

func TestClose(t *testing.T) {
	for name, tc := range map[string]struct {
		by  ed25519.PrivateKey
		why record.Reason
		err error
	}{
		"by the tenant":   {tenant, record.ByTenant, nil},
		"by the delegate": {gateway, record.Expired, nil},
		"by a stranger":   {stranger, record.Expired, account.ErrAuthor},
		"for no reason":   {tenant, 0, account.ErrEntry},
		"for another":     {tenant, record.Unaffordable + 1, account.ErrEntry},
	} {
		t.Run(name, func(t *testing.T) {
			m, job := started(t)
			err := m.post(tc.by, now, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job, Why: tc.why}})
			if !errors.Is(err, tc.err) || (err != nil) != (tc.err != nil) {
				t.Errorf("post: %v, want %v", err, tc.err)
			}
			if want := record.Amount(900); err == nil && m.free(account.Tenant, pub(tenant).ID()) != 1000 || err != nil && m.free(account.Tenant, pub(tenant).ID()) != want {
				t.Errorf("tenant has %v", m.free(account.Tenant, pub(tenant).ID()))
			}
		})
	}
	m, _ := started(t)
	if err := m.post(tenant, now, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: record.Ref{1}, Why: record.ByTenant}}); !errors.Is(err, account.ErrUnknown) {
		t.Errorf("no such job: %v", err)
	}
}
