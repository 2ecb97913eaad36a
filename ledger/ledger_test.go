package ledger_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// A world is a mesh with one party in each role, and what they have written so far.
type world struct {
	mint, tenant, gateway, provider, keeper ed25519.PrivateKey

	mesh record.Signed[record.Mesh]
	seq  map[record.NodeID]uint64
	n    uint64 // makes names differ
	now  time.Time
}

func newKey(b byte) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte{b})
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(k ed25519.PrivateKey) record.PublicKey {
	return record.PublicKey(k.Public().(ed25519.PublicKey))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newWorld() *world {
	w := &world{
		mint: newKey(1), tenant: newKey(2), gateway: newKey(3), provider: newKey(4), keeper: newKey(5),
		seq: map[record.NodeID]uint64{}, now: time.UnixMilli(1_800_000_000_000),
	}
	params := record.DefaultParams()
	params.Holdback, params.Fee, params.DailyMint = 100_000, 20_000, 1e6*record.Credit
	w.mesh = must(record.Sign(w.keeper, record.Mesh{
		Name: "test", Keepers: []record.Member{{Key: public(w.keeper)}}, Quorum: 1, Mint: public(w.mint),
		Gateways: []record.Member{{Key: public(w.gateway)}}, Params: params,
	}))
	return w
}

func (w *world) unique() record.Ref {
	w.n++
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, w.n))
}

// entry signs e as the next of its author's stream.
func (w *world) entry(by ed25519.PrivateKey, e record.Entry) record.Raw {
	id := public(by).ID()
	e.V, e.Seq = 1, w.seq[id]
	w.seq[id]++
	if e.Idem == (record.Ref{}) {
		e.Idem = w.unique()
	}
	return must(record.Sign(by, e)).Raw()
}

func (w *world) deposit(amount record.Amount) record.Raw {
	return w.entry(w.mint, record.Entry{Kind: record.TypeDeposit, Deposit: &record.Deposit{
		To: public(w.tenant).ID(), Amount: amount, External: w.unique().String(),
	}})
}

func (w *world) job() record.Signed[record.Job] {
	nonce := w.unique()
	return must(record.Sign(w.tenant, record.Job{
		Body: w.unique(), Shards: 1, Tier: record.Silver, MaxPrice: record.Credit / 2, MaxTotal: 10, Retries: 1,
		Expires: record.At(w.now.Add(time.Hour)), Nonce: nonce[:16], Delegate: public(w.gateway).ID(),
	}))
}

func (w *world) lease(job record.Signed[record.Job]) record.Signed[record.Lease] {
	bid := must(record.Sign(w.provider, record.Bid{Job: job.Ref(), Ask: 1, Expires: record.At(w.now.Add(time.Minute))}))
	return must(record.Sign(w.gateway, record.Lease{Bid: bid, Job: job.Ref(), Attempt: 1, Rate: record.Credit / 4, Reserve: 10}))
}

func (w *world) settle(lease record.Signed[record.Lease]) *record.Settle {
	l := lease.Value
	work := record.Work(100e6)
	receipt := must(record.Sign(w.provider, record.Receipt{
		Lease: lease.Ref(), Job: l.Job, Shard: l.Shard, Attempt: l.Attempt, End: record.Exited, Usage: record.Usage{Work: work, Meter: record.CPUTime},
	}))
	voucher := must(record.Sign(w.gateway, record.Voucher{
		Lease: lease.Ref(), N: 1, Amount: min(account.Charge(l.Rate, work), l.Reserve), Work: work, Receipt: receipt.Ref(),
	}))
	return &record.Settle{Receipt: receipt, Voucher: voucher, Last: true}
}

// whole returns the three entries of a job that runs at once, of the gateway.
func (w *world) whole() (raws []record.Raw, job record.Ref) {
	j := w.job()
	l := w.lease(j)
	return []record.Raw{
		w.entry(w.gateway, record.Entry{Kind: record.TypeJob, Job: &j}),
		w.entry(w.gateway, record.Entry{Kind: record.TypeLease, Lease: &l}),
		w.entry(w.gateway, record.Entry{Kind: record.TypeSettle, Settle: w.settle(l)}),
	}, j.Ref()
}

func (w *world) config(fs vfs.FS) ledger.Config {
	return ledger.Config{
		FS: fs, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler), MemTable: 1 << 20,
	}
}

