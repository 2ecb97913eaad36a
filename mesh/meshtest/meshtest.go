// Package meshtest runs whole meshes in one test: real nodes, real QUIC on simulated
// packets, workers in process, ledgers in memory. In a synctest bubble their time is
// virtual, so that a test of a minute's silence takes no minute.
//
// Only tests import it.
package meshtest

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/quic-go/quic-go/testutils/simnet"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
	"idlemesh/sandbox/worker"
)

// A Mesh is a gateway that is also keeper, and providers; and more keepers, if it has
// any. Its tenant is also the mint.
type Mesh struct {
	File    record.Signed[record.Mesh]
	Tenant  identity.Key
	Gate    *Node
	Sellers []*Node
	Keepers []*Node // but the gateway

	t   *testing.T
	net fabric
}

// A Node is one of the mesh's, running or stopped.
type Node struct {
	Key identity.Key
	// Config is what Start gives the node; change it while the node is stopped.
	Config node.Config
	// Delay is what a packet to the node takes. Zero means 5 ms.
	Delay time.Duration
	*node.Node

	mesh *Mesh
	addr *net.UDPAddr
	stop func()
}

// New returns a running mesh with a provider for each of sellers, whose roles and
// files New fills in. The test's end stops it.
func New(t *testing.T, sellers ...*Node) *Mesh {
	t.Helper()
	return NewQuorum(t, 1, sellers...)
}

// NewQuorum returns a mesh with so many keepers, one of which is the gateway.
func NewQuorum(t *testing.T, keepers int, sellers ...*Node) *Mesh {
	t.Helper()
	m := &Mesh{t: t, Tenant: NewKey(t), Sellers: sellers, Gate: &Node{Key: NewKey(t)}}
	m.Gate.Config.Gateway = true
	for range keepers - 1 {
		m.Keepers = append(m.Keepers, &Node{Key: NewKey(t)})
	}
	m.found()
	for _, k := range append([]*Node{m.Gate}, m.Keepers...) {
		k.Config.Keeper, k.Config.Ledger.FS = true, vfs.NewMem()
		m.prepare(k)
	}
	for _, k := range append([]*Node{m.Gate}, m.Keepers...) {
		m.begin(k)
	}
	for _, s := range sellers {
		s.Key, s.Config.Provider = NewKey(t), true
		m.Add(s)
	}
	return m
}

// found makes the mesh file. A guest's work is dear, so that little of it shows.
func (m *Mesh) found() {
	m.t.Helper()
	f, err := node.Solo(m.Gate.Key, m.Tenant.PublicKey(), time.Now())
	if err != nil {
		m.t.Fatal(err)
	}
	f.Value.Params.GuestDiv, f.Value.Params.Reserve = 1, Price
	for _, k := range m.Keepers {
		f.Value.Keepers = append(f.Value.Keepers, record.Member{Key: k.Key.PublicKey()})
	}
	f.Value.Quorum = uint8(len(f.Value.Keepers)/2 + 1)
	if m.File, err = record.Sign(m.Gate.Key, f.Value); err != nil {
		m.t.Fatal(err)
	}
}

// Price is the mesh's ceiling per hour of reference-GPU work: a millisecond of a guest
// costs up to 277 µcredits.
const Price = 1000 * record.Credit

// Seller returns the provider of that name.
func (m *Mesh) Seller(id record.NodeID) *Node {
	m.t.Helper()
	for _, s := range m.Sellers {
		if s.Key.ID() == id {
			return s
		}
	}
	m.t.Fatalf("%s is not a provider here", id.Short())
	return nil
}

