package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/wire"
)

// A checkView is one thing that was checked.
type checkView struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

type traceView struct {
	OK     bool        `json:"ok"`
	Payout entryView   `json:"payout"`
	Lease  *entryView  `json:"lease,omitempty"`
	Job    *entryView  `json:"job,omitempty"`
	Checks []checkView `json:"checks"`
}

// A tracer follows a payout back through entries that are proven one by one.
type tracer struct {
	src  logSource
	view traceView
}

func (tr *tracer) check(name string, ok bool, format string, args ...any) {
	tr.view.Checks = append(tr.view.Checks, checkView{name, ok, fmt.Sprintf(format, args...)})
}

// proven fetches an entry with its proof, and notes that it holds.
func (tr *tracer) proven(ctx context.Context, what string, index uint64) (tree.Proven, entryView, error) {
	p, err := tr.src.Prove(ctx, index)
	if err != nil {
		return tree.Proven{}, entryView{}, err
	}
	got, err := tree.Check(p, tr.src.Mesh())
	if err != nil {
		return got, entryView{}, err
	}
	v, err := viewSigned(got.Index, got.Time, got.Entry)
	tr.check(what+" is in the log", true, "entry %d by %s, under the signed tree head of %d", index, v.Author.Short(), got.Head.Size)
	return got, v, err
}

// find returns the index of the one entry that q selects.
func (tr *tracer) find(ctx context.Context, what string, q wire.QueryRequest) (uint64, error) {
	q.Limit = 1
	for row, err := range tr.src.Query(ctx, q) {
		return row.Index, err
	}
	return 0, wire.Refuse(wire.NotFound, what+" is not in the log")
}

func (t terminal) ledgerTrace(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	q, err := payoutQuery(args[0])
	if err != nil {
		return err
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		tr := &tracer{src: src}
		if err := tr.run(ctx, q); err != nil {
			return err
		}
		if err := t.showTrace(c, tr.view); err != nil {
			return err
		}
		if !tr.view.OK {
			return &refusal{status: 7, text: "ledger trace: a check does not hold"}
		}
		return nil
	})
}

// payoutQuery finds a payout by its index, by its entry's hash or by its lease.
func payoutQuery(s string) (wire.QueryRequest, error) {
	if r, err := record.ParseRef(s); err == nil {
		return wire.QueryRequest{Hash: r}, nil
	}
	n, err := parseIndex(s)
	if err != nil {
		return wire.QueryRequest{}, usage("meshctl ledger query --type settle", "ledger trace: %q is no payout: want the index or the hash of a settle entry, or a lease", s)
	}
	return wire.QueryRequest{From: n, Size: n + 1}, nil
}

func (tr *tracer) run(ctx context.Context, q wire.QueryRequest) error {
	at, err := tr.find(ctx, "the payout", q)
	if wire.Is(err, wire.NotFound) && q.Hash != (record.Ref{}) {
		at, err = tr.find(ctx, "the payout", wire.QueryRequest{Lease: q.Hash, Kind: record.TypeSettle})
	}
	if err != nil {
		return err
	}
	pay, view, err := tr.proven(ctx, "payout", at)
	if err != nil {
		return err
	}
	tr.view.Payout = view
	settle := pay.Entry.Value.Settle
	if settle == nil {
		return wire.Refuse(wire.Invalid, fmt.Sprintf("entry %d is a %s: a payout is a settle entry", at, view.Kind))
	}
	r := settle.Receipt.Value
	leased, v, err := tr.entry(ctx, "lease", wire.QueryRequest{Lease: r.Lease, Kind: record.TypeLease})
	if err != nil {
		return err
	}
	tr.view.Lease = &v
	opened, w, err := tr.entry(ctx, "job", wire.QueryRequest{Job: r.Job, Kind: record.TypeJob})
	if err != nil {
		return err
	}
	tr.view.Job = &w
	lease, job := leased.Entry.Value.Lease, opened.Entry.Value.Job
	if lease == nil || job == nil {
		return wire.Refuse(wire.Unverified, "the keeper proved other entries than the lease and the job")
	}
	tr.check("order", opened.Index < leased.Index && leased.Index < pay.Index && opened.Time <= leased.Time && leased.Time <= pay.Time,
		"job %d, lease %d, payout %d", opened.Index, leased.Index, pay.Index)
	tr.terms(*job, *lease)
	tr.receipt(*job, *lease, settle.Receipt)
	tr.voucher(*job, *lease, *settle)
	if err := tr.legs(ctx, at, *settle); err != nil {
		return err
	}
	tr.view.OK = true
	for _, c := range tr.view.Checks {
		tr.view.OK = tr.view.OK && c.OK
	}
	return nil
}

