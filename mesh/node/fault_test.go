package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

// TestKilledProvider runs three providers and a gateway in processes of their own. A
// tenant's process submits a job and is killed; the provider that runs the job is
// killed too. The job goes on elsewhere, is charged once, and its tenant, back again,
// watches it to its end.
func TestKilledProvider(t *testing.T) {
	s := newStage(t)
	var providers []*party
	for _, floor := range []string{"0.01", "0.02", "0.03"} {
		p := s.party(roleEnv+"=provider", floorEnv+"="+floor)
		s.start(p)
		providers = append(providers, p)
	}
	c := s.client()
	if _, err := c.Deposit(t.Context(), c.ID(), 5*record.Credit, "test"); err != nil {
		t.Fatal(err)
	}
	job := s.submitAndDie(build(t, filepath.Join("testdata", "slow")))
	killed, settled := watchAndKill(t, c, job, providers)
	if settled.Receipt == nil || settled.Node == killed || settled.Attempt < 2 {
		t.Fatalf("settled %+v after %s was killed", settled, killed.Short())
	}
	b, err := c.Balance(t.Context(), c.ID())
	if err != nil || b.Free+settled.Price != 5*record.Credit {
		t.Errorf("free %v, paid %v, %v", b.Free, settled.Price, err)
	}
	if b, err = c.Balance(t.Context(), killed); err != nil || b.Earned != 0 {
		t.Errorf("the killed provider earned %v, %v", b.Earned, err)
	}
	s.verify()
}

// submitAndDie has a tenant's process submit a job, and kills it.
func (s *stage) submitAndDie(wasm []byte) record.Ref {
	s.t.Helper()
	module := filepath.Join(s.t.TempDir(), "m.wasm")
	if err := os.WriteFile(module, wasm, 0o600); err != nil {
		s.t.Fatal(err)
	}
	p := &party{dir: s.dir, key: s.tenant, env: []string{roleEnv + "=tenant", wasmEnv + "=" + module}}
	s.start(p)
	p.end(syscall.SIGKILL)
	job, err := record.ParseRef(p.said)
	if err != nil {
		s.t.Fatal(err)
	}
	return job
}

// watchAndKill kills the first provider that says how far the job is.
func watchAndKill(t *testing.T, c *client.Client, job record.Ref, providers []*party) (killed record.NodeID, settled wire.JobEvent) {
	for e, err := range c.Watch(t.Context(), job, false) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Kind == wire.Progress && killed == (record.NodeID{}):
			killed = e.Node
			i := slices.IndexFunc(providers, func(p *party) bool { return p.key.ID() == killed })
			providers[i].end(syscall.SIGKILL)
		case e.Kind == wire.Settled:
			settled = e
		case e.Kind == wire.Ended && e.Reason != record.Finished:
			t.Fatalf("ended %v, %v", e.Reason, e.Err)
		}
	}
	return killed, settled
}

// verify stops the gateway and checks its ledger from the entries alone.
func (s *stage) verify() {
	s.t.Helper()
	if err := s.gate.end(syscall.SIGTERM); err != nil {
		s.t.Errorf("gateway: %v", err)
	}
	l, err := ledger.OpenReadOnly(filepath.Join(s.gate.dir, "ledger"), s.mesh, ledger.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Verify(context.Background(), nil); err != nil {
		s.t.Errorf("verify: %v", err)
	}
}

// TestKilledGateway kills the gateway and keeper under a running job. Its provider
// goes on; the gateway, back again, joins it, and the job is charged once.
func TestKilledGateway(t *testing.T) {
	s := newStage(t)
	p := s.party(roleEnv+"=provider", floorEnv+"=0.01")
	s.start(p)
	c := s.client()
	if _, err := c.Deposit(t.Context(), c.ID(), 5*record.Credit, "test"); err != nil {
		t.Fatal(err)
	}
	in, err := c.Submit(t.Context(), client.Request{Module: build(t, filepath.Join("testdata", "slow")), Args: []string{"60"}, Retries: 3, MaxTotal: record.Credit})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Watch(t.Context(), in.Job, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == wire.Progress {
			break
		}
	}
	s.gate.end(syscall.SIGKILL)
	s.start(s.gate)
	_, settled := follow(t, s.client(), in.Job)
	b, err := s.client().Balance(t.Context(), c.ID())
	if err != nil || b.Free+settled.Price != 5*record.Credit || settled.Attempt != 1 {
		t.Errorf("free %v, paid %v for attempt %d, %v", b.Free, settled.Price, settled.Attempt, err)
	}
	s.verify()
}

// TestKilledKeeper kills a keeper under load again and again: what it acknowledged is
// there at the next start. IDLEMESH_KILLS sets how often.
func TestKilledKeeper(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("IDLEMESH_KILLS"))
	if err != nil {
		kills = 5
	}
	s := newStage(t)
	var acked atomic.Uint64
	for round := range kills {
		c := s.client()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		begun := make(chan struct{}, 64)
		for i := range 8 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if _, err := c.Deposit(ctx, c.ID(), 1, fmt.Sprintf("%d/%d/%d", round, i, n)); err == nil {
						acked.Add(1)
						select {
						case begun <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		for range 20 + round%7 {
			<-begun
		}
		s.gate.end(syscall.SIGKILL)
		cancel()
		s.start(s.gate)
		wg.Wait()
		c.Close()
		c = s.client()
		b, err := c.Balance(t.Context(), c.ID())
		if err != nil || uint64(b.Free) < acked.Load() {
			t.Fatalf("round %d: %d µcredits there of %d acknowledged, %v", round, b.Free, acked.Load(), err)
		}
		acked.Store(uint64(b.Free)) // some were taken and not acknowledged
		c.Close()
	}
	s.verify()
}
