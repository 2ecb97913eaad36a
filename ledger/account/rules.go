package account

import (
	"cmp"

	"idlemesh/ledger/record"
)

// Limits of what an entry may ask for.
const (
	MaxShards  = 100_000
	MaxRetries = 100
	// maxText is the longest free text in a public record, in bytes.
	maxText = 128
	// bidGrace is how long after its end a bid may still be leased: its expiry is by
	// the bidder's clock, the lease's time by the ledger's.
	bidGrace record.Millis = 60_000
)

// deposit credits a party from the mint.
func deposit(t turn, e record.Entry) (Effects, error) {
	day, d := Day(t.now), *e.Deposit
	switch {
	case t.by != t.Mesh().Mint.ID():
		return Effects{}, refuse(ErrAuthor, "only the mint deposits")
	case d.Amount == 0 || d.To == record.NodeID{}:
		return Effects{}, refuse(ErrEntry, "a deposit needs an amount and a receiver")
	case d.External == "" || len(d.External) > maxText:
		return Effects{}, refuse(ErrEntry, "external reference of %d bytes: want 1 to %d", len(d.External), maxText)
	}
	if used, err := t.Deposited(d.External); err != nil {
		return Effects{}, err
	} else if used {
		return Effects{}, refuse(ErrOnce, "external reference %q has its deposit", d.External)
	}
	sum, err := minted(t, day, e)
	if err != nil {
		return Effects{}, err
	}
	to, err := AccountOf(t, d.To)
	if err != nil {
		return Effects{}, err
	}
	f := Effects{External: d.External, Day: day, Minted: sum, Parties: []Party{{to, Payer}}}
	f.move(Post, ID{Kind: Mint}, ID{Tenant, to}, d.Amount)
	return f, nil
}

// minted is the day's sum after a deposit. One that a quorum of keepers has approved
// stands beside the cap.
func minted(t turn, day uint32, e record.Entry) (record.Amount, error) {
	p := t.Mesh().Params
	before, err := t.Minted(day)
	if err != nil || len(e.Approvals) > 0 {
		return before, cmp.Or(err, approved(t.file(), e))
	}
	sum, over := add(before, e.Deposit.Amount)
	if over != 0 || sum > p.DailyMint {
		return 0, refuse(ErrCap, "%v of %v are left today", p.DailyMint-min(before, p.DailyMint), p.DailyMint)
	}
	return sum, nil
}

// open moves a job's ceiling into its escrow. Whoever posts it, the job inside is
// the tenant's.
func open(t turn, signed record.Signed[record.Job]) (Effects, error) {
	ref, job := signed.Ref(), signed.Value
	have, err := t.Job(ref)
	if err != nil {
		return Effects{}, err
	}
	if have.Known() {
		return Effects{}, refuse(ErrOnce, "%s has its escrow", ref.JobID())
	}
	if err := terms(t.Mesh(), t.now, job); err != nil {
		return Effects{}, err
	}
	tenant := signed.By()
	from, err := signer(t, tenant, t.now)
	if err != nil {
		return Effects{}, err
	}
	f := Effects{
		Job: ref, JobAfter: &Job{Tenant: tenant, Terms: job},
		Parties: []Party{{tenant, Payer}, {job.Delegate, Delegate}},
	}
	f.move(Post, ID{Tenant, from}, ID{Escrow, ref}, job.MaxTotal)
	return f, nil
}

// terms reports whether a job asks for something that can be had.
func terms(m record.Mesh, now record.Millis, j record.Job) error {
	switch {
	case j.Shards < 1 || j.Shards > MaxShards:
		return refuse(ErrEntry, "%d shards: want 1 to %d", j.Shards, MaxShards)
	case j.Retries > MaxRetries:
		return refuse(ErrEntry, "%d retries: want at most %d", j.Retries, MaxRetries)
	case j.Tier < record.Bronze || j.Tier > record.Gold:
		return refuse(ErrEntry, "unknown %v", j.Tier)
	case j.MaxTotal == 0:
		return refuse(ErrEntry, "a job needs an escrow: its largest total is 0")
	case j.Body == record.Ref{} || len(j.Nonce) != 16:
		return refuse(ErrEntry, "a job needs a body and a nonce of 16 bytes")
	case j.Retention < 0 || j.Needs.MaxRTT < 0:
		return refuse(ErrEntry, "negative time")
	case j.Needs.Reliability > 1e6:
		return refuse(ErrEntry, "reliability of %d ppm", j.Needs.Reliability)
	case len(j.Needs.Region) > maxText || len(j.Needs.Model) > maxText:
		return refuse(ErrEntry, "region and model have at most %d bytes", maxText)
	case j.Expires <= now:
		return refuse(ErrClosed, "it expired before it began")
	}
	if _, ok := m.Gateway(j.Delegate); !ok {
		return refuse(ErrEntry, "delegate %s is not a gateway of this mesh", j.Delegate.Short())
	}
	return nil
}