// NewKey returns a fresh key.
func NewKey(t testing.TB) identity.Key {
	t.Helper()
	k, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Add starts one more node.
func (m *Mesh) Add(n *Node) {
	m.t.Helper()
	m.prepare(n)
	m.begin(n)
}

func (m *Mesh) prepare(n *Node) {
	m.t.Helper()
	n.mesh, n.addr, n.Delay = m, m.net.addr(), cmp.Or(n.Delay, 5*time.Millisecond)
	n.Config.Dir = m.t.TempDir()
	n.Config.Workers.Start = worker.InProcess
	n.Config.Workers.Device = cmp.Or(n.Config.Workers.Device, "sim:rtx4090")
	n.Config.Log = slog.New(slog.NewTextHandler(logWriter{m.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (m *Mesh) begin(n *Node) {
	n.Start()
	m.t.Cleanup(n.Stop)
}

type logWriter struct{ *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.Log(string(bytes.TrimSpace(b)))
	return len(b), nil
}

// Start starts the node; it has the files, and the address, of the last time.
func (n *Node) Start() {
	m := n.mesh
	m.t.Helper()
	n.Config.Packets = m.net.socket(m.t, n.addr, n.Delay)
	n.Config.Addrs = m.addrs()
	var err error
	if n.Node, err = node.Open(n.Key, m.File, n.Config); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Error(err)
		}
	})
}

// Stop stops the node and waits for it. A node that is cut off stops like one that was
// killed, for nobody hears of it.
func (n *Node) Stop() { n.stop() }

// Cut takes the node off the network, or puts it back.
func (n *Node) Cut(cut bool) { n.mesh.net.cutOff(n.addr, cut) }

func (m *Mesh) addrs() map[record.NodeID]string {
	all := map[record.NodeID]string{m.Gate.Key.ID(): m.Gate.addr.String()}
	for _, k := range m.Keepers {
		all[k.Key.ID()] = k.addr.String()
	}
	return all
}

// Rich returns the client of the tenant, who has five thousand credits, once every
// provider has advertised.
func (m *Mesh) Rich() *client.Client {
	m.t.Helper()
	c := m.Client(m.Tenant)
	if _, err := c.Deposit(m.t.Context(), c.ID(), 5*Price, "test"); err != nil {
		m.t.Fatal(err)
	}
	time.Sleep(time.Second)
	return c
}

// Verify stops every keeper and checks its ledger from the entries alone.
func (m *Mesh) Verify() {
	m.t.Helper()
	for _, k := range append([]*Node{m.Gate}, m.Keepers...) {
		k.Stop()
		m.verify(k.Config)
	}
}

func (m *Mesh) verify(c node.Config) {
	m.t.Helper()
	l, err := ledger.OpenReadOnly(filepath.Join(c.Dir, "ledger"), m.File, ledger.Config{FS: c.Ledger.FS, Log: c.Log})
	if err != nil {
		m.t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Verify(m.t.Context(), nil); err != nil {
		m.t.Errorf("verify: %v", err)
	}
}

// Client returns a party's client, who knows the addresses of the gateway and of the nodes
// named. The test's end closes it.
func (m *Mesh) Client(key identity.Key, nodes ...*Node) *client.Client {
	m.t.Helper()
	addrs := m.addrs()
	for _, n := range nodes {
		addrs[n.Key.ID()] = n.addr.String()
	}
	c, err := client.Dial(m.t.Context(), key, m.File, client.Config{Packets: m.net.socket(m.t, m.net.addr(), 5*time.Millisecond), Addrs: addrs})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	return c
}

// A fabric is a network of which nodes may be cut off.
type fabric struct {
	simnet.PerfectRouter
	mu   sync.RWMutex // held for reading while a packet passes
	last byte
	cut  map[string]bool
}

// SendPacket implements simnet.Router. Who has no such address never answers.
func (f *fabric) SendPacket(p simnet.Packet) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !f.cut[p.From.String()] && !f.cut[p.To.String()] {
		_ = f.PerfectRouter.SendPacket(p)
	}
	return nil
}

func (f *fabric) cutOff(a net.Addr, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut == nil {
		f.cut = map[string]bool{}
	}
	f.cut[a.String()] = cut
}

func (f *fabric) addr() *net.UDPAddr {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	return &net.UDPAddr{IP: net.IPv4(10, 0, 0, f.last).To4(), Port: 4433}
}

func (f *fabric) socket(t *testing.T, a *net.UDPAddr, delay time.Duration) net.PacketConn {
	t.Helper()
	n := &simnet.Simnet{Router: f} // of its own, since it starts its links all at once
	f.mu.Lock()                    // no packet may reach the link before it is started
	c := n.NewEndpoint(a, simnet.NodeBiDiLinkSettings{Latency: delay})
	err := n.Start()
	f.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return c
}
