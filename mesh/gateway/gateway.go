// Package gateway admits tenants' jobs, auctions their tasks and sees each job
// through to its settlement.
//
// It has no rule of its own: mesh/market says who wins and who waits, mesh/plan
// what a job still needs, ledger/account what anybody is paid. All it knows of a
// job is in the ledger and in sealed blobs, so that it goes on after a restart.
package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/market"
	"idlemesh/mesh/wire"
)

// Blobs keeps what tenants upload; *blob.Store is one.
type Blobs interface {
	// PutAll stores blobs, durably, and keeps them until then.
	PutAll(until record.Millis, blobs ...[]byte) ([]record.Ref, error)
	// Bytes returns a blob of at most max bytes.
	Bytes(ref record.Ref, max int64) ([]byte, error)
	// Size returns how long a blob that is here is.
	Size(ref record.Ref) (int64, bool)
	// Fetch brings a blob here from one of its holders.
	Fetch(ctx context.Context, ref record.Ref, size int64, progress func(int64), holders ...record.NodeID) error
	// PinAll keeps blobs at least until then.
	PinAll(until record.Millis, refs ...record.Ref) error
}

// Config shapes a Gateway.
type Config struct {
	// Required.
	Key    identity.Key
	Mesh   record.Mesh
	Open   wire.Opener
	Author *author.Author
	Blobs  Blobs

	// RTT returns the round trip to a peer as this node's connections measure it.
	// Nil means that it is unknown.
	RTT func(record.NodeID) (time.Duration, bool)
	// Patience is how long a job whose needs nobody meets waits for a provider
	// after the gateway has started. Zero means 15 seconds.
	Patience time.Duration
	// Quota is how many bytes are kept for one account: its uploads, and what its jobs
	// name and leave. Zero means 5 GiB.
	Quota int64
	// Now tells the time. Nil means time.Now.
	Now func() time.Time
	// Log receives events. Nil means slog.Default().
	Log *slog.Logger
}

// A Gateway is safe for concurrent use.
type Gateway struct {
	cfg     Config
	keepers *wire.Keepers
	sealer  *identity.Sealer
	opener  *identity.Opener
	kick    chan struct{}
	ready   chan struct{} // closed once the log's jobs are known
	work    sync.WaitGroup

	offered chan struct{} // closed at the first advert
	met     func()        // closes offered, once
	patient record.Millis // until then a gateway without adverts waits for one

	mu       sync.Mutex
	book     *market.Book
	jobs     map[record.Ref]*job
	live     map[record.Ref]bool   // those that have not ended
	leases   map[record.Ref]tenure // that run
	debts    []debt                // outputs that are still to be fetched
	shelves  map[record.NodeID]*shelf
	past     []past // jobs that have ended, the first to be forgotten in front
	pastSize int    // tasks of theirs
	loads    map[record.NodeID]load
	offers   map[record.NodeID]record.Advert
	grants   map[record.Ref]grant // by blob
	takes    grant                // from whom uploads are taken
	life     context.Context      // Run's; nil before it
	closed   bool                 // nothing begins any more
}

// New returns a gateway of c.Mesh.
func New(c Config) (*Gateway, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.RTT == nil {
		c.RTT = func(record.NodeID) (time.Duration, bool) { return 0, false }
	}
	c.Patience = cmp.Or(c.Patience, 15*time.Second)
	c.Quota = cmp.Or(c.Quota, 5<<30)
	c.Log = cmp.Or(c.Log, slog.Default())
	opener, err := identity.NewOpener(c.Key)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	offered := make(chan struct{})
	return &Gateway{cfg: c, keepers: wire.KeepersOf(c.Mesh, c.Open, c.Key.ID()), sealer: identity.NewSealer(), opener: opener, kick: make(chan struct{}, 1), ready: make(chan struct{}),
		offered: offered, met: sync.OnceFunc(func() { close(offered) }), patient: record.At(c.Now().Add(c.Patience)),
		book: market.NewBook(c.Mesh.Params, record.Span(c.Patience)), jobs: map[record.Ref]*job{}, live: map[record.Ref]bool{},
		leases: map[record.Ref]tenure{}, shelves: map[record.NodeID]*shelf{}, loads: map[record.NodeID]load{}, offers: map[record.NodeID]record.Advert{}, grants: map[record.Ref]grant{}, takes: grant{}}, nil
}

