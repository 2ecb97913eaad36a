package quorum_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/quorum"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

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

// A club is the keepers of one mesh in one process, on streams in memory.
type club struct {
	t    testing.TB
	mint ed25519.PrivateKey
	mesh record.Signed[record.Mesh]
	all  []*seat

	mu  sync.Mutex
	cut map[*seat]bool // from all others
}

// A seat is a keeper that is started and stopped.
type seat struct {
	club *club
	key  ed25519.PrivateKey
	id   record.NodeID
	fs   vfs.FS
	dir  string
	skew atomic.Int64                            // of its clock
	lie  func(to record.NodeID, b []byte) []byte // what it sends in place of b; guarded by club.mu

	ledger *ledger.Ledger
	member *quorum.Member
	stop   func() error // nil while it is down
}

func newClub(t testing.TB, n int) *club {
	c := &club{t: t, mint: newKey(100), cut: map[*seat]bool{}}
	m := record.Mesh{Name: "test", Quorum: uint8(n/2 + 1), Mint: public(c.mint), Params: record.DefaultParams()}
	m.Params.DailyMint = 1e9 * record.Credit
	for i := range n {
		key := newKey(byte(i + 1))
		m.Keepers = append(m.Keepers, record.Member{Key: public(key)})
		c.all = append(c.all, &seat{club: c, key: key, id: public(key).ID(), fs: vfs.NewMem(), dir: "keeper"})
	}
	c.mesh = must(record.Sign(c.all[0].key, m))
	t.Cleanup(func() {
		for _, s := range c.all {
			s.end()
		}
	})
	return c
}

func (c *club) start() *club {
	c.t.Helper()
	for _, s := range c.all {
		s.start()
	}
	return c
}

// Heartbeats of a test are slow: its machine may be busy.
const heartbeat = 500 * time.Millisecond

func (s *seat) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

func (s *seat) start() {
	s.club.t.Helper()
	if err := s.tryStart(); err != nil {
		s.club.t.Fatal(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func logTo() *slog.Logger {
	if os.Getenv("IDLEMESH_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	}
	return quiet
}

func (s *seat) tryStart() (err error) {
	log := logTo().With("keeper", s.id.Short()[:4])
	if s.ledger, err = ledger.Open(s.dir+"/ledger", s.club.mesh, s.key, ledger.Config{FS: s.fs, Now: s.now, Log: log, MinFree: 1}); err != nil {
		return err
	}
	s.member, err = quorum.Open(s.dir+"/quorum", quorum.Config{Ledger: s.ledger, Key: s.key, Mesh: s.club.mesh, Open: s.open,
		FS: s.fs, Heartbeat: heartbeat, Trailing: 16, MinFree: 1, Now: s.now, Log: log})
	if err != nil {
		return errors.Join(err, s.ledger.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.member.Run(ctx) }()
	m, l := s.member, s.ledger
	s.club.mu.Lock()
	defer s.club.mu.Unlock()
	s.stop = func() error {
		cancel()
		return errors.Join(<-done, m.Close(), l.Close())
	}
	return nil
}

// end stops the keeper, if it runs.
func (s *seat) end() {
	s.club.t.Helper()
	s.club.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.club.mu.Unlock()
	if stop == nil {
		return
	}
	if err := stop(); err != nil {
		s.club.t.Errorf("stop keeper: %v", err)
	}
}

func (c *club) reach(from, to record.NodeID) (*seat, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var dest *seat
	for _, s := range c.all {
		if s.id == from && c.cut[s] || s.id == to && c.cut[s] {
			return nil, false
		}
		if s.id == to && s.stop != nil {
			dest = s
		}
	}
	return dest, dest != nil
}

// open is the stream to another keeper.
func (s *seat) open(ctx context.Context, to record.NodeID) (io.ReadWriteCloser, error) {
	dest, ok := s.club.reach(s.id, to)
	if !ok {
		return nil, errors.New("no path to peer")
	}
	here, there := net.Pipe()
	m := dest.member
	go m.Serve(context.WithoutCancel(ctx), s.id, there)
	return &link{here, s, to}, nil
}

// A link ends when one of its ends is cut off.
type link struct {
	net.Conn
	from *seat
	to   record.NodeID
}

func (l *link) Write(p []byte) (int, error) {
	if _, ok := l.from.club.reach(l.from.id, l.to); !ok {
		return 0, errors.New("cut off")
	}
	l.from.club.mu.Lock()
	lie := l.from.lie
	l.from.club.mu.Unlock()
	if lie != nil {
		p = lie(l.to, p)
	}
	return l.Conn.Write(p)
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if _, ok := l.from.club.reach(l.from.id, l.to); !ok {
		return 0, errors.New("cut off")
	}
	return n, err
}

// An author writes deposits in order, and again until he knows their fate.
type author struct {
	c   *club
	key ed25519.PrivateKey
	seq uint64
	to  byte
}

func (c *club) author() *author { return &author{c: c, key: c.mint, to: 1} }

func (a *author) next(n int) []record.Raw {
	var raws []record.Raw
	for range n {
		idem := record.Ref(sha256.Sum256(binary.BigEndian.AppendUint64([]byte{a.to}, a.seq)))
		raws = append(raws, must(record.Sign(a.key, record.Entry{V: 1, Kind: record.TypeDeposit, Seq: a.seq, Idem: idem,
			Deposit: &record.Deposit{To: record.NodeID{a.to}, Amount: 1, External: fmt.Sprint(a.seq)}})).Raw())
		a.seq++
	}
	return raws
}

// append orders a batch through whoever leads, again and again until its fate is known.
func (c *club) append(raws []record.Raw) []ledger.Outcome {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s := c.leader()
		if s == nil {
			continue
		}
		outs, err := s.member.Order(context.Background(), raws)
		if err == nil {
			return outs
		}
		if !errors.Is(err, quorum.ErrNoLeader) && !errors.As(err, new(*quorum.NotLeaderError)) {
			c.t.Fatalf("order: %v", err)
		}
	}
	c.t.Fatal("nobody ordered the batch within 30 s")
	return nil
}

// leader returns a keeper that runs and thinks that it leads, or nil.
func (c *club) leader() *seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		if s.stop != nil && !c.cut[s] {
			if id, ok := s.member.Leader(); ok && id == s.id {
				return s
			}
		}
	}
	return nil
}

// until waits for what must come.
func (c *club) until(what string, f func() bool) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if f() {
			return
		}
	}
	c.t.Fatalf("never: %s", what)
}

