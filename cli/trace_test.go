package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// A fakeLog is a keeper that signs whatever it is given: entries that no rule would let
// in, rows that nobody asked for.
type fakeLog struct {
	key    identity.Key
	mesh   record.Signed[record.Mesh]
	rows   []wire.Row
	leaves [][]byte
	hashes []tlog.Hash
	lie    func(*wire.Row)
}

func (f *fakeLog) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, n := range at {
		out[i] = f.hashes[n]
	}
	return out, nil
}

func (f *fakeLog) Mesh() record.Signed[record.Mesh] { return f.mesh }

func (f *fakeLog) Head(context.Context) (wire.HeadReply, error) {
	return wire.HeadReply{Size: uint64(len(f.rows))}, nil
}

func (f *fakeLog) BalanceAt(context.Context, record.NodeID, uint64) (wire.BalanceReply, error) {
	return wire.BalanceReply{}, nil
}

func (f *fakeLog) HeadAt(ctx context.Context, _ uint64) (wire.HeadReply, error) { return f.Head(ctx) }

func (f *fakeLog) Consistency(context.Context, uint64, uint64) ([]record.Ref, error) { return nil, nil }

func (f *fakeLog) Tile(context.Context, wire.TileRequest) ([]byte, error) { return nil, nil }

func (f *fakeLog) Query(_ context.Context, q wire.QueryRequest) iter.Seq2[wire.Row, error] {
	return func(yield func(wire.Row, error) bool) {
		rows := slices.Clone(f.rows)
		if q.Reverse {
			slices.Reverse(rows)
		}
		n := uint32(0)
		for _, r := range rows {
			if r.Index < q.From && !q.Reverse || q.Size > 0 && r.Index >= q.Size || q.Limit > 0 && n == q.Limit {
				continue
			}
			if len(r.Entry) > 0 {
				e, err := record.Open[record.Entry](r.Entry)
				if err != nil {
					yield(r, err)
					return
				}
				if q.Kind != 0 && e.Value.Kind != q.Kind || q.Hash != (record.Ref{}) && e.Ref() != q.Hash {
					continue
				}
			}
			if f.lie != nil {
				f.lie(&r)
			}
			if n++; !yield(r, nil) {
				return
			}
		}
	}
}

func (f *fakeLog) Prove(_ context.Context, index uint64) (tree.Proof, error) {
	size := int64(len(f.leaves))
	root, err := tlog.TreeHash(size, f)
	if err != nil {
		return tree.Proof{}, err
	}
	head, err := tree.Sign(f.key, f.mesh.Ref(), uint64(size), record.Ref(root))
	if err != nil {
		return tree.Proof{}, err
	}
	path, err := tlog.ProveRecord(size, int64(index), f)
	p := tree.Proof{Index: index, Leaf: f.leaves[index], Head: head}
	for _, h := range path {
		p.Path = append(p.Path, record.Ref(h))
	}
	return p, err
}

func (f *fakeLog) add(t *testing.T, e record.Entry, moves ...wire.Move) {
	t.Helper()
	e.V, e.Seq, e.Idem = 1, uint64(len(f.rows)), record.Ref{1}
	s, err := record.Sign(f.key, e)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := record.Encode(record.Leaf{Time: record.Millis(len(f.rows)), Entry: s.Raw()})
	if err != nil {
		t.Fatal(err)
	}
	hashes, err := tlog.StoredHashes(int64(len(f.rows)), leaf, f)
	if err != nil {
		t.Fatal(err)
	}
	f.hashes, f.leaves = append(f.hashes, hashes...), append(f.leaves, leaf)
	f.rows = append(f.rows, wire.Row{Index: uint64(len(f.rows)), Time: record.Millis(len(f.rows)), Entry: s.Raw(), Moves: moves})
}

// A deal is a job's records before they are signed, so that a test can spoil them.
type deal struct {
	tenant, gateway, provider ed25519.PrivateKey
	signsLease, signsReceipt  ed25519.PrivateKey
	signsVoucher              ed25519.PrivateKey
	job                       record.Job
	bid                       record.Bid
	lease                     record.Lease
	receipt                   record.Receipt
	voucher                   record.Voucher
	held                      record.Amount // that the keeper says was held back
}

