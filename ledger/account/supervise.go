package account

import (
	"crypto/sha256"

	"idlemesh/ledger/record"
)

// vouch posts the highest voucher of a lease that runs: what it names is paid whatever
// becomes of the lease.
func vouch(t turn, signed record.Signed[record.Voucher]) (Effects, error) {
	v := signed.Value
	l, job, err := running(t, v.Lease)
	if err != nil {
		return Effects{}, err
	}
	if err := spends(t, job, signed.By(), "a voucher"); err != nil {
		return Effects{}, err
	}
	switch {
	case v.Epoch != l.Epoch || v.Epoch != job.Epoch:
		return Effects{}, refuse(ErrEntry, "the voucher is of epoch %d, the lease of %d, the job of %d", v.Epoch, l.Epoch, job.Epoch)
	case v.N <= l.N:
		return Effects{}, refuse(ErrOnce, "voucher %d, where %d is posted", v.N, l.N)
	case v.Amount < l.Vouched || v.Work < l.Work:
		return Effects{}, refuse(ErrEntry, "the voucher takes back what another one promised")
	case v.Amount > l.Reserve:
		return Effects{}, refuse(ErrEntry, "the voucher pays %v of a reserve of %v", v.Amount, l.Reserve)
	case v.Amount > Charge(l.Rate, v.Work):
		return Effects{}, refuse(ErrEntry, "the voucher pays %v for work of %v ms", v.Amount, v.Work)
	}
	l.N, l.Vouched, l.Work = v.N, v.Amount, v.Work
	return Effects{Job: l.Job, Lease: v.Lease, LeaseAfter: &l, Parties: append(job.parties(), Party{l.Provider, Seller})}, nil
}

// A Mandate is what a delegation allows and what has been drawn on it.
type Mandate struct {
	Amount  record.Amount `cbor:"1,keyasint"`
	Rate    record.Amount `cbor:"2,keyasint"`
	Expires record.Millis `cbor:"3,keyasint"`
	Drawn   record.Amount `cbor:"4,keyasint,omitempty"` // reserved or paid
}

func mandateName(job record.Ref, gateway record.NodeID) Name {
	return Name{FactDelegation, sha256.Sum256(append(job[:], gateway[:]...))}
}

// delegate lets another gateway take a job over. A second one for the same gateway
// replaces the first, and leaves what was drawn.
func delegate(t turn, d record.Delegation) (Effects, error) {
	job, err := openJob(t, d.Job)
	if err != nil {
		return Effects{}, err
	}
	tenant, err := AccountOf(t, job.Tenant)
	if err != nil {
		return Effects{}, err
	}
	_, known := t.Mesh().Gateway(d.Gateway)
	switch {
	case t.who != tenant:
		return Effects{}, refuse(ErrAuthor, "a job is delegated by its tenant")
	case !known:
		return Effects{}, refuse(ErrEntry, "delegate %s is not a gateway of this mesh", d.Gateway.Short())
	case d.Gateway == job.Terms.Delegate:
		return Effects{}, refuse(ErrEntry, "the job names that gateway already")
	case d.Expires <= t.now:
		return Effects{}, refuse(ErrClosed, "it expired before it began")
	}
	name := mandateName(d.Job, d.Gateway)
	var m Mandate
	if err := t.Fact(name, &m); err != nil {
		return Effects{}, err
	}
	m.Amount, m.Rate, m.Expires = d.Amount, d.Rate, d.Expires
	f := Effects{Job: d.Job, Parties: append(job.parties(), Party{d.Gateway, Delegate})}
	f.remember(name.Kind, name.Of, m)
	return f, nil
}

// adopt makes a gateway with a delegation the supervisor of a job, once an epoch. The
// gateway that the tenant named may take it back.
func adopt(t turn, a record.Adopt) (Effects, error) {
	job, err := openJob(t, a.Job)
	if err != nil {
		return Effects{}, err
	}
	var m Mandate
	if err := t.Fact(mandateName(a.Job, t.by), &m); err != nil {
		return Effects{}, err
	}
	switch {
	case t.by != job.Terms.Delegate && (m.Expires == 0 || m.Expires < t.now):
		return Effects{}, refuse(ErrAuthor, "the tenant has not delegated the job to %s", t.by.Short())
	case t.by == job.supervisor():
		return Effects{}, refuse(ErrOnce, "the job is supervised by %s", t.by.Short())
	case a.Epoch <= job.Epoch:
		return Effects{}, refuse(ErrOnce, "epoch %d has begun", job.Epoch)
	case a.Epoch != job.Epoch+1:
		return Effects{}, refuse(ErrEntry, "epoch %d where %d is next", a.Epoch, job.Epoch+1)
	}
	job.Epoch, job.Adopter = a.Epoch, other(t.by, job.Terms.Delegate)
	return Effects{Job: a.Job, JobAfter: &job, Parties: job.parties()}, nil
}

// draw charges a lease's reserve to the delegation that it is signed under. No gateway
// may pay its own owner group by one.
func (f *Effects) draw(t turn, signed record.Lease, l Lease) error {
	if l.Under == (record.NodeID{}) {
		return nil
	}
	gateway, err := AccountOf(t, l.Under)
	if err != nil {
		return err
	}
	group, err := payee(t, gateway)
	if err != nil {
		return err
	}
	var m Mandate
	if err := t.Fact(mandateName(l.Job, l.Under), &m); err != nil {
		return err
	}
	switch {
	case t.now > m.Expires:
		return refuse(ErrClosed, "the delegation has expired")
	case signed.Rate > m.Rate:
		return refuse(ErrEntry, "rate %v is above the delegation's %v", signed.Rate, m.Rate)
	case group == l.payee() || gateway == l.account():
		return refuse(ErrAuthor, "a delegate does not lease from its own owner group")
	}
	return f.charge(t, l, l.Reserve)
}

// charge draws an amount on the delegation of a lease.
func (f *Effects) charge(t turn, l Lease, amount record.Amount) error {
	if l.Under == (record.NodeID{}) {
		return nil
	}
	name := mandateName(l.Job, l.Under)
	var m Mandate
	if err := t.Fact(name, &m); err != nil {
		return err
	}
	if left := m.Amount - min(m.Drawn, m.Amount); amount > left {
		return refuse(ErrEntry, "the delegation has %v left, %v are needed", left, amount)
	}
	m.Drawn += amount // at most m.Amount
	f.remember(name.Kind, name.Of, m)
	return nil
}

// restore gives a delegation back what a lease did not pay.
func (f *Effects) restore(t turn, l Lease, amount record.Amount) error {
	if l.Under == (record.NodeID{}) || amount == 0 {
		return nil
	}
	name := mandateName(l.Job, l.Under)
	var m Mandate
	if err := t.Fact(name, &m); err != nil {
		return err
	}
	m.Drawn -= min(amount, m.Drawn)
	f.remember(name.Kind, name.Of, m)
	return nil
}
