// Package node assembles a node from its roles and runs it.
//
// It has no rule and no step of a job: it opens what roles need, registers their
// verbs behind the one authorisation table, and waits for them. An embedded mesh,
// `meshctl dev` and a mesh of many machines are made of the same Nodes.
package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"idlemesh/ledger"
	"idlemesh/ledger/quorum"
	"idlemesh/ledger/record"
	"idlemesh/mesh"
	"idlemesh/mesh/author"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/gateway"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/keeper"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/provider"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

// Config says which roles a node plays, and with what.
type Config struct {
	// Dir holds the node's files: ledger, blobs, compiled modules. Empty means the
	// working directory.
	Dir string
	// Gateway, Provider and Keeper are the roles.
	Gateway, Provider, Keeper bool
	// Policy is the provider's, and Sensor watches its device.
	Policy policy.Policy
	Sensor provider.Sensor
	// Gauge is how long a device that was not measured may be, as provider.Config has it.
	Gauge time.Duration
	// Operator may take the provider's device back. The node's own key always may.
	Operator record.NodeID
	// Workers shapes the pool of worker processes.
	Workers sandbox.Config
	// Ledger shapes the keeper's ledger.
	Ledger ledger.Config
	// Heartbeat is how long the keeper that leads may be silent, as quorum.Config has it.
	Heartbeat time.Duration
	// Packets carries QUIC. Nil means UDP at Listen.
	Packets net.PacketConn
	// Listen is a UDP address. Empty means loopback, any port.
	Listen string
	// Addrs overrides the mesh file's addresses, host:port.
	Addrs map[record.NodeID]string
	// Patience is how long a job waits for a first provider after a start, as
	// gateway.Config has it.
	Patience time.Duration
	// Quota is how many bytes a gateway keeps for one account, as gateway.Config has it.
	Quota int64
	// Version is what Status says.
	Version string
	// Now tells the time. Nil means time.Now.
	Now func() time.Time
	// Log receives events. Nil means slog.Default().
	Log *slog.Logger
}

// BenchFile is where in a node's folder it keeps what was measured of its device.
const BenchFile = "bench.cbor"

// A Node is one member of a mesh.
type Node struct {
	cfg     Config
	key     identity.Key
	mesh    record.Signed[record.Mesh]
	end     *mesh.Endpoint
	blobs   *blob.Store
	author  *author.Author
	pool    *sandbox.Pool
	mux     wire.Mux
	gate    *gateway.Gateway
	seller  *provider.Provider
	keeping *keeper.Keeper
	quorum  *quorum.Member // where there are several keepers
	runs    []func(context.Context) error
	closers []func() error
	since   record.Millis
	ready   chan struct{}

	mu   sync.Mutex
	busy time.Time // last seen busy
}

// Open assembles the node of key in mesh m. Run it: that also closes it. Errors of the
// ledger, of the blob store and of the socket come as they are.
func Open(key identity.Key, m record.Signed[record.Mesh], c Config) (*Node, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	n := &Node{cfg: c, key: key, mesh: m, since: record.At(c.Now()), busy: c.Now(), ready: make(chan struct{})}
	for _, step := range []func() error{n.connect, n.store, n.keep, n.admit, n.sell} {
		if err := step(); err != nil {
			n.close()
			return nil, fmt.Errorf("open node: %w", err)
		}
	}
	wire.Handle(&n.mux, wire.Status, n.status)
	wire.Handle(&n.mux, wire.MeshFile, func(context.Context, wire.Caller, wire.MeshRequest) (wire.MeshReply, error) {
		return wire.MeshReply{File: n.mesh}, nil
	})
	return n, nil
}

// ID names the node.
func (n *Node) ID() record.NodeID { return n.key.ID() }

// Addr is where the node listens.
func (n *Node) Addr() net.Addr { return n.end.Addr() }

// Ready is closed once the node answers.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Run serves until ctx ends, then waits for every role and worker and closes what Open
// opened.
func (n *Node) Run(ctx context.Context) error {
	// Roles say goodbye to their peers, so the socket goes last.
	serving, shut := context.WithCancel(context.WithoutCancel(ctx))
	defer shut()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return n.end.Serve(serving, n.handlers())
	})
	var roles sync.WaitGroup
	for _, run := range n.runs {
		roles.Add(1)
		g.Go(func() error {
			defer roles.Done()
			return run(ctx)
		})
	}
	close(n.ready)
	<-ctx.Done()
	roles.Wait()
	shut()
	err := g.Wait()
	n.close()
	return err
}

func (n *Node) close() {
	for i := len(n.closers) - 1; i >= 0; i-- {
		if err := n.closers[i](); err != nil {
			n.cfg.Log.Warn("close", "err", err)
		}
	}
	n.closers = nil
}

func (n *Node) connect() error {
	pc := n.cfg.Packets
	if pc == nil {
		var err error
		if pc, err = net.ListenPacket("udp", cmp.Or(n.cfg.Listen, "127.0.0.1:0")); err != nil {
			return err
		}
	}
	cert, err := n.key.Certificate()
	if err != nil {
		return err
	}
	if n.end, err = mesh.New(pc, cert, mesh.Config{Protocols: n.protocols(), Log: n.cfg.Log}); err != nil {
		pc.Close()
		return err
	}
	n.closers = append(n.closers, n.end.Close)
	m := n.mesh.Value
	for _, x := range append(m.Gateways[:len(m.Gateways):len(m.Gateways)], m.Keepers...) {
		id := x.Key.ID()
		if addr := cmp.Or(n.cfg.Addrs[id], x.Addr); addr != "" && id != n.ID() {
			n.end.Learn(id, mesh.Host(addr))
		}
	}
	n.mux.Roles = func(id record.NodeID) wire.Role {
		if id == n.ID() || id == n.cfg.Operator {
			return wire.RolesIn(m, id) | wire.Operator
		}
		return wire.RolesIn(m, id)
	}
	n.author = author.New(n.key, n.end, m)
	return nil
}

// serve answers a stream, and notes that somebody is there.
func (n *Node) serve(ctx context.Context, from record.NodeID, s io.ReadWriteCloser) {
	n.touch()
	n.mux.Serve(ctx, from, s)
	n.touch()
}

func (n *Node) touch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = n.cfg.Now()
}

func (n *Node) store() (err error) {
	n.blobs, err = blob.Open(filepath.Join(n.cfg.Dir, "blobs"), n.end, blob.Config{May: n.may, Room: n.room, Now: n.cfg.Now, Log: n.cfg.Log})
	if err != nil {
		return err
	}
	n.closers = append(n.closers, n.blobs.Close)
	n.runs = append(n.runs, n.sweep)
	return nil
}

// sweep drops blobs whose time is over.
func (n *Node) sweep(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := n.blobs.Sweep(record.At(n.cfg.Now())); err != nil {
				n.cfg.Log.Warn("sweep blobs", "err", err)
			}
		}
	}
}

// may is the blobs' part of the authorisation table: a gateway says who may upload, each role
// says who may fetch what.
func (n *Node) may(peer record.NodeID, ref record.Ref, write bool) bool {
	if write {
		return n.gate != nil && n.gate.MayWrite(peer)
	}
	return n.seller != nil && n.seller.MayRead(peer, ref) || n.gate != nil && n.gate.MayRead(peer, ref)
}

// room is whether a peer may send so much more.
func (n *Node) room(peer record.NodeID, ref record.Ref, size int64) bool {
	return n.gate != nil && n.gate.MayStore(peer, ref, size)
}