func signed[T record.Record](t *testing.T, key ed25519.PrivateKey, v T) record.Signed[T] {
	t.Helper()
	s, err := record.Sign(key, v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// log writes the deal, after spoil has had its way, in the order job, lease, settle.
func (d deal) log(t *testing.T, spoil func(*deal)) *fakeLog {
	t.Helper()
	key, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeLog{key: key}
	f.mesh = signed(t, d.tenant, record.Mesh{Name: "m", Keepers: []record.Member{{Key: key.PublicKey()}}, Quorum: 1})
	d.signsLease, d.signsReceipt, d.signsVoucher = d.gateway, d.provider, d.gateway
	d.job = record.Job{Shards: 2, MaxPrice: 900_000, MaxTotal: 1e6, Nonce: make([]byte, 16), Delegate: record.IDOf(d.gateway.Public().(ed25519.PublicKey))}
	d.lease = record.Lease{Shard: 1, Attempt: 1, Rate: 800_000, Reserve: 5e5}
	d.receipt = record.Receipt{Shard: 1, Attempt: 1, End: record.Exited, Usage: record.Usage{Work: 9e11}}
	d.voucher = record.Voucher{N: 1, Amount: account.Charge(800_000, 9e11), Work: 9e11}
	d.held = 20_000
	job := signed(t, d.tenant, d.job)
	d.bid.Job, d.lease.Job, d.receipt.Job = job.Ref(), job.Ref(), job.Ref()
	spoil(&d)
	job = signed(t, d.tenant, d.job)
	d.lease.Bid = signed(t, d.provider, d.bid)
	lease := signed(t, d.signsLease, d.lease)
	if d.receipt.Lease == (record.Ref{}) {
		d.receipt.Lease, d.voucher.Lease = lease.Ref(), lease.Ref()
	}
	receipt := signed(t, d.signsReceipt, d.receipt)
	if d.voucher.Receipt == (record.Ref{}) {
		d.voucher.Receipt = receipt.Ref()
	}
	f.add(t, record.Entry{Kind: record.TypeJob, Job: &job})
	f.add(t, record.Entry{Kind: record.TypeLease, Lease: &lease})
	owner := record.Ref(receipt.By()).String()
	f.add(t, record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: receipt, Voucher: signed(t, d.signsVoucher, d.voucher)}},
		wire.Move{Account: "provider:" + owner, Credit: 170_000}, wire.Move{Account: "holdback:" + owner, Credit: d.held}, wire.Move{Account: "fees", Credit: 10_000})
	return f
}

