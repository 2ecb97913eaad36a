package cli

import (
	"fmt"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// An entryView is an entry of the log as it is printed. The fields that its kind has
// are set.
type entryView struct {
	Index  uint64         `json:"index"`
	Time   stamp          `json:"time"`
	Kind   string         `json:"kind"`
	Author record.NodeID  `json:"author"`
	Stream record.Ref     `json:"stream"`
	Seq    uint64         `json:"seq"`
	Hash   record.Ref     `json:"hash"`
	Job    *record.Ref    `json:"job,omitempty"`
	Lease  *record.Ref    `json:"lease,omitempty"`
	Node   *record.NodeID `json:"provider,omitempty"`
	Shard  *uint32        `json:"shard,omitempty"`
	Amount record.Amount  `json:"amount_ucr"`
	Work   record.Work    `json:"work,omitempty"`
	Rate   record.Amount  `json:"rate_ucr_per_gpu_hour,omitempty"`
	To     *record.NodeID `json:"to,omitempty"`
	Extern string         `json:"external,omitempty"`
	Reason string         `json:"reason,omitempty"`
	Earned bool           `json:"earned,omitempty"` // it was taken from earnings
	Paid   *bool          `json:"paid,omitempty"`   // how a withdrawal ended
	// Withdrawal names one, for account confirm.
	Withdrawal *record.Ref `json:"withdrawal,omitempty"`
	Approved   uint        `json:"approved,omitempty"` // by so many keepers
	// Of is the account that an entry about keys is about, Next its next key's name.
	Of    *record.NodeID `json:"account,omitempty"`
	Next  *record.NodeID `json:"next_key,omitempty"`
	Rec   *receiptView   `json:"receipt,omitempty"`
	Moves []wire.Move    `json:"moves"`
}

func viewEntry(r wire.Row) (entryView, error) {
	e, err := record.Open[record.Entry](r.Entry)
	if err != nil {
		return entryView{}, wire.Refuse(wire.Unverified, fmt.Sprintf("entry %d: %v", r.Index, err))
	}
	v, err := viewSigned(r.Index, r.Time, e)
	v.Moves = append(v.Moves, r.Moves...)
	return v, err
}

func viewSigned(index uint64, at record.Millis, e record.Signed[record.Entry]) (entryView, error) {
	b := e.Value
	v := entryView{Index: index, Time: stamp(at), Kind: b.Kind.String(), Author: e.By(), Stream: b.Stream, Seq: b.Seq,
		Hash: e.Ref(), Moves: []wire.Move{}, Approved: uint(len(b.Approvals))}
	switch {
	case b.Deposit != nil:
		v.Amount, v.To, v.Extern = b.Deposit.Amount, &b.Deposit.To, b.Deposit.External
	case b.Job != nil:
		job := b.Job.Ref()
		v.Job, v.Amount, v.Rate = &job, b.Job.Value.MaxTotal, b.Job.Value.MaxPrice
	case b.Lease != nil:
		l, lease, node := b.Lease.Value, b.Lease.Ref(), b.Lease.Value.Bid.By()
		v.Job, v.Lease, v.Node, v.Shard, v.Amount, v.Rate = &l.Job, &lease, &node, &l.Shard, l.Reserve, l.Rate
	case b.Settle != nil:
		r, node := b.Settle.Receipt.Value, b.Settle.Receipt.By()
		v.Job, v.Lease, v.Node, v.Shard = &r.Job, &r.Lease, &node, &r.Shard
		v.Amount, v.Work, v.Rec = b.Settle.Voucher.Value.Amount, b.Settle.Voucher.Value.Work, viewReceipt(b.Settle.Receipt)
	case b.Cut != nil:
		v.Lease = &b.Cut.Lease
	case b.Close != nil:
		v.Job, v.Reason = &b.Close.Job, b.Close.Why.String()
	case b.Cancel != nil:
		v.Job = &b.Cancel.Value.Job
	default:
		if !v.money(b) && !v.keys(b) && !v.supervision(b) {
			return v, wire.Refuse(wire.Unverified, fmt.Sprintf("entry %d has no body", index))
		}
	}
	return v, nil
}

// text is what an entry is about, for people.
func (v entryView) text() string {
	s := ""
	if v.Job != nil {
		s = v.Job.JobID()
	}
	if v.Shard != nil {
		s += fmt.Sprintf(" task %d", *v.Shard)
	}
	if v.Node != nil {
		s += " on " + v.Node.Short()
	}
	if v.To != nil {
		s += "to " + v.To.Short()
	}
	if v.Of != nil {
		s += " of " + v.Of.Short()
	}
	if v.Next != nil {
		s += " to " + v.Next.Short()
	}
	if v.Extern != "" {
		s += " for " + v.Extern
	}
	return s + v.Reason
}

var entryColumns = [...]column[entryView]{
	{head: "index", cell: func(v entryView) string { return fmt.Sprint(v.Index) }},
	{head: "time", cell: func(v entryView) string { return v.Time.String() }},
	{head: "kind", cell: func(v entryView) string { return v.Kind }},
	{head: "author", cell: func(v entryView) string { return v.Author.Short() }},
	{head: "about", cell: func(v entryView) string { return v.text() }},
	{head: "amount", cell: func(v entryView) string { return credits(v.Amount) }},
	{head: "seq", cell: func(v entryView) string { return fmt.Sprint(v.Seq) }, wide: true},
	{head: "hash", cell: func(v entryView) string { return v.Hash.String() }, wide: true},
}