func (w *world) open(t testing.TB, fs vfs.FS) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(fs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// apply appends raws, all of which must be taken.
func apply(t testing.TB, l *ledger.Ledger, raws ...record.Raw) []ledger.Outcome {
	t.Helper()
	outs, err := l.Apply(raws)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outs {
		if o.Err != nil {
			t.Fatalf("entry %d of the batch: %v", i, o.Err)
		}
	}
	return outs
}

func TestOneJob(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	raws, job := w.whole()
	outs := apply(t, l, append([]record.Raw{w.deposit(100)}, raws...)...)
	if outs[3].Index != 3 || l.Head().Size != 4 {
		t.Fatalf("outcomes %+v at size %d", outs, l.Head().Size)
	}
	// 0.1 s at 0.25 credits an hour is 6.94 µcr: 6, of which no whole one is held back.
	for id, want := range map[account.ID]record.Amount{
		{Kind: account.Tenant, Owner: public(w.tenant).ID()}:     94,
		{Kind: account.Escrow, Owner: job}:                       0,
		{Kind: account.Provider, Owner: public(w.provider).ID()}: 6,
	} {
		if b, err := l.Balance(id); err != nil || b.Free() != want {
			t.Errorf("%v has %v, %v; want %v", id, b.Free(), err, want)
		}
	}
	if j, err := l.Job(job); err != nil || j.Why != record.Finished || j.Paid != 6 || j.Done != 1 {
		t.Errorf("Job = %+v, %v", j, err)
	}
	for i := range uint64(4) {
		p, err := l.Prove(i)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tree.Check(p, w.mesh)
		if err != nil || got.Index != i {
			t.Errorf("proof of %d: %+v, %v", i, got, err)
		}
	}
}

func TestIdempotence(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	idem := w.unique()
	e := record.Entry{V: 1, Kind: record.TypeDeposit, Idem: idem, Deposit: &record.Deposit{To: public(w.tenant).ID(), Amount: 5, External: "x"}}
	sign := func(seq uint64, amount record.Amount) record.Raw {
		d := *e.Deposit
		d.Amount = amount
		again := e
		again.Seq, again.Deposit = seq, &d
		return must(record.Sign(w.mint, again)).Raw()
	}
	outs, err := l.Apply([]record.Raw{sign(0, 5), sign(1, 5), sign(1, 6), sign(9, 5)})
	if err != nil {
		t.Fatal(err)
	}
	if outs[0].Known || !outs[1].Known || outs[1].Index != 0 || !errors.Is(outs[2].Err, ledger.ErrConflict) || !outs[3].Known {
		t.Errorf("in one batch: %+v", outs)
	}
	for range 1000 {
		outs, err := l.Apply([]record.Raw{sign(1, 5)})
		if err != nil || !outs[0].Known || outs[0].Index != 0 || outs[0].Time != record.At(w.now) {
			t.Fatalf("again: %+v, %v", outs, err)
		}
	}
	if b, err := l.Balance(account.ID{Kind: account.Tenant, Owner: public(w.tenant).ID()}); err != nil || b.Free() != 5 || l.Head().Size != 1 {
		t.Errorf("balance %v, %v, size %d", b.Free(), err, l.Head().Size)
	}
}

func TestRefusedTakesNoNumber(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	early := w.job() // no money yet
	bad := w.entry(w.gateway, record.Entry{Kind: record.TypeJob, Job: &early})
	outs, err := l.Apply([]record.Raw{bad, {1, 2, 3}, make(record.Raw, ledger.MaxEntry+1), w.deposit(100)})
	if err != nil {
		t.Fatal(err)
	}
	var overdraft *account.OverdraftError
	if !errors.As(outs[0].Err, &overdraft) || overdraft.Want != 10 || !errors.Is(outs[1].Err, record.ErrSignature) || !errors.Is(outs[2].Err, account.ErrEntry) {
		t.Errorf("refusals: %+v", outs)
	}
	if outs[3].Index != 0 || outs[3].Err != nil {
		t.Errorf("the deposit: %+v", outs[3])
	}
	apply(t, l, bad) // its number is still free
	late := w.job()
	skipped := must(record.Sign(w.gateway, record.Entry{V: 1, Kind: record.TypeJob, Seq: 7, Idem: w.unique(), Job: &late})).Raw()
	outs, err = l.Apply([]record.Raw{skipped})
	var seq *ledger.SequenceError
	if err != nil || !errors.As(outs[0].Err, &seq) || seq.Want != 1 || !errors.Is(outs[0].Err, ledger.ErrSequence) {
		t.Errorf("gap: %+v, %v", outs, err)
	}
	if n, err := l.NextSeq(public(w.gateway).ID(), record.Ref{}); err != nil || n != 1 {
		t.Errorf("NextSeq = %d, %v", n, err)
	}
}

// TestReopen closes and opens in every state, and sees the same ledger.
func TestReopen(t *testing.T) {
	w := newWorld()
	fs := vfs.NewMem()
	var size uint64
	for i := range 5 {
		l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(fs))
		if err != nil {
			t.Fatal(err)
		}
		if l.Head().Size != size {
			t.Fatalf("opened %d: size %d, want %d", i, l.Head().Size, size)
		}
		apply(t, l, w.deposit(100))
		raws, _ := w.whole()
		apply(t, l, raws...)
		size = l.Head().Size
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Apply(nil); !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	other := newWorld()
	other.mesh = must(record.Sign(newKey(9), other.mesh.Value))
	if _, err := ledger.Open("mesh", other.mesh, w.keeper, w.config(fs)); !errors.Is(err, ledger.ErrMesh) {
		t.Errorf("opened as another mesh's: %v", err)
	}
}

func TestLocked(t *testing.T) {
	w := newWorld()
	dir := t.TempDir()
	c := w.config(nil)
	l, err := ledger.Open(dir, w.mesh, w.keeper, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.OpenReadOnly(dir, w.mesh, c); !errors.Is(err, ledger.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ledger.OpenReadOnly(dir, w.mesh, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(nil); !errors.Is(err, ledger.ErrReadOnly) {
		t.Errorf("Apply: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.OpenReadOnly(t.TempDir(), w.mesh, c); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("an empty folder: %v", err)
	}
}

func ExampleOpen() {
	w := newWorld()
	l, err := ledger.Open("ledger", w.mesh, w.keeper, ledger.Config{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	outs, err := l.Apply([]record.Raw{w.deposit(5 * record.Credit)})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := l.Balance(account.ID{Kind: account.Tenant, Owner: public(w.tenant).ID()})
	fmt.Println(outs[0].Index, b.Free(), err)
	// Output: 0 5.000000 <nil>
}