// lease reserves part of the escrow for one attempt of one task.
func lease(t turn, signed record.Signed[record.Lease]) (Effects, error) {
	l := signed.Value
	job, err := openJob(t, l.Job)
	if err != nil {
		return Effects{}, err
	}
	at := Task{l.Job, l.Shard}
	task, err := t.Task(at)
	if err != nil {
		return Effects{}, err
	}
	switch {
	case t.now > job.Terms.Expires:
		return Effects{}, refuse(ErrClosed, "no task starts after its expiry")
	case job.Cancelled:
		return Effects{}, refuse(ErrClosed, "its tenant has cancelled it")
	}
	if err := spends(t, job, signed.By(), "a lease"); err != nil {
		return Effects{}, err
	}
	if err := attempt(job, task, l); err != nil {
		return Effects{}, err
	}
	if err := offer(t.Mesh().Params, job, t.now, l); err != nil {
		return Effects{}, err
	}
	provider := l.Bid.By()
	seller, err := signer(t, provider, t.now)
	if err != nil {
		return Effects{}, err
	}
	paid, err := payee(t, seller)
	if err != nil {
		return Effects{}, err
	}
	job.Open, job.Leases = job.Open+1, job.Leases+1
	under := other(job.supervisor(), job.Terms.Delegate)
	if signed.By() != under {
		under = record.NodeID{} // the tenant's own, or of the gateway that he named
	}
	f := Effects{
		Job: l.Job, JobAfter: &job,
		Task: at, TaskAfter: &TaskState{Attempts: l.Attempt, Lease: signed.Ref(), Open: true},
		Lease: signed.Ref(), LeaseAfter: &Lease{
			Job: l.Job, Shard: l.Shard, Attempt: l.Attempt, Epoch: l.Epoch, Provider: provider,
			Rate: l.Rate, Reserve: l.Reserve, State: Running, Account: other(seller, provider), Payee: other(paid, seller), Under: under,
		},
		Parties: append(job.parties(), Party{provider, Seller}),
	}
	f.move(Reserve, ID{Escrow, l.Job}, ID{Provider, paid}, l.Reserve)
	return f, f.draw(t, l, *f.LeaseAfter)
}

// spends reports whether a key may spend a job's escrow: it acts for the tenant, or is his
// delegate's.
func spends(t turn, job Job, key record.NodeID, what string) error {
	who, err := signer(t, key, t.now)
	if err != nil || key == job.supervisor() {
		return err
	}
	if tenant, err := AccountOf(t, job.Tenant); err != nil || who == tenant {
		return err
	}
	return refuse(ErrAuthor, "%s is signed by the tenant or his delegate", what)
}

// attempt reports whether it is this lease's turn.
func attempt(job Job, task TaskState, l record.Lease) error {
	switch {
	case l.Shard >= job.Terms.Shards:
		return refuse(ErrEntry, "shard %d of %d", l.Shard, job.Terms.Shards)
	case l.Epoch != job.Epoch:
		return refuse(ErrEntry, "epoch %d, the job's is %d", l.Epoch, job.Epoch)
	case l.Attempt == 0 || l.Attempt > job.Terms.Retries+1:
		return refuse(ErrEntry, "attempt %d where %d are allowed", l.Attempt, job.Terms.Retries+1)
	case l.Attempt <= task.Attempts:
		return refuse(ErrOnce, "attempt %d of shard %d has its lease", l.Attempt, l.Shard)
	case task.Open:
		return refuse(ErrEntry, "the last lease of shard %d has not ended", l.Shard)
	case task.Done:
		return refuse(ErrOnce, "shard %d has its receipt", l.Shard)
	case l.Attempt != task.Attempts+1:
		return refuse(ErrEntry, "attempt %d where %d is next", l.Attempt, task.Attempts+1)
	}
	return nil
}

// offer reports whether the lease is within the bid, the job's terms and the mesh's.
func offer(p record.Params, job Job, now record.Millis, l record.Lease) error {
	bid := l.Bid.Value
	switch ceiling := min(job.Terms.MaxPrice, p.Reserve); {
	case bid.Job != l.Job:
		return refuse(ErrEntry, "the bid is for another job")
	case bid.Expires < now-bidGrace:
		return refuse(ErrClosed, "the bid has expired")
	case bid.Device.Simulated && !p.AllowSimulated:
		return refuse(ErrEntry, "simulated devices may not earn in this mesh")
	case len(bid.Device.Model) > maxText || len(bid.Device.Backend) > maxText:
		return refuse(ErrEntry, "model and backend have at most %d bytes", maxText)
	case l.Rate > ceiling:
		return refuse(ErrEntry, "rate %v is above %v", l.Rate, ceiling)
	case l.Reserve == 0:
		return refuse(ErrEntry, "a lease needs a reserve")
	}
	return nil
}