// Register answers a gateway's verbs.
func (g *Gateway) Register(m *wire.Mux) {
	wire.Handle(m, wire.Submit, g.submit)
	wire.HandleStream(m, wire.Watch, g.watch)
	wire.HandleStream(m, wire.Jobs, g.list)
	wire.HandleStream(m, wire.Tasks, g.tasks)
	wire.Handle(m, wire.Cancel, g.cancel)
	wire.Handle(m, wire.Quote, g.quote)
	wire.Handle(m, wire.Advertise, g.advertise)
	wire.HandleStream(m, wire.Nodes, g.nodes)
}

// Owner returns who owns a job; it is the Mux's Owner.
func (g *Gateway) Owner(ctx context.Context, ref record.Ref) (record.NodeID, error) {
	if err := g.await(ctx); err != nil {
		return record.NodeID{}, err
	}
	g.mu.Lock()
	j := g.jobs[ref]
	g.mu.Unlock()
	if j != nil {
		return j.signed.By(), nil
	}
	return g.ownerOf(ctx, ref)
}

// await returns once the jobs of the log are known.
func (g *Gateway) await(ctx context.Context) error {
	select {
	case <-g.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run takes up the jobs that the log has open, and places tasks until ctx ends; then
// it waits for those in hand.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.drain()
	g.mu.Lock()
	g.life = ctx
	g.mu.Unlock()
	if err := g.recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was stopped before it knew its jobs
		}
		return err
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	swept := g.now()
	for {
		if now := g.now(); now >= swept+60_000 {
			swept = now
			g.sweep(now)
		}
		g.turn(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-g.kick:
		case <-tick.C:
			g.review()
		}
	}
}

// drain returns once nothing is in hand, and lets nothing begin.
func (g *Gateway) drain() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.work.Wait()
}

// openLocked reports whether something may begin.
func (g *Gateway) openLocked() bool { return g.life != nil && g.life.Err() == nil && !g.closed }

// spawnLocked runs f until it returns or the gateway closes; the caller has seen
// openLocked.
func (g *Gateway) spawnLocked(f func(context.Context)) {
	ctx := g.life
	g.work.Go(func() { f(ctx) })
}

// sweep forgets what has expired.
func (g *Gateway) sweep(now record.Millis) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expireLocked(now)
	g.clearLocked(now)
	g.collectLocked(now)
	for len(g.past) > 0 && g.past[0].at+keepEnded < now {
		g.forgetLocked()
	}
	for id, until := range g.takes {
		if until < now {
			delete(g.takes, id)
		}
	}
	for id, a := range g.offers {
		if a.Expires < now {
			delete(g.offers, id)
		}
	}
}

// turn carries out what the market says must be done now.
func (g *Gateway) turn(ctx context.Context) {
	g.mu.Lock()
	steps := g.book.Next(g.now())
	g.mu.Unlock()
	for _, s := range steps {
		g.work.Go(func() { g.place(ctx, s) })
	}
}

// open lists the jobs that have not ended.
func (g *Gateway) open() []*job {
	g.mu.Lock()
	defer g.mu.Unlock()
	var open []*job
	for ref := range g.live {
		open = append(open, g.jobs[ref])
	}
	return open
}

// review looks after the jobs that wait for a time to come: a back-off, their end.
func (g *Gateway) review() {
	for _, j := range g.open() {
		g.want(j)
	}
}

// Busy reports how many jobs have not ended.
func (g *Gateway) Busy() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.live)
}

func (g *Gateway) now() record.Millis { return record.At(g.cfg.Now()) }

func (g *Gateway) wake() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}
