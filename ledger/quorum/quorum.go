// Package quorum keeps one ledger on three or five keepers: it puts batches of entries
// into one order with hashicorp/raft, over any streams, QUIC in production.
//
// Raft decides only the order. Every keeper verifies each entry before it stores it,
// applies the same batches to a ledger of its own, and signs no more than what is
// committed there. A tree head counts once a quorum of keepers has signed it, so one
// that lies is found out; a majority that lies is not, as nobody's log is safe then.
// What Order has acknowledged is on the disks of a majority.
package quorum

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// Config says what a member works with.
type Config struct {
	// Required. Ledger is the keeper's, and Key the one that it signs tree heads with;
	// Mesh names all keepers; Open opens a stream to one of them, whose other end gets
	// it by Serve. Streams should have the deadlines of a net.Conn.
	Ledger *ledger.Ledger
	Key    crypto.Signer
	Mesh   record.Signed[record.Mesh]
	Open   func(ctx context.Context, to record.NodeID) (io.ReadWriteCloser, error)

	// FS holds the files. Nil means the disk.
	FS vfs.FS
	// Heartbeat is how long a leader may be silent before another is elected. Zero
	// means 300 ms; keepers that are far apart need more.
	Heartbeat time.Duration
	// Stall is how long a leader that cannot commit goes on leading. Zero means 5 s.
	Stall time.Duration
	// Trailing is how many batches are kept for keepers that were away; those that
	// missed more get a copy of the ledger. Zero means 2048.
	Trailing uint64
	// MinFree is the disk space in bytes below which batches are refused. Zero means
	// 64 MiB.
	MinFree uint64
	// Now tells the time by which batches are stamped and judged. Nil means time.Now.
	Now func() time.Time
	// Log receives events. Nil means slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Heartbeat = cmp.Or(c.Heartbeat, 300*time.Millisecond)
	c.Stall = cmp.Or(c.Stall, 5*time.Second)
	c.Trailing = cmp.Or(c.Trailing, 2048)
	c.MinFree = cmp.Or(c.MinFree, 64<<20)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// Errors that callers branch on.
var (
	// ErrNoLeader is returned while nobody leads, or when the leader was lost under a
	// batch: its fate is unknown, so append it again, under the same idempotency keys.
	ErrNoLeader = fmt.Errorf("%w: no keeper leads", ledger.ErrUnordered)
	// ErrClock is returned where a batch's time and a keeper's clock are more than 30 s
	// apart.
	ErrClock = errors.New("ledger time and the keeper's clock are too far apart")
	// ErrMember is returned for a change of the members that cannot be.
	ErrMember = errors.New("keepers cannot be changed so")
)

// A NotLeaderError is returned by a keeper that follows: ask the leader. It is a
// ledger.ErrUnordered.
type NotLeaderError struct{ Leader record.NodeID }

// Error names the leader.
func (e *NotLeaderError) Error() string {
	return "this keeper follows; " + e.Leader.Short() + " leads"
}

// Unwrap returns ledger.ErrUnordered.
func (e *NotLeaderError) Unwrap() error { return ledger.ErrUnordered }

// A Member is one keeper's part in the quorum. It is a ledger.Orderer, and safe for
// concurrent use.
type Member struct {
	cfg    Config
	dir    string
	id     record.NodeID
	name   name
	logs   *store
	snaps  *snapshots
	layer  *layer
	fsm    *machine
	heads  heads
	killed chan struct{} // closed when this member must stop, with why

	mu   sync.Mutex
	raft *raft.Raft // while Run runs
	term uint64     // in which this keeper led and had applied all before it
	why  error

	conflicts int // seen since the start
}

// Open opens what a member keeps in dir. Run it, then Close it.
func Open(dir string, c Config) (*Member, error) {
	c = c.withDefaults()
	m := &Member{cfg: c, dir: dir, killed: make(chan struct{})}
	if err := m.open(dir); err != nil {
		return nil, fmt.Errorf("open quorum %s: %w", dir, errors.Join(err, m.Close()))
	}
	return m, nil
}

func (m *Member) open(dir string) (err error) {
	id, err := keeperOf(m.cfg.Mesh.Value, m.cfg.Key)
	if err != nil {
		return err
	}
	m.id = id
	if err := m.cfg.FS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if m.logs, err = openStore(m.cfg.FS, m.cfg.FS.PathJoin(dir, "log"), m.cfg.MinFree, m.cfg.Log); err != nil {
		return err
	}
	born, err := m.logs.born()
	if err != nil {
		return err
	}
	m.name = name{m.id, born}
	m.layer = newLayer(m.name, m.cfg)
	m.fsm = newMachine(m.cfg, m.halt)
	m.heads.init(m.cfg.Ledger)
	if m.snaps, err = openSnapshots(m.cfg, dir, m.Head); err != nil {
		return err
	}
	return m.whole()
}

// whole refuses a log that has lost batches which the ledger has. One that is empty is
// a new life; see name.
func (m *Member) whole() error {
	last, err := m.logs.LastIndex()
	if err != nil {
		return err
	}
	if last = max(last, m.snaps.index()); last > 0 && last < m.cfg.Ledger.Mark() {
		return fmt.Errorf("%w: the keepers' log ends at %d, the ledger is at %d; move the folder away: this keeper then joins anew",
			ledger.ErrCorrupt, last, m.cfg.Ledger.Mark())
	}
	return nil
}

// Close closes the files. Run must have returned.
func (m *Member) Close() error {
	if m.logs == nil {
		return nil
	}
	return m.logs.close()
}

// Run takes part until ctx ends; a leader then hands over first. An error means that
// this keeper cannot go on, such as for want of a working disk.
func (m *Member) Run(ctx context.Context) error {
	trans := newGate(m)
	r, err := raft.NewRaft(m.raftConfig(), m.fsm, cached(m.logs), m.logs, m.snaps, trans)
	if err != nil {
		return fmt.Errorf("quorum: %w", errors.Join(err, trans.close()))
	}
	m.set(r)
	working, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	g, working := errgroup.WithContext(working)
	for _, f := range []func(context.Context){trans.run, m.cosign, m.join, m.tend} {
		g.Go(func() error { f(working); return nil })
	}
	select {
	case <-ctx.Done():
		if r.State() == raft.Leader {
			_ = r.LeadershipTransfer().Error() // or the others elect one
		}
	case <-m.killed:
	}
	m.set(nil)
	m.fsm.stop()
	err = r.Shutdown().Error()
	done()
	_ = g.Wait() // they return nothing
	return errors.Join(m.broken(), err, trans.close())
}

func (m *Member) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = m.name.server()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = m.cfg.Heartbeat, m.cfg.Heartbeat, m.cfg.Heartbeat
	c.CommitTimeout = 20 * time.Millisecond
	c.MaxAppendEntries, c.BatchApplyCh = maxAppend, true
	c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = m.cfg.Trailing, 2*m.cfg.Trailing, time.Minute
	c.NoSnapshotRestoreOnStart = true // the ledger is durable itself
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	c.Logger = logger(m.cfg.Log)
	return c
}

func (m *Member) set(r *raft.Raft) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.raft = r
}

func (m *Member) running() *raft.Raft {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.raft
}

// halt ends this member's part for good.
func (m *Member) halt(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why == nil {
		m.why = why
		m.cfg.Log.Error("quorum: this keeper stops", "err", why)
		close(m.killed)
	}
}

func (m *Member) broken() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.why
}

// Leader returns who leads, as far as this keeper knows.
func (m *Member) Leader() (id record.NodeID, ok bool) {
	r := m.running()
	if r == nil {
		return id, false
	}
	_, server := r.LeaderWithID()
	n, err := parseName(string(server))
	return n.id, err == nil
}

// keeperOf names the keeper of m that holds key.
func keeperOf(m record.Mesh, key crypto.Signer) (record.NodeID, error) {
	for _, k := range m.Keepers {
		if signs(key, k.Key) {
			return k.Key.ID(), nil
		}
	}
	return record.NodeID{}, fmt.Errorf("%w: the mesh file does not name this key as a keeper's", ErrMember)
}