// settle divides what a lease reserved: payout, holdback, fee; the rest returns to
// the escrow. Nobody writes a payout entry, so nobody can write a wrong one.
func settle(t turn, e record.Settle) (Effects, error) {
	r, v := e.Receipt.Value, e.Voucher.Value
	l, job, err := running(t, r.Lease)
	if err != nil {
		return Effects{}, err
	}
	if l.Epoch != job.Epoch {
		return Effects{}, refuse(ErrClosed, "the job was adopted: a lease of epoch %d can only be cut", l.Epoch)
	}
	if err := receipt(t, l, e.Receipt); err != nil {
		return Effects{}, err
	}
	if err := voucher(t, job, l, e); err != nil {
		return Effects{}, err
	}
	state := Lost
	if r.End.Paid() {
		state = Settled
	}
	f, err := end(t, r.Lease, l, job, state)
	if err != nil {
		return Effects{}, err
	}
	if err := f.pay(t, l, v.Amount); err != nil {
		return Effects{}, err
	}
	if e.Last {
		err = f.finish(t, record.Finished)
	}
	return f, err
}

// receipt reports whether r is the provider's and about this lease.
func receipt(t turn, l Lease, r record.Signed[record.Receipt]) error {
	v, p := r.Value, t.Mesh().Params
	by, err := signer(t, r.By(), t.now)
	switch {
	case err != nil:
		return err
	case by != l.account():
		return refuse(ErrAuthor, "a receipt is signed by the lease's provider")
	case v.Job != l.Job || v.Shard != l.Shard || v.Attempt != l.Attempt:
		return refuse(ErrEntry, "the receipt is for another task than its lease")
	case v.End < record.Exited || v.End > record.NodeLost:
		return refuse(ErrEntry, "unknown end %d", v.End)
	case v.Device.Simulated && !p.AllowSimulated:
		return refuse(ErrEntry, "simulated devices may not earn in this mesh")
	case len(v.Ran) > 2*maxText || len(v.Device.Model) > maxText || len(v.Device.Backend) > maxText:
		return refuse(ErrEntry, "a text of the receipt is longer than %d bytes", maxText)
	}
	return nil
}

// voucher reports whether the payer has signed exactly what the receipt comes to.
func voucher(t turn, job Job, l Lease, e record.Settle) error {
	r, v := e.Receipt.Value, e.Voucher.Value
	due, work := min(Charge(l.Rate, r.Usage.Work), l.Reserve), r.Usage.Work
	if !r.End.Paid() {
		due, work = 0, 0
	}
	due = max(due, l.Vouched) // what has been posted stays paid
	if err := spends(t, job, e.Voucher.By(), "a voucher"); err != nil {
		return err
	}
	switch {
	case v.Lease != r.Lease || v.Epoch != l.Epoch || v.N == 0:
		return refuse(ErrEntry, "the voucher is not of this lease and epoch")
	case v.Receipt != e.Receipt.Ref():
		return refuse(ErrEntry, "the voucher names another receipt")
	case v.Amount != due:
		return refuse(ErrEntry, "the voucher pays %v where %v are due", v.Amount, due)
	case v.Work != work && (r.End.Paid() || v.Work > r.Usage.Work):
		return refuse(ErrEntry, "the voucher is for work of %v ms, the receipt for %v", v.Work, work)
	}
	return nil
}

// pay appends the legs of a payout.
func (f *Effects) pay(t turn, l Lease, amount record.Amount) error {
	p, escrow := t.Mesh().Params, ID{Escrow, l.Job}
	held := share(amount, p.Holdback)
	fee := min(share(amount, p.Fee), amount-held)
	f.move(Post, escrow, ID{Provider, l.payee()}, amount-held-fee)
	f.move(Post, escrow, ID{Holdback, l.account()}, held)
	f.move(Post, escrow, ID{Kind: Fees}, fee)
	f.JobAfter.Paid += amount // never more than the escrow had
	f.LeaseAfter.Paid = amount
	if err := f.restore(t, l, l.Reserve-min(amount, l.Reserve)); err != nil || held == 0 {
		return err
	}
	var v Vesting
	if err := t.Fact(Name{FactVesting, l.account()}, &v); err != nil {
		return err
	}
	f.remember(FactVesting, l.account(), v.hold(t.now, p.VestDays, held))
	return nil
}

