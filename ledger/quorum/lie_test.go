package quorum_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger"
	"idlemesh/ledger/quorum"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

func (s *seat) says(lie func(to record.NodeID, b []byte) []byte) {
	s.club.mu.Lock()
	defer s.club.mu.Unlock()
	s.lie = lie
}

// swap says b where it would say a.
func swap(a, b []byte) func(record.NodeID, []byte) []byte {
	return func(_ record.NodeID, p []byte) []byte { return bytes.ReplaceAll(p, a, b) }
}

// TestForgedEntry: a leader that sends an entry its author has not signed so finds
// nobody who stores it, and loses its place.
func TestForgedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClub(t, 3).start()
		a := c.author()
		good(t, c.append(a.next(5)))
		liar := c.leader()
		raws := a.next(1)
		forged := bytes.Clone(raws[0])
		forged[len(forged)-1] ^= 1
		liar.says(swap(raws[0], forged))
		if _, err := liar.member.Order(t.Context(), raws); !errors.Is(err, quorum.ErrNoLeader) {
			t.Errorf("the liar ordered: %v", err)
		}
		if at := good(t, c.append(raws)); at != 5 {
			t.Errorf("the entry stands at %d", at)
		}
		if c.leader() == liar {
			t.Error("the liar leads")
		}
		liar.says(nil)
		good(t, c.append(a.next(1)))
		c.same(7)
		for _, s := range c.all {
			if _, err := s.ledger.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFork: a leader that tells one keeper another entry is left with two logs, of which
// only one gets a quorum's signatures; who has the other keeps the evidence and proves
// nothing by it.
func TestFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClub(t, 3).start()
		a := c.author()
		good(t, c.append(a.next(5)))
		one, other := a.next(1), (&author{c: c, key: c.mint, seq: 5, to: 2}).next(1) // of one length: the lie fits its frame
		liar := c.leader()
		var victim *seat
		for _, s := range c.all {
			if s != liar {
				victim = s
			}
		}
		tell := swap(one[0], other[0])
		liar.says(func(to record.NodeID, p []byte) []byte {
			if to == victim.id {
				return tell(to, p)
			}
			return p
		})
		good(t, c.append(one))
		c.until("six entries", func() bool { return victim.ledger.Head().Size == 6 })
		if victim.ledger.Head().Root == liar.ledger.Head().Root {
			t.Fatal("the lie was not told")
		}
		p, err := liar.member.Prove(t.Context(), 5)
		if err == nil {
			_, err = tree.Check(p, c.mesh)
		}
		if err != nil {
			t.Errorf("prove by the majority's log: %v", err)
		}
		if _, err := victim.member.Prove(t.Context(), 5); !errors.Is(err, quorum.ErrNoLeader) {
			t.Errorf("prove by the other log: %v", err)
		}
		names, err := victim.fs.List(victim.dir + "/quorum")
		if err != nil || !strings.Contains(strings.Join(names, " "), "conflict.6") {
			t.Errorf("no evidence in %v, %v", names, err)
		}
	})
}

// TestWrongClock: a leader whose clock is a minute off orders nothing, whether it is
// ahead or behind, and follows again once the clock is right.
func TestWrongClock(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": time.Minute, "behind": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClub(t, 3).start()
				a := c.author()
				good(t, c.append(a.next(5)))
				if off < 0 {
					time.Sleep(2 * time.Minute) // else ledger time, which never goes back, is what it stamps
				}
				wrong := c.leader()
				wrong.skew.Store(int64(off))
				raws := a.next(1)
				if _, err := wrong.member.Order(t.Context(), raws); !errors.Is(err, quorum.ErrNoLeader) {
					t.Errorf("ordered: %v", err)
				}
				o := c.append(raws)
				good(t, o)
				if d := time.Since(o[0].Time.Time()).Abs(); d > 30*time.Second {
					t.Errorf("ledger time is %v off", d)
				}
				if c.leader() == wrong || wrong.ledger.Head().Size > 5 {
					t.Error("whose clock is wrong takes part")
				}
				wrong.skew.Store(0)
				c.same(6)
			})
		})
	}
}

// TestBehindItself: a leader whose clock was set back below ledger time says so.
func TestBehindItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClub(t, 3).start()
		a := c.author()
		good(t, c.append(a.next(5)))
		wrong := c.leader()
		wrong.skew.Store(int64(-time.Minute))
		raws := a.next(1)
		if _, err := wrong.member.Order(t.Context(), raws); !errors.Is(err, quorum.ErrClock) {
			t.Errorf("ordered: %v", err)
		}
		c.until("another leads", func() bool { s := c.leader(); return s != nil && s != wrong })
		good(t, c.append(raws))
	})
}

// TestLateQuorum: a batch that a leader left behind is taken up by the next one however
// long nobody led, though its time is of the past.
func TestLateQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClub(t, 3).start()
		a := c.author()
		good(t, c.append(a.next(5)))
		lead := c.leader()
		for _, s := range c.all {
			if s != lead {
				s.end()
			}
		}
		raws := a.next(1)
		if _, err := lead.member.Order(t.Context(), raws); !errors.Is(err, ledger.ErrUnordered) {
			t.Errorf("ordered alone: %v", err)
		}
		time.Sleep(10 * time.Minute)
		for _, s := range c.all {
			if s != lead {
				s.start()
			}
		}
		good(t, c.append(raws))
		c.same(6)
	})
}

// TestStranger: who is no keeper gets no word, and neither does a keeper that means
// another life of this one, or sends what is too large.
func TestStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClub(t, 3).start()
		good(t, c.append(c.author().next(1)))
		ask := []byte{'a', 0, 0, 0, 1, 0xa0} // an empty question
		for name, tc := range map[string]struct {
			from record.NodeID
			says []byte
			got  bool
		}{
			"a keeper":               {c.all[1].id, ask, true},
			"a stranger":             {record.NodeID{9}, ask, false},
			"another life":           {c.all[1].id, []byte("r\x00\x00\x00\x05\xa1\x01\x62xy"), false},
			"a message of 2 GiB":     {c.all[1].id, []byte{'a', 0x80, 0, 0, 0}, false},
			"a question not of ours": {c.all[1].id, []byte{'z', 0, 0, 0, 1, 0xa0}, false},
			"nothing, for long":      {c.all[1].id, nil, false},
		} {
			here, there := net.Pipe()
			go c.all[0].member.Serve(t.Context(), tc.from, there)
			go here.Write(tc.says)
			b, err := io.ReadAll(here)
			if got := len(b) > 0; got != tc.got {
				t.Errorf("%s: answered %q, %v", name, b, err)
			}
			here.Close()
		}
	})
}
