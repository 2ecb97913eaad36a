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
func transfer(by record.NodeID, t record.Transfer) (Effects, error) {
	switch {
	case t.Amount == 0 || t.To == record.NodeID{}:
		return Effects{}, refuse(ErrEntry, "a transfer needs an amount and a receiver")
	case t.To == by && !t.Earned:
		return Effects{}, refuse(ErrEntry, "a transfer to oneself moves only what was earned")
	}
	f := Effects{Parties: []Party{{t.To, Payer}}}
	f.move(Post, purse(by, t.Earned), ID{Tenant, t.To}, t.Amount)
	return f, nil
}

// withdraw makes credits pending until the mint has paid them out.
func withdraw(by record.NodeID, e record.Entry) (Effects, error) {
	w := *e.Withdraw
	switch {
	case w.Amount == 0:
		return Effects{}, refuse(ErrEntry, "a withdrawal needs an amount")
	case w.External == "" || len(w.External) > maxText:
		return Effects{}, refuse(ErrEntry, "external reference of %d bytes: want 1 to %d", len(w.External), maxText)
	}
	from := purse(by, w.Earned)
	f := Effects{}
	f.move(Reserve, from, ID{Kind: Mint}, w.Amount)
	f.remember(FactWithdrawal, e.Name(by), Withdrawal{From: from, Amount: w.Amount})
	return f, nil
}

// confirm ends a withdrawal, once: paid out, or given back.
func confirm(s State, by record.NodeID, c record.Confirm) (Effects, error) {
	var w Withdrawal
	if err := s.Fact(Name{FactWithdrawal, c.Withdrawal}, &w); err != nil {
		return Effects{}, err
	}
	switch {
	case by != s.Mesh().Mint.ID():
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
		if err := f.once(s, record.TypeConfirm, c.External); err != nil {
			return Effects{}, err
		}
	}
	w.Ended = true
	f.remember(FactWithdrawal, c.Withdrawal, w)
	return f, nil
}

// reward pays from the mesh's own accounts, by a quorum of keepers.
func reward(s State, e record.Entry) (Effects, error) {
	r := *e.Reward
	if r.Amount == 0 || r.To == (record.NodeID{}) {
		return Effects{}, refuse(ErrEntry, "a reward needs an amount and a receiver")
	}
	if err := approved(s.Mesh(), e); err != nil {
		return Effects{}, err
	}
	from := ID{Kind: Fees}
	if r.Insurance {
		from.Kind = Insurance
	}
	f := Effects{Parties: []Party{{r.To, Payer}}}
	f.move(Post, from, ID{Provider, r.To}, r.Amount)
	return f, f.once(s, record.TypeReward, r.External)
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
func topUp(s State, by record.NodeID, t record.TopUp) (Effects, error) {
	job, err := openJob(s, t.Job)
	if err != nil {
		return Effects{}, err
	}
	if t.Amount == 0 {
		return Effects{}, refuse(ErrEntry, "a top-up needs an amount")
	}
	f := Effects{Job: t.Job, Parties: job.parties()}
	if t.Lease != (record.Ref{}) {
		return f, f.extend(s, by, t)
	}
	if by != job.Tenant {
		return Effects{}, refuse(ErrAuthor, "a job's escrow is topped up by its tenant")
	}
	if job.Added > math.MaxUint64-t.Amount {
		return Effects{}, refuse(ErrEntry, "%v", errOverflow)
	}
	job.Added += t.Amount
	f.JobAfter = &job
	f.move(Post, ID{Tenant, job.Tenant}, ID{Escrow, t.Job}, t.Amount)
	return f, nil
}

// extend reserves more of the escrow for a lease that runs.
func (f *Effects) extend(s State, by record.NodeID, t record.TopUp) error {
	l, job, err := running(s, t.Lease)
	switch {
	case err != nil:
		return err
	case l.Job != t.Job:
		return refuse(ErrEntry, "the lease is of another job")
	case by != job.Terms.Delegate: // who signs its vouchers, and must know what they come to
		return refuse(ErrAuthor, "a lease is topped up by the job's delegate")
	case l.Reserve > math.MaxUint64-t.Amount:
		return refuse(ErrEntry, "%v", errOverflow)
	}
	l.Reserve += t.Amount
	f.Lease, f.LeaseAfter = t.Lease, &l
	f.Parties = append(f.Parties, Party{l.Provider, Seller})
	f.move(Reserve, ID{Escrow, t.Job}, ID{Provider, l.Provider}, t.Amount)
	return nil
}