func (tr *tracer) entry(ctx context.Context, what string, q wire.QueryRequest) (tree.Proven, entryView, error) {
	at, err := tr.find(ctx, "the "+what, q)
	if err != nil {
		return tree.Proven{}, entryView{}, err
	}
	return tr.proven(ctx, what, at)
}

// terms checks the lease and the bid inside it against the job.
func (tr *tracer) terms(job record.Signed[record.Job], lease record.Signed[record.Lease]) {
	l, bid := lease.Value, lease.Value.Bid
	tr.check("lease's signer", lease.By() == job.By() || lease.By() == job.Value.Delegate,
		"%s; the tenant is %s, his delegate %s", lease.By().Short(), job.By().Short(), job.Value.Delegate.Short())
	tr.check("lease is of the job", l.Job == job.Ref() && l.Shard < job.Value.Shards, "%s, task %d of %d, attempt %d", l.Job.JobID(), l.Shard, job.Value.Shards, l.Attempt)
	tr.check("bid is for the job", bid.Value.Job == job.Ref(), "by %s: %s an hour of %s; bids that lost are not in the log",
		bid.By().Short(), bid.Value.Ask, bid.Value.Device.Model)
	tr.check("rate is within the job's price", l.Rate <= job.Value.MaxPrice, "%s of at most %s an hour of reference-GPU work", l.Rate, job.Value.MaxPrice)
}

func (tr *tracer) receipt(job record.Signed[record.Job], lease record.Signed[record.Lease], receipt record.Signed[record.Receipt]) {
	l, r := lease.Value, receipt.Value
	tr.check("receipt's signer", receipt.By() == l.Bid.By(), "%s; the bid is by %s", receipt.By().Short(), l.Bid.By().Short())
	tr.check("receipt is of the lease", r.Lease == lease.Ref() && r.Job == job.Ref() && r.Shard == l.Shard && r.Attempt == l.Attempt,
		"%s after %s of work, exit code %d", r.End, r.Usage.Work, r.Exit)
}

// voucher checks what was paid against what the receipt comes to.
func (tr *tracer) voucher(job record.Signed[record.Job], lease record.Signed[record.Lease], s record.Settle) {
	v, r := s.Voucher, s.Receipt.Value
	due := record.Amount(0)
	if r.End.Paid() {
		due = account.Charge(lease.Value.Rate, r.Usage.Work)
	}
	capped := v.Value.Amount < due && v.Value.Amount >= lease.Value.Reserve // topped up or not
	tr.check("voucher's signer", v.By() == job.By() || v.By() == job.Value.Delegate, "%s", v.By().Short())
	tr.check("voucher is for the receipt", v.Value.Lease == lease.Ref() && v.Value.Receipt == s.Receipt.Ref(), "voucher %d of the lease", v.Value.N)
	tr.check("amount", v.Value.Amount == due || capped, "%s paid; %s × %s ms of work come to %s, and %s were reserved",
		v.Value.Amount, lease.Value.Rate, r.Usage.Work, due, lease.Value.Reserve)
}

// legs checks what the entry moved, as the keeper tells it.
func (tr *tracer) legs(ctx context.Context, at uint64, s record.Settle) error {
	var earned, fee record.Amount
	known := false
	for row, err := range tr.src.Query(ctx, wire.QueryRequest{Account: s.Receipt.By(), Whole: true, From: at, Size: at + 1}) {
		if err != nil {
			return err
		}
		for _, m := range row.Moves {
			id, err := parseAccount(m.Account)
			if err != nil {
				return wire.Refuse(wire.Unverified, err.Error())
			}
			switch id.Kind {
			case account.Provider, account.Holdback:
				known, earned = true, earned+m.Credit
			case account.Fees:
				fee += m.Credit
			}
		}
	}
	paid := s.Voucher.Value.Amount
	if known || paid == 0 { // else it went to the account that owns the node
		tr.check("payout, holdback and fee", earned+fee == paid, "%s to the provider, %s to the mesh", earned, fee)
	}
	return nil
}

func (t terminal) showTrace(c *cli.Context, v traceView) error {
	if done, err := t.encode(c, v); done {
		return err
	}
	return list(t, c, v.Checks, []column[checkView]{
		{head: "check", cell: func(v checkView) string { return v.Check }},
		{head: "result", cell: func(v checkView) string {
			if v.OK {
				return "ok"
			}
			return "FAILED"
		}},
		{head: "detail", cell: func(v checkView) string { return v.Detail }},
	})
}
