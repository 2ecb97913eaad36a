package account

import (
	"math"

	"idlemesh/ledger/record"
)

// purse is where a party pays from: what it may spend, or what it has earned.
func purse(of record.NodeID, earned bool) ID {
	if earned {
		return ID{Provider, of}
	}
	return ID{Tenant, of}
}

// transfer moves credits between parties, or from earned to free.
func transfer(t turn, e record.Transfer) (Effects, error) {
	to, err := AccountOf(t, e.To)
	switch {
	case err != nil:
		return Effects{}, err
	case e.Amount == 0 || to == record.NodeID{}:
		return Effects{}, refuse(ErrEntry, "a transfer needs an amount and a receiver")
	case to == t.who && !e.Earned:
		return Effects{}, refuse(ErrEntry, "a transfer to oneself moves only what was earned")
	}
	f := Effects{Parties: []Party{{to, Payer}}}
	f.move(Post, purse(t.who, e.Earned), ID{Tenant, to}, e.Amount)
	return f, nil
}

// withdraw makes credits pending until the mint has paid them out.
func withdraw(t turn, e record.Entry) (Effects, error) {
	w := *e.Withdraw
	switch {
	case w.Amount == 0:
		return Effects{}, refuse(ErrEntry, "a withdrawal needs an amount")
	case w.External == "" || len(w.External) > maxText:
		return Effects{}, refuse(ErrEntry, "external reference of %d bytes: want 1 to %d", len(w.External), maxText)
	}
	from := purse(t.who, w.Earned)
	f := Effects{}
	f.move(Reserve, from, ID{Kind: Mint}, w.Amount)
	f.remember(FactWithdrawal, e.Name(t.by), Withdrawal{From: from, Amount: w.Amount})
	return f, nil
}

// confirm ends a withdrawal, once: paid out, or given back.
func confirm(t turn, c record.Confirm) (Effects, error) {
	var w Withdrawal
	if err := t.Fact(Name{FactWithdrawal, c.Withdrawal}, &w); err != nil {
		return Effects{}, err
	}
	switch {
	case t.by != t.Mesh().Mint.ID():
		return Effects{}, refuse(ErrAuthor, "only the mint ends a withdrawal")
	case w.Amount == 0:
		return Effects{}, refuse(ErrUnknown, "no withdrawal %s", c.Withdrawal)
	case w.Ended:
		return Effects{}, refuse(ErrOnce, "the withdrawal has ended")
	case !c.Paid && c.External != "":
		return Effects{}, refuse(ErrEntry, "a withdrawal that is given back has no payment to refer to")
	}
	f := Effects{Parties: []Party{{record.NodeID(w.From.Owner), Payer}}}
	f.move(Release, w.From, ID{Kind: Mint}, w.Amount)
	if c.Paid {
		f.move(Post, w.From, ID{Kind: Mint}, w.Amount)
		if err := f.once(t, record.TypeConfirm, c.External); err != nil {
			return Effects{}, err
		}
	}
	w.Ended = true
	f.remember(FactWithdrawal, c.Withdrawal, w)
	return f, nil
}

// reward pays from the mesh's own accounts, by a quorum of keepers.
func reward(t turn, e record.Entry) (Effects, error) {
	r := *e.Reward
	if r.Amount == 0 || r.To == (record.NodeID{}) {
		return Effects{}, refuse(ErrEntry, "a reward needs an amount and a receiver")
	}
	if err := approved(t.file(), e); err != nil {
		return Effects{}, err
	}
	from := ID{Kind: Fees}
	if r.Insurance {
		from.Kind = Insurance
	}
	to, err := AccountOf(t, r.To)
	if err != nil {
		return Effects{}, err
	}
	f := Effects{Parties: []Party{{to, Payer}}}
	f.move(Post, from, ID{Provider, to}, r.Amount)
	return f, f.once(t, record.TypeReward, r.External)
}

// approved reports whether a quorum of the mesh's keepers has consented to what e does.
func approved(m record.Mesh, e record.Entry) error {
	matter, err := record.Matter(m, e)
	if err != nil {
		return err
	}
	have := map[record.NodeID]bool{}
	for _, a := range e.Approvals {
		switch _, keeper := m.Keeper(a.By()); {
		case a.Value.Matter != matter:
			return refuse(ErrEntry, "an approval is of something else")
		case !keeper:
			return refuse(ErrAuthor, "%s approves it and is no keeper", a.By().Short())
		case have[a.By()]:
			return refuse(ErrEntry, "keeper %s approves it twice", a.By().Short())
		}
		have[a.By()] = true
	}
	if need := int(max(m.Quorum, 1)); len(have) < need {
		return refuse(ErrAuthor, "%d keepers approve it, %d must", len(have), need)
	}
	return nil
}

// topUp adds to a job's escrow or, within it, to a lease's reserve.
func topUp(t turn, e record.TopUp) (Effects, error) {
	job, err := openJob(t, e.Job)
	if err != nil {
		return Effects{}, err
	}
	if e.Amount == 0 {
		return Effects{}, refuse(ErrEntry, "a top-up needs an amount")
	}
	f := Effects{Job: e.Job, Parties: job.parties()}
	if e.Lease != (record.Ref{}) {
		return f, f.extend(t, e)
	}
	tenant, err := AccountOf(t, job.Tenant)
	switch {
	case err != nil:
		return Effects{}, err
	case t.who != tenant:
		return Effects{}, refuse(ErrAuthor, "a job's escrow is topped up by its tenant")
	case job.Added > math.MaxUint64-e.Amount:
		return Effects{}, refuse(ErrEntry, "%v", errOverflow)
	}
	job.Added += e.Amount
	f.JobAfter = &job
	f.move(Post, ID{Tenant, tenant}, ID{Escrow, e.Job}, e.Amount)
	return f, nil
}

// extend reserves more of the escrow for a lease that runs.
func (f *Effects) extend(t turn, e record.TopUp) error {
	l, job, err := running(t, e.Lease)
	switch {
	case err != nil:
		return err
	case l.Job != e.Job:
		return refuse(ErrEntry, "the lease is of another job")
	case t.by != job.supervisor(): // who signs its vouchers, and must know what they come to
		return refuse(ErrAuthor, "a lease is topped up by the job's supervisor")
	case l.Reserve > math.MaxUint64-e.Amount:
		return refuse(ErrEntry, "%v", errOverflow)
	}
	l.Reserve += e.Amount
	if err := f.charge(t, l, e.Amount); err != nil {
		return err
	}
	f.Lease, f.LeaseAfter = e.Lease, &l
	f.Parties = append(f.Parties, Party{l.Provider, Seller})
	f.move(Reserve, ID{Escrow, e.Job}, ID{Provider, l.payee()}, e.Amount)
	return nil
}