// TestTrace spoils each step between a job and its payout: the check that is named finds
// it, and no other.
func TestTrace(t *testing.T) {
	key := func(b byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, 32)) }
	d := deal{tenant: key(1), gateway: key(2), provider: key(3)}
	stranger := key(9)
	for name, tc := range map[string]struct {
		spoil func(*deal)
		fails []string
	}{
		"nothing":                 {func(*deal) {}, nil},
		"a stranger's lease":      {func(d *deal) { d.signsLease = stranger }, []string{"lease's signer"}},
		"no such shard":           {func(d *deal) { d.job.Shards = 1 }, []string{"lease is of the job", "bid is for the job", "receipt is of the lease"}},
		"a bid for another job":   {func(d *deal) { d.bid.Job = record.Ref{1} }, []string{"bid is for the job"}},
		"a rate above the price":  {func(d *deal) { d.lease.Rate = 1e6; d.voucher.Amount = 250_000; d.held += 50_000 }, []string{"rate is within the job's price"}},
		"another's receipt":       {func(d *deal) { d.signsReceipt = stranger }, []string{"receipt's signer"}},
		"of another attempt":      {func(d *deal) { d.receipt.Attempt = 2 }, []string{"receipt is of the lease"}},
		"a stranger's voucher":    {func(d *deal) { d.signsVoucher = stranger }, []string{"voucher's signer"}},
		"for another receipt":     {func(d *deal) { d.voucher.Receipt = record.Ref{1} }, []string{"voucher is for the receipt"}},
		"a µcredit too much":      {func(d *deal) { d.voucher.Amount++; d.held++ }, []string{"amount"}},
		"paid for a node's crash": {func(d *deal) { d.receipt.End = record.NodeLost }, []string{"amount"}},
		"capped by the reserve":   {func(d *deal) { d.voucher.Amount, d.lease.Reserve, d.held = 190_000, 190_000, 10_000 }, nil},
		"moved otherwise":         {func(d *deal) { d.held-- }, []string{"payout, holdback and fee"}},
	} {
		tr := &tracer{src: d.log(t, tc.spoil)}
		if err := tr.run(t.Context(), wire.QueryRequest{From: 2, Size: 3}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var failed []string
		for _, c := range tr.view.Checks {
			if !c.OK {
				failed = append(failed, c.Check)
			}
		}
		if !slices.Equal(failed, tc.fails) || tr.view.OK != (failed == nil) {
			b, _ := json.Marshal(tr.view.Checks)
			t.Errorf("%s: fails %q, want %q\n%s", name, failed, tc.fails, b)
		}
	}
	f := d.log(t, func(*deal) {})
	if err := (&tracer{src: f}).run(t.Context(), wire.QueryRequest{From: 1, Size: 2}); !wire.Is(err, wire.Invalid) {
		t.Errorf("a lease is taken for a payout: %v", err)
	}
	f.leaves[1] = append([]byte{}, f.leaves[2]...)
	if err := (&tracer{src: f}).run(t.Context(), wire.QueryRequest{From: 2, Size: 3}); !errors.Is(err, tree.ErrProof) {
		t.Errorf("an entry without a proof: %v", err)
	}
}

func TestPages(t *testing.T) {
	f := &fakeLog{}
	for i := range uint64(2500) {
		f.rows = append(f.rows, wire.Row{Index: i})
	}
	read := func(q wire.QueryRequest) (got []uint64, err error) {
		for r, err := range pages(t.Context(), f, q) {
			if err != nil {
				return got, err
			}
			got = append(got, r.Index)
		}
		return got, nil
	}
	for name, tc := range map[string]struct {
		q           wire.QueryRequest
		first, last uint64
		n           int
	}{
		"all":                 {wire.QueryRequest{}, 0, 2499, 2500},
		"from":                {wire.QueryRequest{From: 1999}, 1999, 2499, 501},
		"so many":             {wire.QueryRequest{From: 7, Limit: 1001}, 7, 1007, 1001},
		"a page":              {wire.QueryRequest{Limit: 1000}, 0, 999, 1000},
		"as it was":           {wire.QueryRequest{Size: 2000}, 0, 1999, 2000},
		"backwards":           {wire.QueryRequest{Reverse: true}, 2499, 0, 2500},
		"backwards from":      {wire.QueryRequest{Reverse: true, From: 1000}, 1000, 0, 1001},
		"backwards so many":   {wire.QueryRequest{Reverse: true, Limit: 1500}, 2499, 1000, 1500},
		"backwards as it was": {wire.QueryRequest{Reverse: true, Size: 2000, From: 2400}, 1999, 0, 2000},
	} {
		got, err := read(tc.q)
		if err != nil || len(got) != tc.n || got[0] != tc.first || got[len(got)-1] != tc.last {
			t.Errorf("%s: %d rows %d…%d, %v", name, len(got), got[0], got[max(len(got)-1, 0)], err)
		}
	}
	for name, lie := range map[string]func(*wire.Row){
		"an old entry":    func(r *wire.Row) { r.Index = 0 },
		"one to come":     func(r *wire.Row) { r.Index += 1e6 },
		"one of the past": func(r *wire.Row) { r.Index = max(r.Index, 5) - 5 },
	} {
		f.lie = lie
		if got, err := read(wire.QueryRequest{From: 3}); !wire.Is(err, wire.Unverified) {
			t.Errorf("%s: %d rows, %v", name, len(got), err)
		}
	}
	f.lie, f.rows = nil, nil
	if got, err := read(wire.QueryRequest{}); err != nil || got != nil {
		t.Errorf("an empty log: %v, %v", got, err)
	}
}
