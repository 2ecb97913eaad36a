package node_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

// TestKilledLeader kills the process of the keeper that leads, again and again, while
// credits are deposited: each deposit that was acknowledged stands where it was said,
// once, and proves under two signatures. IDLEMESH_MINUTES=5 goes on for five minutes.
func TestKilledLeader(t *testing.T) {
	kills, pause := 2, time.Second
	if s := os.Getenv("IDLEMESH_MINUTES"); s != "" {
		d, err := time.ParseDuration(s + "m")
		if err != nil {
			t.Fatal(err)
		}
		kills, pause = int(d/(5*time.Second)), 2500*time.Millisecond
	} else if testing.Short() {
		t.Skip("starts processes")
	}
	s := threeKeepers(t)
	c := s.keepersClient()
	ctx, stop := context.WithCancel(t.Context())
	acked := map[uint64]string{} // index → external reference
	var (
		mu     sync.Mutex
		killed time.Time
		worst  time.Duration
		work   sync.WaitGroup
	)
	for n := range 4 {
		work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name, from := fmt.Sprint(n, "/", i), time.Now()
				at, err := c.Deposit(t.Context(), c.ID(), 1, name)
				for ; wire.Is(err, wire.Unavailable); at, err = c.Deposit(t.Context(), c.ID(), 1, name) {
					time.Sleep(10 * time.Millisecond)
				}
				if err != nil {
					t.Errorf("deposit %s: %v", name, err)
					return
				}
				mu.Lock()
				if acked[at.Index] != "" {
					t.Errorf("deposits %s and %s are both entry %d", acked[at.Index], name, at.Index)
				}
				acked[at.Index] = name
				if !killed.IsZero() && from.After(killed) {
					worst, killed = max(worst, time.Since(killed)), time.Time{}
				}
				mu.Unlock()
			}
		})
	}
	for range kills {
		time.Sleep(pause)
		p := s.leader(c)
		mu.Lock()
		killed = time.Now()
		mu.Unlock()
		p.end(syscall.SIGKILL)
		time.Sleep(pause)
		s.start(p)
	}
	stop()
	work.Wait()
	s.compare(c, acked)
	t.Logf("%d kills, %d deposits; acknowledged again after %v at most", kills, len(acked), worst)
}

// threeKeepers starts a mesh of three processes that are keepers.
func threeKeepers(t *testing.T) *keepers {
	t.Helper()
	s := &keepers{stage: &stage{t: t, gate: &party{}}}
	tenant := s.party()
	s.dir, s.tenant = tenant.dir, tenant.key
	m := record.Mesh{Name: "three", Quorum: 2, Mint: s.tenant.PublicKey(), Params: record.DefaultParams(), Created: record.At(time.Now())}
	for range 3 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := pc.LocalAddr().String()
		if err := pc.Close(); err != nil {
			t.Fatal(err)
		}
		p := s.party(roleEnv+"=keeper", listenEnv+"="+addr)
		s.all = append(s.all, p)
		m.Keepers = append(m.Keepers, record.Member{Key: p.key.PublicKey(), Addr: addr})
	}
	m.Gateways = m.Keepers[:1]
	var err error
	if s.mesh, err = record.Sign(s.all[0].key, m); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.all {
		s.start(p)
	}
	return s
}

// keepers are a stage of keepers alone.
type keepers struct {
	*stage
	all []*party
}

func (s *keepers) keepersClient() *client.Client {
	s.t.Helper()
	c, err := client.Dial(s.t.Context(), s.tenant, s.mesh, client.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// leader waits for a keeper to lead.
func (s *keepers) leader(c *client.Client) *party {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for k, err := range c.Keepers(s.t.Context()) {
			for _, p := range s.all {
				if err == nil && k.Leads && k.Up && p.key.ID() == k.ID {
					return p
				}
			}
		}
	}
	s.t.Fatal("nobody leads")
	return nil
}

// compare reads the log and compares it with what was acknowledged.
func (s *keepers) compare(c *client.Client, acked map[uint64]string) {
	s.t.Helper()
	seen := map[string]bool{}
	for row, err := range c.Query(s.t.Context(), wire.QueryRequest{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		e, err := record.Open[record.Entry](row.Entry)
		if err != nil {
			s.t.Fatal(err)
		}
		name := e.Value.Deposit.External
		if name != acked[row.Index] || seen[name] {
			s.t.Errorf("entry %d is deposit %s, acknowledged was %q", row.Index, name, acked[row.Index])
		}
		seen[name] = true
	}
	if len(seen) != len(acked) {
		s.t.Errorf("%d entries, %d were acknowledged", len(seen), len(acked))
	}
	if _, err := c.Prove(s.t.Context(), uint64(len(seen)-1)); err != nil {
		s.t.Error(err)
	}
}
