package account_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// TestCancel: a cancel is its tenant's, whoever posts it, and once; it moves nothing,
// and ends what the job may have, not what it owes.
func TestCancel(t *testing.T) {
	wish := func(k ed25519.PrivateKey, job record.Ref) record.Entry {
		c := sign(k, record.Cancel{Job: job})
		return record.Entry{Kind: record.TypeCancel, Cancel: &c}
	}
	m, first := leased(t)
	job := first.Value.Job
	for name, tc := range map[string]struct {
		e   record.Entry
		err error
	}{
		"by the delegate":  {wish(gateway, job), account.ErrAuthor},
		"by the provider":  {wish(provider, job), account.ErrAuthor},
		"of no job":        {wish(tenant, record.Ref{1}), account.ErrUnknown},
		"without its body": {record.Entry{Kind: record.TypeCancel}, account.ErrEntry},
	} {
		if err := m.post(gateway, now, tc.e); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
	}
	before := m.free(account.Escrow, job)
	if err := m.post(stranger, now, wish(tenant, job)); err != nil || !m.job[job].Cancelled || m.free(account.Escrow, job) != before {
		t.Fatalf("the tenant's, posted by a stranger: %v, job %+v, escrow %v of %v", err, m.job[job], m.free(account.Escrow, job), before)
	}
	if err := m.post(gateway, now, wish(tenant, job)); !errors.Is(err, account.ErrOnce) {
		t.Errorf("twice: %v", err)
	}
	l, b := offer(job)
	l.Shard = 1
	if err := m.post(gateway, now, lease(l, b)); !errors.Is(err, account.ErrClosed) {
		t.Errorf("a lease of a cancelled job: %v", err)
	}
	r, v := result(first)
	r.End = record.Cancelled
	if err := m.post(gateway, now, settle(r, v, false)); err != nil {
		t.Errorf("what ran is not paid: %v", err)
	}
	if err := m.post(gateway, now, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job, Why: record.ByTenant}}); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := m.post(gateway, now, wish(tenant, job)); !errors.Is(err, account.ErrClosed) {
		t.Errorf("of a closed job: %v", err)
	}
}
