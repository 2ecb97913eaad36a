package gateway

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/keeper"
	"idlemesh/mesh/wire"
)

// A town is a gateway and a keeper with a real ledger, whose providers are made to
// misbehave.
type town struct {
	t      *testing.T
	mesh   record.Mesh
	tenant identity.Key
	gate   *Gateway
	blobs  *blob.Store
	muxes  sync.Map // of *wire.Mux by NodeID
	busy   sync.WaitGroup
}

// from is an Opener for one of the town.
type from struct {
	*town
	id record.NodeID
}

func (f from) Open(ctx context.Context, to record.NodeID, _ string) (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	m, _ := f.muxes.Load(to)
	f.busy.Go(func() { m.(*wire.Mux).Serve(context.WithoutCancel(ctx), f.id, there) })
	return here, nil
}

func newTown(t *testing.T) *town {
	t.Helper()
	c := &town{t: t, tenant: newKey(t)}
	key := newKey(t)
	me := []record.Member{{Key: key.PublicKey()}}
	c.mesh = record.Mesh{Name: "town", Keepers: me, Quorum: 1, Mint: c.tenant.PublicKey(), Gateways: me, Params: record.DefaultParams(), Created: record.At(time.Now())}
	quiet := slog.New(slog.DiscardHandler)
	l, err := ledger.Open("ledger", sign(t, key, c.mesh), key, ledger.Config{FS: vfs.NewMem(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if c.blobs, err = blob.Open("", nil, blob.Config{}); err != nil {
		t.Fatal(err)
	}
	me0 := from{c, key.ID()}
	c.gate, err = New(Config{Key: key, Mesh: c.mesh, Open: me0, Author: author.New(key, me0, c.mesh), Blobs: c.blobs, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	m := c.mux(key)
	m.Owner = c.gate.Owner
	keeper.New(l, keeper.Config{}).Register(m)
	c.gate.Register(m)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.gate.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.busy.Wait()
		l.Close()
	})
	c.append(record.Entry{Kind: record.TypeDeposit, Idem: record.Ref{1}, Deposit: &record.Deposit{To: c.tenant.ID(), Amount: 5 * record.Credit, External: "x"}})
	return c
}

func (c *town) mux(key identity.Key) *wire.Mux {
	m := &wire.Mux{Roles: func(id record.NodeID) wire.Role { return wire.RolesIn(c.mesh, id) }}
	c.muxes.Store(key.ID(), m)
	return m
}

// append writes an entry as the tenant.
func (c *town) append(e record.Entry) {
	c.t.Helper()
	if _, err := author.New(c.tenant, from{c, c.tenant.ID()}, c.mesh).Append(c.t.Context(), e); err != nil {
		c.t.Fatal(err)
	}
}

// A villain sells at ask. Its receipts are what lie makes of honest ones; hook, which
// may be nil, is asked before each bid and each run.
type villain struct {
	*town
	mux    *wire.Mux
	key    identity.Key
	ask    record.Amount
	lie    func(*record.Receipt)
	hook   func(verb string, n int64) error
	bids   atomic.Int64
	starts atomic.Int64
	stops  atomic.Int64
}

// open opens shop.
func (v *villain) open(c *town) {
	v.town, v.key = c, newKey(c.t)
	if v.hook == nil {
		v.hook = func(string, int64) error { return nil }
	}
	if v.lie == nil {
		v.lie = func(*record.Receipt) {}
	}
	v.mux = c.mux(v.key)
	wire.Handle(v.mux, wire.Solicit, v.bid)
	wire.HandleStream(v.mux, wire.Start, v.start)
	wire.Handle(v.mux, wire.Stop, func(context.Context, wire.Caller, wire.StopRequest) (wire.Ack, error) {
		v.stops.Add(1)
		return wire.Ack{}, nil
	})
	v.advertise(1)
}

func (v *villain) advertise(seq uint64) {
	v.t.Helper()
	now := record.At(time.Now())
	bench := sign(v.t, v.key, record.Bench{Model: card.Model, FLOPS: 20e12, Bandwidth: 500e9})
	a := record.Advert{Seq: seq, Expires: now + 30_000, Ask: v.ask, Device: card, Slots: 1, Free: 1, Tiers: []record.Tier{record.Bronze}, Bench: &bench,
		Windows: []record.Window{{From: now - 1000, Until: now + day}}}
	_, err := wire.Call(v.t.Context(), from{v.town, v.key.ID()}, v.gate.cfg.Key.ID(), wire.Advertise, wire.AdvertRequest{Advert: sign(v.t, v.key, a)})
	if err != nil {
		v.t.Fatal(err)
	}
}

// TestUnprovenSpeed: an advert that names a speed without a bench of its own that shows it
// is refused, and the one before stands.
func TestUnprovenSpeed(t *testing.T) {
	v := &villain{ask: 1000}
	v.open(newTown(t))
	other := sign(t, newKey(t), record.Bench{Model: card.Model, FLOPS: 20e12, Bandwidth: 500e9})
	slow := sign(t, v.key, record.Bench{Model: card.Model, FLOPS: 20e12, Bandwidth: 499e9})
	for name, bench := range map[string]*record.Signed[record.Bench]{"none": nil, "another's": &other, "slower": &slow} {
		now := record.At(time.Now())
		a := record.Advert{Seq: 2, Expires: now + 30_000, Ask: v.ask, Device: card, Slots: 1, Free: 1, Tiers: []record.Tier{record.Bronze}, Bench: bench}
		_, err := wire.Call(t.Context(), from{v.town, v.key.ID()}, v.gate.cfg.Key.ID(), wire.Advertise, wire.AdvertRequest{Advert: sign(t, v.key, a)})
		if !wire.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "bench") {
			t.Errorf("%s: %v, want a refusal that names the bench", name, err)
		}
	}
	if len(v.gate.offers) != 1 {
		t.Errorf("%d offers stand, want the first", len(v.gate.offers))
	}
}

var card = record.Device{Model: "card", Speed: 1000}

func (v *villain) bid(_ context.Context, _ wire.Caller, q wire.Solicitation) (wire.BidReply, error) {
	n := v.bids.Add(1)
	if err := v.hook("bid", n); err != nil {
		return wire.BidReply{}, err
	}
	now := record.At(time.Now())
	b, err := record.Sign(v.key, record.Bid{Job: q.Job.Ref(), Device: card, Ask: v.ask, Expires: now + 2000, Nonce: uint64(n),
		Window: record.Window{From: now - 1000, Until: now + day}})
	return wire.BidReply{Bids: []record.Signed[record.Bid]{b}}, err
}

func (v *villain) start(_ context.Context, _ wire.Caller, q wire.StartRequest, send func(wire.LeaseEvent) error) error {
	if err := send(wire.LeaseEvent{Done: 1, Total: 2}); err != nil {
		return err
	}
	if err := v.hook("start", v.starts.Add(1)); err != nil {
		return err
	}
	sealed, err := identity.NewSealer().Seal([]byte{0xa0}, wire.SealManifest, v.gate.cfg.Key.PublicKey())
	if err != nil {
		return err
	}
	l := q.Lease.Value
	r := record.Receipt{Lease: q.Lease.Ref(), Job: l.Job, Shard: l.Shard, Attempt: l.Attempt, Inputs: record.Body{}.InputsRef(), Module: module.Ref,
		Outputs: blob.Sum(sealed), Device: card, End: record.Exited, Usage: record.Usage{Meter: record.CPUTime, Work: 5e8}}
	v.lie(&r)
	s, err := record.Sign(v.key, r)
	if err != nil {
		return err
	}
	return send(wire.LeaseEvent{Receipt: &s, Manifest: sealed})
}

var module = record.Blob{Ref: blob.Sum([]byte("module")), Size: 6}

// request returns a job ready to be submitted.
func (c *town) request(retries uint32) wire.JobRequest {
	c.t.Helper()
	if _, err := c.blobs.PutBytes([]byte("module")); err != nil {
		c.t.Fatal(err)
	}
	plain, err := record.Encode(record.Body{Module: module, Seed: make([]byte, 32)})
	if err != nil {
		c.t.Fatal(err)
	}
	sealed, err := identity.NewSealer().Seal(plain, wire.SealBody, c.gate.cfg.Key.PublicKey())
	if err != nil {
		c.t.Fatal(err)
	}
	return wire.JobRequest{Body: sealed, Job: sign(c.t, c.tenant, record.Job{Body: blob.Sum(sealed), Shards: 1, Tier: record.Bronze,
		MaxPrice: record.Credit / 2, MaxTotal: record.Credit, Retries: retries, Limits: record.Limits{Wall: 60_000},
		Expires: record.At(time.Now()) + 600_000, Nonce: make([]byte, 16), Delegate: c.gate.cfg.Key.ID()})}
}

func (c *town) submit(q wire.JobRequest) (wire.Admitted, error) {
	return wire.Call(c.t.Context(), from{c, c.tenant.ID()}, c.gate.cfg.Key.ID(), wire.Submit, q)
}

// cancel ends a job as its tenant.
func (c *town) cancel(q wire.JobRequest) error {
	_, err := wire.Call(c.t.Context(), from{c, c.tenant.ID()}, c.gate.cfg.Key.ID(), wire.Cancel,
		wire.CancelRequest{Cancel: sign(c.t, c.tenant, record.Cancel{Job: q.Job.Ref()})})
	return err
}

// count is how many entries of a kind the log has of a job.
func (c *town) count(q wire.JobRequest, kind record.EntryType) (n int) {
	c.t.Helper()
	for _, err := range wire.Stream(c.t.Context(), from{c, c.tenant.ID()}, c.gate.cfg.Key.ID(), wire.Query, wire.QueryRequest{Job: q.Job.Ref(), Kind: kind}) {
		if err != nil {
			c.t.Fatal(err)
		}
		n++
	}
	return n
}

// end watches a job to its end.
func (c *town) end(q wire.JobRequest) (kinds []wire.Kind, last wire.JobEvent) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	for e, err := range wire.Stream(ctx, from{c, c.tenant.ID()}, c.gate.cfg.Key.ID(), wire.Watch, wire.WatchRequest{Job: q.Job.Ref()}) {
		if err != nil {
			c.t.Fatalf("after %v: %v", kinds, err)
		}
		if kinds, last = append(kinds, e.Kind), e; e.Kind == wire.Settled {
			last = e
		}
	}
	return kinds, last
}

func (c *town) earned(id record.NodeID) record.Amount {
	c.t.Helper()
	b, err := wire.Call(c.t.Context(), from{c, c.tenant.ID()}, c.gate.cfg.Key.ID(), wire.Balance, wire.BalanceRequest{Of: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return b.Earned + b.Free
}

// TestLiarIsNotPaid: the cheapest provider invents work. Its task goes elsewhere.
func TestLiarIsNotPaid(t *testing.T) {
	c := newTown(t)
	liar := &villain{ask: 1000, lie: func(r *record.Receipt) { r.Usage.Work = 3600e9 }}
	honest := &villain{ask: 2000}
	liar.open(c)
	honest.open(c)
	q := c.request(1)
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	if _, last := c.end(q); last.Reason != record.Finished {
		t.Errorf("ended with %v, %v", last.Reason, last.Err)
	}
	if liar.starts.Load() != 1 || c.earned(liar.key.ID()) != 0 || c.earned(honest.key.ID()) == 0 {
		t.Errorf("the liar ran %d times for %v, the other earned %v", liar.starts.Load(), c.earned(liar.key.ID()), c.earned(honest.key.ID()))
	}
}

// TestBrokenStream: a provider whose stream breaks is joined again, not replaced.
func TestBrokenStream(t *testing.T) {
	c := newTown(t)
	v := &villain{ask: 1000, hook: func(verb string, n int64) error {
		if verb == "start" && n < 3 {
			return wire.Refuse(wire.Unavailable, "broken")
		}
		return nil
	}}
	v.open(c)
	q := c.request(0)
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	if kinds, last := c.end(q); last.Reason != record.Finished {
		t.Errorf("ended with %v after %v", last.Reason, kinds)
	}
}

// TestClosedByTenant: a tenant may close his job himself, and hides it in his own
// stream. No provider may work for it again and again.
func TestClosedByTenant(t *testing.T) {
	c := newTown(t)
	q := c.request(50)
	closed := make(chan struct{})
	v := &villain{ask: 1000, hook: func(verb string, n int64) error {
		if verb == "bid" && n == 1 {
			defer close(closed)
			ref := q.Job.Ref()
			c.append(record.Entry{Kind: record.TypeClose, Idem: record.Ref{9}, Close: &record.Close{Job: ref, Why: record.ByTenant}})
		}
		return nil
	}}
	v.open(c)
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	<-closed
	if kinds, last := c.end(q); last.Kind != wire.Ended || last.Reason != record.ByTenant {
		t.Errorf("ended with %v after %v", last.Reason, kinds)
	}
	if n := v.starts.Load(); n > 1 {
		t.Errorf("%d runs of a closed job", n)
	}
	if b := c.earned(c.tenant.ID()); b != 5*record.Credit {
		t.Errorf("the tenant has %v", b)
	}
}

// TestCancelDuringAuction: nothing is leased for a job that was cancelled while bids
// were asked for.
func TestCancelDuringAuction(t *testing.T) {
	c := newTown(t)
	q := c.request(0)
	v := &villain{ask: 1000, hook: func(verb string, _ int64) error {
		if verb != "bid" {
			return nil
		}
		return c.cancel(q)
	}}
	v.open(c)
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	if kinds, last := c.end(q); last.Reason != record.ByTenant || v.starts.Load() != 0 {
		t.Errorf("ended with %v after %v and %d runs", last.Reason, kinds, v.starts.Load())
	}
}

// TestCancelBeforeStart: a run that begins after the tenant has cancelled is stopped.
func TestCancelBeforeStart(t *testing.T) {
	c := newTown(t)
	q := c.request(0)
	var v *villain
	v = &villain{ask: 1000, lie: func(r *record.Receipt) { r.End = record.Cancelled }, hook: func(verb string, _ int64) error {
		if verb != "start" {
			return nil
		}
		if err := c.cancel(q); err != nil {
			return err
		}
		for v.stops.Load() == 0 {
			if c.t.Context().Err() != nil {
				return c.t.Context().Err()
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	}}
	v.open(c)
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	if _, last := c.end(q); last.Kind != wire.Ended || v.stops.Load() == 0 {
		t.Errorf("ended with %v after %d stops", last.Reason, v.stops.Load())
	}
	// Lease and cancel cross: only a lease that the log took first is paid.
	if leased, paid := c.count(q, record.TypeLease) == 1, c.earned(v.key.ID()) > 0; leased != paid {
		t.Errorf("its lease stands in the log: %v, what it had done by then is paid: %v", leased, paid)
	}
}

// TestSameJobAtOnce sends one job from many sides: one escrow, and one answer.
func TestSameJobAtOnce(t *testing.T) {
	c := newTown(t)
	q := c.request(0)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if a, err := c.submit(q); err != nil || a.Job != q.Job.Ref() {
				t.Errorf("submit: %+v, %v", a, err)
			}
		})
	}
	wg.Wait()
	if n := c.gate.Busy(); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if b := c.earned(c.tenant.ID()); b != 4*record.Credit {
		t.Errorf("the tenant has %v left", b)
	}
}

// TestRefusedJobs lists what is not admitted, and that none of it costs the tenant.
func TestRefusedJobs(t *testing.T) {
	c := newTown(t)
	now := record.At(time.Now())
	for name, tc := range map[string]struct {
		change func(*record.Job)
		code   wire.Code
	}{
		"no shard":           {func(j *record.Job) { j.Shards = 0 }, wire.Invalid},
		"too many shards":    {func(j *record.Job) { j.Shards = maxTasks + 1 }, wire.Invalid},
		"expired":            {func(j *record.Job) { j.Expires = now - 1 }, wire.Invalid},
		"waits for ever":     {func(j *record.Job) { j.Expires = 1<<63 - 1 }, wire.Invalid},
		"runs for ever":      {func(j *record.Job) { j.Limits.Wall = 1<<64 - 1 }, wire.Invalid},
		"kept for ever":      {func(j *record.Job) { j.Retention = 1<<63 - 1 }, wire.Invalid},
		"kept before":        {func(j *record.Job) { j.Retention = -1 }, wire.Invalid},
		"another's delegate": {func(j *record.Job) { j.Delegate = c.tenant.ID() }, wire.Denied},
		"too dear":           {func(j *record.Job) { j.MaxTotal = 6 * record.Credit }, wire.Funds},
		"another body":       {func(j *record.Job) { j.Body[0]++ }, wire.Invalid},
	} {
		q := c.request(0)
		j := q.Job.Value
		tc.change(&j)
		q.Job = sign(t, c.tenant, j)
		if _, err := c.submit(q); !wire.Is(err, tc.code) {
			t.Errorf("%s: %v", name, err)
		}
		if n := c.count(q, record.TypeJob); n != 0 {
			t.Errorf("%s: %d escrows were opened", name, n)
		}
	}
	if b := c.earned(c.tenant.ID()); b != 5*record.Credit {
		t.Errorf("the tenant has %v left", b)
	}
}

// TestLoad: a tenant's open jobs are bounded, and give room when they end.
func TestLoad(t *testing.T) {
	c := newTown(t)
	q := c.request(0)
	id := c.tenant.ID()
	c.gate.loads[id] = load{jobs: maxJobs}
	if _, err := c.submit(q); !wire.Is(err, wire.Funds) {
		t.Errorf("too many jobs: %v", err)
	}
	c.gate.loads[id] = load{tasks: maxWaiting}
	if _, err := c.submit(q); !wire.Is(err, wire.Funds) {
		t.Errorf("too many tasks: %v", err)
	}
	c.gate.loads[id] = load{}
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	if err := c.cancel(q); err != nil {
		t.Fatal(err)
	}
	c.end(q)
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if l := c.gate.loads[id]; l.jobs != 0 || l.tasks != 0 {
		t.Errorf("after the end: %+v", l)
	}
}

// TestStrangerKeepsNothing: a body without money behind it is not kept.
func TestStrangerKeepsNothing(t *testing.T) {
	c := newTown(t)
	q := c.request(0)
	j := q.Job.Value
	q.Job = sign(t, newKey(t), j)
	if _, err := c.submit(q); !wire.Is(err, wire.Funds) {
		t.Errorf("a job of nobody: %v", err)
	}
	if c.blobs.Has(j.Body) {
		t.Error("its body is on disk")
	}
}

// TestWhoUploads: tenants with credits and providers with a lease, nobody else.
func TestWhoUploads(t *testing.T) {
	c := newTown(t)
	v := &villain{ask: 1000}
	v.open(c)
	if !c.gate.MayWrite(c.tenant.ID()) {
		t.Error("a tenant with credits may not")
	}
	if c.gate.MayWrite(record.NodeID{9}) || c.gate.MayWrite(v.key.ID()) {
		t.Error("a stranger, or a provider without a lease, may")
	}
	q := c.request(0)
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	c.end(q)
	if !c.gate.MayWrite(v.key.ID()) {
		t.Error("a provider with a lease may not")
	}
	if c.gate.sweep(c.gate.now() + 2*day); len(c.gate.takes) != 0 {
		t.Errorf("%d remembered for ever", len(c.gate.takes))
	}
}

// TestGrantsEnd: who may fetch a blob may not for ever.
func TestGrantsEnd(t *testing.T) {
	c := newTown(t)
	g, ref, id := c.gate, record.Ref{5}, record.NodeID{6}
	g.mu.Lock()
	g.permitLocked(id, g.now()+day, record.Blob{Ref: ref})
	g.permitLocked(id, g.now(), record.Blob{Ref: ref}) // shortens nothing
	g.mu.Unlock()
	if !g.MayRead(id, ref) || g.MayRead(record.NodeID{7}, ref) || g.MayRead(id, record.Ref{}) {
		t.Error("a grant is not its holder's alone")
	}
	g.sweep(g.now() + 2*day)
	if g.MayRead(id, ref) || len(g.grants) != 0 {
		t.Error("a grant outlives its time")
	}
}
