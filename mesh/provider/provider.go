// Package provider sells a machine's idle windows: it advertises, bids, runs
// leases in worker processes and signs receipts.
//
// What is for sale, when and for how much is mesh/policy's to say. The agent that
// runs this package compiles no module and opens no device: it learns of the device
// from a worker.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/gpu/kernel"
	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

// Config shapes a Provider.
type Config struct {
	// Required.
	Key   identity.Key
	Mesh  record.Mesh
	Open  wire.Opener
	Blobs *blob.Store
	Pool  *sandbox.Pool

	// File is the signed mesh file, under whose keys leases are looked for in the log.
	// Zero means that they are not.
	File record.Signed[record.Mesh]
	// Dir keeps what must outlive a restart: receipts that a gateway has not settled.
	// Empty means that nothing does.
	Dir string
	// Bench is the file that keeps what was measured of the device. Empty means none.
	Bench string
	// Gauge is how long the device may be measured, about, when it is first for sale and
	// the file has nothing that holds for it. Zero means not at all: a device that was
	// not measured counts as the slowest.
	Gauge time.Duration
	// Policy is what the owner sells. The zero value sells all, always.
	Policy policy.Policy
	// Sensor watches the device. Nil means that nothing but windows and the owner's word
	// takes it back.
	Sensor Sensor
	// Now tells the time. Nil means time.Now.
	Now func() time.Time
	// Log receives events. Nil means slog.Default().
	Log *slog.Logger
}

// A Provider is safe for concurrent use.
type Provider struct {
	cfg     Config
	sealer  *identity.Sealer
	opener  *identity.Opener
	runs    sync.WaitGroup
	journal *journal
	again   chan struct{} // advertise soon: a gateway hung up, or there is news
	blind   string        // what the sensor's last new error said; watch's
	gauged  bool          // it was tried, or never will be; Run's

	mu       sync.Mutex
	life     context.Context // Run's; nil before it
	closed   bool            // nothing begins any more
	wish     policy.Wish
	claim    policy.Claim
	seen     policy.Sight
	notes    map[record.Ref]note // of leases from before a restart, as yet unasked for
	device   record.Device
	gauging  context.CancelFunc           // ends the measurement that goes on; nil while there is none
	bench    *record.Signed[record.Bench] // of it, nil while there is none
	grade    []string
	hardware string // what a bench of the device must hold for
	ran      string // versions that results depend on
	seq      uint64
	nonce    uint64
	holds    map[record.Ref]hold   // by bid
	bidding  uint32                // slots of bids that are being signed
	vram     uint64                // bytes of the device's that leases have, and bids that are being signed
	leases   map[record.Ref]*lease // running, and ended for a while
	ended    []record.Ref          // of them, the first to end in front
	running  uint32
	done     uint64
}

// A hold keeps a slot for a bid until it expires.
type hold struct {
	job     record.Signed[record.Job]
	expires record.Millis
	vram    uint64 // bytes of the device's that it promises
}

const (
	advertEvery = 10 * time.Second
	advertAgain = time.Second // after a failure
	advertLife  = 30_000      // milliseconds
	holdFor     = 2_000       // milliseconds
	ahead       = 24 * 3_600_000
)

// New returns a provider in c.Mesh.
func New(c Config) (*Provider, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Policy = whole(c.Policy)
	opener, err := identity.NewOpener(c.Key)
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	j, notes, err := openJournal(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("provider: journal of leases: %w", err)
	}
	return &Provider{cfg: c, journal: j, notes: notes, sealer: identity.NewSealer(), opener: opener, again: make(chan struct{}, 1), seen: unseen,
		holds: map[record.Ref]hold{}, leases: map[record.Ref]*lease{}}, nil
}

// Close releases the provider's files. Nothing else may be in progress.
func (p *Provider) Close() error { return p.journal.close() }

// whole fills in what a policy leaves to the node.
func whole(p policy.Policy) policy.Policy {
	p.Slots = cmp.Or(p.Slots, uint32(runtime.NumCPU()))
	return p
}

