package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger/record"
)

// The model of a history is the log's size: an append answers with the size before it, a
// read with the size. Entries are written by the clients alone.
var model = porcupine.Model{
	Init: func() any { return uint64(8) }, // the clients' funds
	Step: func(state, in, out any) (bool, any) {
		size := state.(uint64)
		if in.(string) == "read" {
			return out.(uint64) == size, size
		}
		return out.(uint64) == size, size + 1
	},
}

// fund gives credits to n clients.
func (c *club) fund(n int) (raws []record.Raw) {
	for i := range n {
		raws = append(raws, must(record.Sign(c.mint, record.Entry{V: 1, Kind: record.TypeDeposit, Seq: uint64(i), Idem: record.Ref{byte(i + 1)},
			Deposit: &record.Deposit{To: public(newKey(byte(200 + i))).ID(), Amount: 1e6, External: fmt.Sprint(i)}})).Raw())
	}
	return raws
}

// A witness notes what clients did and when.
type witness struct {
	mu    sync.Mutex
	ops   []porcupine.Operation
	at    map[uint64]record.Raw // entries by the index that was acknowledged
	gone  time.Time             // the leader, and nothing was acknowledged since
	worst time.Duration         // that nothing was acknowledged after a leader was lost
	fails int
}

func (w *witness) note(client int, op string, from time.Time, out uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.ops = append(w.ops, porcupine.Operation{ClientId: client, Input: op, Call: from.UnixNano(), Output: out, Return: now.UnixNano()})
	if op == "append" && !w.gone.IsZero() && from.After(w.gone) {
		w.worst = max(w.worst, now.Sub(w.gone))
		w.gone = time.Time{}
		w.fails++
	}
}

// client appends and reads until the end; what it appends, it appends until it knows.
func (w *witness) client(ctx context.Context, c *club, n int) {
	key := newKey(byte(200 + n))
	for seq := uint64(0); ctx.Err() == nil; seq++ {
		raw := must(record.Sign(key, record.Entry{V: 1, Kind: record.TypeTransfer, Seq: seq, Idem: record.Ref{byte(n), byte(seq), byte(seq >> 8), byte(seq >> 16), 1},
			Transfer: &record.Transfer{To: record.NodeID{1}, Amount: 1}})).Raw()
		from := time.Now()
		outs := c.append([]record.Raw{raw})
		if outs[0].Err != nil {
			c.t.Errorf("client %d: entry %d: %v", n, seq, outs[0].Err)
			return
		}
		w.note(n, "append", from, outs[0].Index)
		w.mu.Lock()
		if old := w.at[outs[0].Index]; old != nil {
			c.t.Errorf("two entries were acknowledged at %d", outs[0].Index)
		}
		w.at[outs[0].Index] = raw
		w.mu.Unlock()
		w.read(ctx, c, n)
		pause(ctx, time.Duration(rand.IntN(250))*time.Millisecond)
	}
}

// read asks any keeper that runs.
func (w *witness) read(ctx context.Context, c *club, n int) {
	c.mu.Lock()
	s := c.all[rand.IntN(len(c.all))]
	up, m, l := s.stop != nil && !c.cut[s], s.member, s.ledger
	c.mu.Unlock()
	if !up {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	from := time.Now()
	if m.Fresh(ctx) == nil {
		w.note(n, "read", from, l.Head().Size)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// crash takes a keeper's power: it is off the network at once, and of what it did not
// sync a part is lost. It comes back after a while.
func (s *seat) crash(rng *rand.Rand) {
	c := s.club
	c.mu.Lock()
	c.cut[s] = true
	left := s.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	c.mu.Unlock()
	s.end()
	time.Sleep(time.Second)
	s.fs = left
	s.start()
	c.mu.Lock()
	delete(c.cut, s)
	c.mu.Unlock()
}

// TestLeaderCrashes crashes the leader every five seconds while clients append and read:
// nothing acknowledged is lost or applied twice, and the history is linearizable. It
// takes half a minute of virtual time; IDLEMESH_MINUTES=5 takes five real ones.
func TestLeaderCrashes(t *testing.T) {
	if s := os.Getenv("IDLEMESH_MINUTES"); s != "" {
		testLeaderCrashes(t, must(time.ParseDuration(s+"m")))
		return
	}
	during := 30 * time.Second
	if testing.Short() {
		during = 18 * time.Second
	}
	synctest.Test(t, func(t *testing.T) { testLeaderCrashes(t, during) })
}

func testLeaderCrashes(t *testing.T, during time.Duration) {
	c := newClub(t, 3)
	for _, s := range c.all {
		s.fs = vfs.NewCrashableMem()
	}
	c.start()
	w := &witness{at: map[uint64]record.Raw{}}
	for i, raw := range c.fund(8) {
		if at := good(t, c.append([]record.Raw{raw})); at != uint64(i) {
			t.Fatalf("funds %d stand at %d", i, at)
		}
		w.at[uint64(i)] = raw
	}
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var clients sync.WaitGroup
	for n := range 8 {
		clients.Go(func() { w.client(ctx, c, n) })
	}
	rng := rand.New(rand.NewPCG(7, 8))
	crashes := 0
	for pause(ctx, 5*time.Second); ctx.Err() == nil; pause(ctx, 4*time.Second) {
		c.until("a leader", func() bool { return c.leader() != nil })
		s := c.leader()
		w.mu.Lock()
		w.gone = time.Now()
		w.mu.Unlock()
		s.crash(rng)
		crashes++
	}
	clients.Wait()
	size := uint64(len(w.at))
	c.same(size)
	for _, s := range c.all {
		w.check(t, s, size)
	}
	if res := porcupine.CheckOperationsTimeout(model, w.ops, time.Minute); res != porcupine.Ok {
		t.Errorf("the history of %d operations is not linearizable: %v", len(w.ops), res)
	}
	if crashes < 2 || w.fails == 0 {
		t.Errorf("%d crashes, %d of them noticed", crashes, w.fails)
	}
	t.Logf("%d crashes of the leader, %d operations, %d entries; acknowledged again after %v at most", crashes, len(w.ops), size, w.worst)
}

// check compares a keeper's log with what was acknowledged.
func (w *witness) check(t *testing.T, s *seat, size uint64) {
	t.Helper()
	if got := s.ledger.Head().Size; got != size {
		t.Errorf("keeper %s has %d entries, %d were acknowledged", s.id.Short(), got, size)
	}
	for i := range size {
		row, err := s.ledger.Entry(i)
		if err != nil || string(row.Entry) != string(w.at[i]) {
			t.Errorf("keeper %s has another entry at %d, %v", s.id.Short(), i, err)
			return
		}
	}
	if _, err := s.ledger.Verify(context.Background(), nil); err != nil {
		t.Errorf("keeper %s: %v", s.id.Short(), err)
	}
}