// same waits until all keepers that run have size entries, and compares their logs.
func (c *club) same(size uint64) {
	c.t.Helper()
	var root record.Ref
	for _, s := range c.all {
		if s.stop == nil {
			continue
		}
		var h tree.Head
		c.until(fmt.Sprintf("%d entries", size), func() (ok bool) {
			var err error
			h, err = s.ledger.HeadAt(size)
			return err == nil
		})
		if root == (record.Ref{}) {
			root = h.Root
		}
		if h.Root != root {
			c.t.Errorf("keeper %s has another log of %d entries", s.id.Short(), size)
		}
	}
}

func good(t testing.TB, outs []ledger.Outcome) uint64 {
	t.Helper()
	for i, o := range outs {
		if o.Err != nil {
			t.Fatalf("entry %d: %v", i, o.Err)
		}
	}
	return outs[len(outs)-1].Index
}

// TestThree: three keepers form a quorum, commit, and prove under a head that two have
// signed.
func TestThree(t *testing.T) { synctest.Test(t, testThree) }

func testThree(t *testing.T) {
	c := newClub(t, 3).start()
	a := c.author()
	if at := good(t, c.append(a.next(1))); at != 0 {
		t.Errorf("the first entry stands at %d", at)
	}
	good(t, c.append(a.next(100)))
	c.same(101)
	for _, s := range c.all {
		p, err := s.member.Prove(t.Context(), 50)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Check(p, c.mesh); err != nil {
			t.Errorf("keeper %s: %v", s.id.Short(), err)
		}
	}
}

