package node_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
	"idlemesh/sandbox/worker"
)

// TestMain lets the test binary be its own worker.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args, sandbox.Args) {
		if err := worker.Main(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A solo is an embedded mesh: one node with all roles, and a tenant who is its mint.
type solo struct {
	dir    string
	tenant identity.Key
	key    identity.Key
	mesh   record.Signed[record.Mesh]
	*client.Client
	stop func()
}

// start opens the solo's node and a client of it; stop ends both.
func (s *solo) start(t testing.TB, c node.Config) {
	t.Helper()
	c.Dir, c.Gateway, c.Provider, c.Keeper = s.dir, true, true, true
	c.Log = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	n, err := node.Open(s.key, s.mesh, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	s.Client, err = client.Dial(t.Context(), s.tenant, s.mesh, client.Config{Addrs: map[record.NodeID]string{n.ID(): n.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	s.stop = func() {
		s.Client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type testWriter struct{ testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.TB.Log(string(bytes.TrimSpace(b)))
	return len(b), nil
}

func newSolo(t testing.TB) *solo {
	t.Helper()
	s := &solo{dir: t.TempDir(), tenant: newKey(t), key: newKey(t)}
	var err error
	if s.mesh, err = node.Solo(s.key, s.tenant.PublicKey(), time.Now()); err != nil {
		t.Fatal(err)
	}
	return s
}

func newKey(t testing.TB) identity.Key {
	t.Helper()
	k, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestOneJob walks a job from submit to payout: QUIC on loopback, one node with all
// roles, a real module in a worker process, the ledger on disk.
func TestOneJob(t *testing.T) {
	s := newSolo(t)
	s.start(t, node.Config{Workers: sandbox.Config{Device: "sim:rtx4090"}})
	defer s.stop()
	ctx := t.Context()
	if _, err := s.Deposit(ctx, s.tenant.ID(), 5*record.Credit, "test"); err != nil {
		t.Fatal(err)
	}
	in, err := s.Submit(ctx, client.Request{Module: example(t, "hello"), Args: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	kinds, settled := follow(t, s.Client, in.Job)
	want := []wire.Kind{wire.Opened, wire.Auctioned, wire.Leased, wire.Settled, wire.Ended}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	r := settled.Receipt.Value
	if r.End != record.Exited || r.Exit != 0 || settled.Price != account.Charge(record.Credit/2, r.Usage.Work) {
		t.Errorf("receipt %+v, price %v", r, settled.Price)
	}
	m, err := s.Manifest(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Read(ctx, m.Stdout, 0, &out, nil); err != nil || !bytes.Contains(out.Bytes(), []byte("hello")) {
		t.Errorf("stdout %q, %v", out.String(), err)
	}
	if _, err := s.Prove(ctx, settled.Entry); err != nil {
		t.Errorf("proof: %v", err)
	}
	b, err := s.Balance(ctx, s.tenant.ID())
	if err != nil || b.Free+settled.Price != 5*record.Credit {
		t.Errorf("balance %v + paid %v, %v", b.Free, settled.Price, err)
	}
	if b, err = s.Balance(ctx, s.key.ID()); err != nil || b.Earned != settled.Price {
		t.Errorf("earned %v of %v, %v", b.Earned, settled.Price, err)
	}
}

// follow watches a job to its end.
func follow(t testing.TB, c *client.Client, job record.Ref) (kinds []wire.Kind, settled wire.JobEvent) {
	t.Helper()
	for e, err := range c.Watch(t.Context(), job, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Err != nil {
			t.Errorf("ended with %v", e.Err)
		}
		if e.Kind == wire.Settled {
			settled = e
		}
		if e.Kind != wire.Progress && e.Kind != wire.Waiting {
			kinds = append(kinds, e.Kind)
		}
	}
	if settled.Receipt == nil {
		t.Fatal("ended without a receipt")
	}
	return kinds, settled
}

func example(t testing.TB, name string) []byte {
	t.Helper()
	return build(t, filepath.Join("..", "..", "wasm-examples", name))
}

func build(t testing.TB, dir string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "m.wasm")
	cmd := exec.Command("go", "build", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build guest: %v\n%s", err, b)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