// Sell changes what the owner sells: bids and adverts follow at once, runs go on unless
// their device is his again.
func (p *Provider) Sell(s policy.Policy) {
	p.mu.Lock()
	p.cfg.Policy = whole(s)
	begun := p.life != nil
	p.mu.Unlock()
	if begun {
		p.look()
		p.hurry()
	}
}

// Register answers a provider's verbs.
func (p *Provider) Register(m *wire.Mux) {
	wire.Handle(m, wire.Solicit, p.bid)
	wire.HandleStream(m, wire.Start, p.start)
	wire.Handle(m, wire.Stop, p.stop)
	wire.Handle(m, wire.Wish, p.obey)
}

// Run advertises until ctx ends, then ends every lease and waits for it.
func (p *Provider) Run(ctx context.Context) error {
	hello, err := p.cfg.Pool.Probe(ctx)
	if ctx.Err() != nil {
		return nil // it was stopped before it sold anything
	}
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	var info kernel.Info
	if err := cbor.Unmarshal(hello.Device, &info); err != nil {
		return fmt.Errorf("provider: device: %w", err)
	}
	p.mu.Lock()
	p.life, p.grade, p.ran = ctx, hello.Layers, hello.Version
	p.device = record.Device{Model: info.Model, Backend: info.Backend, VRAM: info.VRAM, Speed: 1, Simulated: info.Simulated}
	if info.Simulated {
		p.device.Speed = info.Speed
	}
	p.hardware = hello.Hardware
	p.mu.Unlock()
	defer p.wait()
	p.look()
	var watch sync.WaitGroup
	watch.Go(func() { p.watch(ctx) })
	defer watch.Wait()
	p.cfg.Log.Debug("for sale", "device", info.Model, "simulated", info.Simulated, "ask", p.cfg.Policy.Floor, "slots", p.cfg.Policy.Slots)
	for {
		p.gauge(ctx)
		next := time.After(advertEvery)
		if !p.advertise(ctx) {
			next = time.After(advertAgain)
		}
		p.forget()
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		case <-p.again:
			select { // a gateway that restarts is not there at once
			case <-ctx.Done():
				return nil
			case <-time.After(advertAgain):
			}
		}
	}
}

// wait returns once no lease runs and those who listened know, and lets none begin.
func (p *Provider) wait() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.runs.Wait()
	p.farewell()
}

func (p *Provider) now() record.Millis { return record.At(p.cfg.Now()) }

// Offer returns what is for sale now, nil before the device is known.
func (p *Provider) Offer() *wire.Offer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return nil
	}
	now := p.now()
	var measured record.Millis
	if p.bench != nil {
		measured = p.bench.Value.At
	}
	return &wire.Offer{Measured: measured, Device: p.device, Ask: p.cfg.Policy.Floor, Region: p.cfg.Policy.Region, Tiers: p.cfg.Policy.Sells(),
		Slots: p.cfg.Policy.Slots, Leases: p.running, Open: p.openLocked(now), Windows: p.cfg.Policy.Open(now, now+ahead),
		Done: p.done, Grade: p.grade, State: p.claim.State.String(), Why: p.claim.Why}
}

func (p *Provider) openLocked(now record.Millis) bool {
	w := p.cfg.Policy.Open(now, now+1)
	return len(w) > 0 && w[0].From <= now && p.claim.State == policy.Free
}

// heldLocked counts the holds that stand, and drops the others.
func (p *Provider) heldLocked(now record.Millis) uint32 {
	for ref, h := range p.holds {
		if h.expires < now {
			delete(p.holds, ref)
		}
	}
	return uint32(len(p.holds))
}