// virtually runs f in virtual time.
func virtually(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// TestLeaderEnds: what was acknowledged before a leader ended, or was cut off, is there
// after it, and a batch that is sent again is not applied again.
func TestLeaderEnds(t *testing.T) {
	for name, fall := range map[string]func(*club, *seat){
		"stopped": func(_ *club, s *seat) { s.end() },
		"cut off": func(c *club, s *seat) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.cut[s] = true
		},
	} {
		virtually(t, name, func(t *testing.T) {
			c := newClub(t, 3).start()
			a := c.author()
			first := a.next(10)
			good(t, c.append(first))
			old := c.leader()
			fall(c, old)
			good(t, c.append(a.next(10)))
			if next := c.leader(); next == old {
				t.Error("the old leader leads")
			}
			for i, o := range c.append(first) {
				if !o.Known || o.Index != uint64(i) {
					t.Errorf("entry %d again: %+v", i, o)
				}
			}
			c.mu.Lock()
			delete(c.cut, old)
			c.mu.Unlock()
			if old.stop == nil {
				old.start()
			}
			good(t, c.append(a.next(10)))
			c.same(30)
			for _, s := range c.all {
				if rep, err := s.ledger.Verify(t.Context(), nil); err != nil || rep.Entries != 30 {
					t.Errorf("Verify = %+v, %v", rep, err)
				}
			}
		})
	}
}

// TestFollower names the leader, and cannot order.
func TestFollower(t *testing.T) { synctest.Test(t, testFollower) }

func testFollower(t *testing.T) {
	c := newClub(t, 3).start()
	a := c.author()
	good(t, c.append(a.next(1)))
	lead := c.leader()
	for _, s := range c.all {
		if s == lead {
			continue
		}
		c.until("a leader", func() bool { _, ok := s.member.Leader(); return ok })
		_, err := s.member.Order(t.Context(), a.next(1))
		var follows *quorum.NotLeaderError
		if !errors.As(err, &follows) || follows.Leader != lead.id {
			t.Errorf("a follower ordered: %v", err)
		}
	}
}

// TestAllRestart: the order goes on where it was.
func TestAllRestart(t *testing.T) { synctest.Test(t, testAllRestart) }

func testAllRestart(t *testing.T) {
	c := newClub(t, 3).start()
	a := c.author()
	for range 3 {
		good(t, c.append(a.next(20)))
		for _, s := range c.all {
			s.end()
		}
		c.start()
	}
	good(t, c.append(a.next(1)))
	c.same(61)
}

// TestBadEntry: an entry that its bytes refuse gets its reason, and stops nobody.
func TestBadEntry(t *testing.T) { synctest.Test(t, testBadEntry) }

func testBadEntry(t *testing.T) {
	c := newClub(t, 3).start()
	a := c.author()
	raws := a.next(3)
	raws[1] = append(record.Raw(nil), raws[1]...)
	raws[1][len(raws[1])-1] ^= 1
	outs := c.append(raws)
	if outs[0].Err != nil || !errors.Is(outs[1].Err, record.ErrSignature) || !errors.Is(outs[2].Err, ledger.ErrSequence) {
		t.Errorf("outcomes %+v", outs)
	}
	outs = c.append([]record.Raw{raws[1]})
	if !errors.Is(outs[0].Err, record.ErrSignature) {
		t.Errorf("alone: %+v", outs)
	}
	c.same(1)
}

// TestLostDisk: a keeper that comes back with nothing gets a copy of the ledger and
// votes again.
func TestLostDisk(t *testing.T) { synctest.Test(t, testLostDisk) }

func testLostDisk(t *testing.T) {
	c := newClub(t, 3).start()
	a := c.author()
	for range 60 {
		good(t, c.append(a.next(5)))
	}
	lost := c.all[2]
	lost.end()
	good(t, c.append(a.next(5)))
	for _, s := range c.all[:2] {
		if err := s.member.Compact(); err != nil {
			t.Fatal(err)
		}
	}
	lost.fs = vfs.NewMem()
	lost.start()
	c.same(305)
	c.until("it votes", func() bool {
		for _, s := range lost.member.Members(t.Context()) {
			if s.ID == lost.id && s.Votes {
				return true
			}
		}
		return false
	})
	if lost.member.Index() == 0 {
		t.Error("it got all batches, no copy")
	}
	c.all[0].end() // now it takes the one that came back
	good(t, c.append(a.next(5)))
	c.same(310)
	if rep, err := lost.ledger.Verify(t.Context(), nil); err != nil || rep.Entries != 310 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}