// cut ends a lease that came to nothing.
func cut(t turn, c record.Cut) (Effects, error) {
	l, job, err := running(t, c.Lease)
	if err != nil {
		return Effects{}, err
	}
	if t.by != job.supervisor() { // a tenant would cut what has run, and pay nothing
		return Effects{}, refuse(ErrAuthor, "a lease is cut by the job's supervisor")
	}
	f, err := end(t, c.Lease, l, job, Cut)
	if err == nil {
		err = f.pay(t, l, l.Vouched)
	}
	return f, err
}

// end returns the effects of a lease's end, before anything is paid.
func end(s State, ref record.Ref, l Lease, job Job, how LeaseState) (Effects, error) {
	at := Task{l.Job, l.Shard}
	task, err := s.Task(at)
	if err != nil {
		return Effects{}, err
	}
	l.State, task.Open, task.Done = how, false, how == Settled
	job.Open--
	if task.Done {
		job.Done++
	}
	f := Effects{
		Job: l.Job, JobAfter: &job, Task: at, TaskAfter: &task, Lease: ref, LeaseAfter: &l,
		Parties: append(job.parties(), Party{l.Provider, Seller}),
	}
	f.move(Release, ID{Escrow, l.Job}, ID{Provider, l.payee()}, l.Reserve)
	return f, nil
}

// cancel keeps a job from being leased again. Leases that run go on until they end, and
// are paid as any other.
func cancel(t turn, c record.Signed[record.Cancel]) (Effects, error) {
	job, err := openJob(t, c.Value.Job)
	if err != nil {
		return Effects{}, err
	}
	by, err := signer(t, c.By(), t.now)
	if err != nil {
		return Effects{}, err
	}
	tenant, err := AccountOf(t, job.Tenant)
	switch {
	case err != nil:
		return Effects{}, err
	case by != tenant: // his delegate closes the job
		return Effects{}, refuse(ErrAuthor, "a job is cancelled by its tenant")
	case job.Cancelled:
		return Effects{}, refuse(ErrOnce, "%s is cancelled", c.Value.Job.JobID())
	}
	job.Cancelled = true
	return Effects{Job: c.Value.Job, JobAfter: &job, Parties: job.parties()}, nil
}

// closeJob ends a job.
func closeJob(t turn, c record.Close) (Effects, error) {
	job, err := openJob(t, c.Job)
	if err != nil {
		return Effects{}, err
	}
	if err := spends(t, job, t.by, "an end of a job"); err != nil {
		return Effects{}, err
	}
	switch {
	case c.Why < record.Finished || c.Why > record.Unaffordable:
		return Effects{}, refuse(ErrEntry, "unknown reason %d", c.Why)
	}
	f := Effects{Job: c.Job, JobAfter: &job, Parties: job.parties()}
	return f, f.finish(t, c.Why)
}

// finish refunds what the legs so far leave in the escrow.
func (f *Effects) finish(s State, why record.Reason) error {
	job := f.JobAfter
	switch {
	case job.Open > 0:
		return refuse(ErrEntry, "%d leases have not ended", job.Open)
	case why == record.Finished && job.Done < job.Terms.Shards:
		return refuse(ErrEntry, "%d of %d tasks have no receipt", job.Terms.Shards-job.Done, job.Terms.Shards)
	}
	escrow := ID{Escrow, f.Job}
	have, err := s.Balance(escrow)
	if err != nil {
		return err
	}
	left := have.CreditsPosted - have.DebitsPosted
	for _, l := range f.Legs {
		if l.Move == Post && l.Debit == escrow {
			left -= min(l.Amount, left)
		}
	}
	to, err := AccountOf(s, job.Tenant)
	if err != nil {
		return err
	}
	job.Why = why
	f.move(Post, escrow, ID{Tenant, to}, left)
	return nil
}

func openJob(s State, ref record.Ref) (Job, error) {
	job, err := s.Job(ref)
	switch {
	case err != nil:
		return job, err
	case !job.Known():
		return job, refuse(ErrUnknown, "no job %s", ref.JobID())
	case job.Closed():
		return job, refuse(ErrClosed, "%s: %v", ref.JobID(), job.Why)
	}
	return job, nil
}

// running returns a lease that has not ended, and its job.
func running(s State, ref record.Ref) (Lease, Job, error) {
	l, err := s.Lease(ref)
	switch {
	case err != nil:
		return l, Job{}, err
	case l.State == 0:
		return l, Job{}, refuse(ErrUnknown, "no lease %s", ref)
	case l.State != Running:
		return l, Job{}, refuse(ErrOnce, "the lease has ended: %v", l.State)
	}
	job, err := openJob(s, l.Job)
	return l, job, err
}