// advertise tells every gateway what is for sale, and reports whether all heard it.
func (p *Provider) advertise(ctx context.Context) bool {
	p.mu.Lock()
	now := p.now()
	p.seq = max(p.seq+1, uint64(now)) // newer than before a restart
	a := record.Advert{
		Seq: p.seq, Expires: now + advertLife, Ask: p.cfg.Policy.Floor, Region: p.cfg.Policy.Region, Device: p.device,
		Slots: p.cfg.Policy.Slots, Windows: p.cfg.Policy.Open(now, now+ahead), Tiers: p.cfg.Policy.Sells(), Grade: p.grade, Bench: p.bench,
	}
	if p.claim.State == policy.Free {
		a.Free = a.Slots - min(a.Slots, p.running)
	}
	p.mu.Unlock()
	s, err := record.Sign(p.cfg.Key, a)
	if err != nil {
		p.cfg.Log.Error("advertise", "err", err)
		return false
	}
	var (
		wg   sync.WaitGroup
		lost atomic.Bool
	)
	for _, g := range p.cfg.Mesh.Gateways {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, advertEvery/2)
			defer cancel()
			_, err := wire.Call(ctx, p.cfg.Open, g.Key.ID(), wire.Advertise, wire.AdvertRequest{Advert: s})
			if err != nil && ctx.Err() == nil {
				p.cfg.Log.Warn("advertise", "gateway", g.Key.ID().Short(), "err", err)
				lost.Store(true)
			}
		})
	}
	wg.Wait()
	return !lost.Load()
}

// bid answers a solicitation with binding offers for two seconds, each of one slot.
func (p *Provider) bid(_ context.Context, c wire.Caller, q wire.Solicitation) (wire.BidReply, error) {
	now := p.now()
	if q.Job.Value.Delegate != c.ID {
		return wire.BidReply{}, wire.Refuse(wire.Denied, "bid: the job's tenant chose another gateway")
	}
	p.mu.Lock()
	sells := p.cfg.Policy
	p.mu.Unlock()
	if err := sells.Admit(q.Job.By(), q.Job.Value, now); err != nil {
		return wire.BidReply{}, wire.Refuse(wire.Denied, err.Error())
	}
	bids, each, err := p.hold(now, q)
	if err != nil {
		return wire.BidReply{}, err
	}
	var rep wire.BidReply
	for _, b := range bids {
		s, e := record.Sign(p.cfg.Key, b)
		p.mu.Lock()
		p.bidding--
		p.vram -= each
		if e == nil {
			p.holds[s.Ref()] = hold{job: q.Job, expires: b.Expires, vram: each}
			rep.Bids = append(rep.Bids, s)
		}
		p.mu.Unlock()
		err = errors.Join(err, e)
	}
	return rep, err
}

// hold returns the bids that free slots and memory allow, and the bytes of the device's
// memory that each promises.
func (p *Provider) hold(now record.Millis, q wire.Solicitation) ([]record.Bid, uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil || !p.openLocked(now) {
		return nil, 0, wire.Refuse(wire.Unavailable, "bid: not for sale now: "+cmp.Or(p.claim.Why, "outside its owner's windows"))
	}
	if p.gauging != nil {
		return nil, 0, wire.Refuse(wire.Unavailable, "bid: the device is being measured")
	}
	used := p.running + p.heldLocked(now) + p.bidding
	free := min(p.cfg.Policy.Slots-min(p.cfg.Policy.Slots, used), max(q.N, 1))
	if free == 0 {
		return nil, 0, wire.Refuse(wire.Unavailable, "bid: every slot is in use")
	}
	if free = min(free, p.roomLocked(q.Job.Value)); free == 0 {
		return nil, 0, wire.Refuse(wire.Unavailable, "bid: the device's memory is in use")
	}
	each := p.fraction(q.Job.Value)
	window := p.cfg.Policy.Open(now, now+ahead)[0]
	p.bidding += free
	p.vram += each * uint64(free)
	bids := make([]record.Bid, free)
	for i := range bids {
		p.nonce++
		bids[i] = record.Bid{Job: q.Job.Ref(), Device: p.device, Ask: p.cfg.Policy.Floor, Window: window,
			Expires: now + holdFor, HandBack: cmp.Or(p.cfg.Policy.HandBack, policy.HandBack), Nonce: uint64(now)<<20 | p.nonce&(1<<20-1)}
	}
	return bids, each, nil
}
