package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
	"idlemesh/sandbox"
)

// The test binary plays one party of a mesh when its environment says so: a gateway
// that is also keeper, a provider, or a tenant that submits a job and waits.
const (
	roleEnv    = "IDLEMESH_TEST_ROLE"
	dirEnv     = "IDLEMESH_TEST_DIR"     // the party's folder: key, mesh file, data
	listenEnv  = "IDLEMESH_TEST_LISTEN"  // a node's address
	gatewayEnv = "IDLEMESH_TEST_GATEWAY" // where the gateway is
	floorEnv   = "IDLEMESH_TEST_FLOOR"   // a provider's
	wasmEnv    = "IDLEMESH_TEST_WASM"    // a tenant's module
)

func play(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	dir := os.Getenv(dirEnv)
	key, err := identity.Open(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "mesh"))
	if err != nil {
		return err
	}
	m, err := record.Open[record.Mesh](raw)
	if err != nil {
		return err
	}
	addrs := map[record.NodeID]string{m.Value.Gateways[0].Key.ID(): os.Getenv(gatewayEnv)}
	if role == "tenant" {
		return playTenant(ctx, key, m, addrs)
	}
	c := node.Config{Dir: dir, Listen: os.Getenv(listenEnv), Addrs: addrs, Gateway: role == "gateway", Keeper: role == "gateway" || role == "keeper",
		Provider: role == "provider", Workers: sandbox.Config{Device: "sim:t4"}}
	if c.Policy.Floor, err = record.ParseAmount(os.Getenv(floorEnv)); err != nil && c.Provider {
		return err
	}
	c.Policy.Slots = 2
	n, err := node.Open(key, m, c)
	if err != nil {
		return err
	}
	go func() {
		<-n.Ready()
		fmt.Println("ready", n.Addr())
	}()
	return n.Run(ctx)
}

// playTenant submits a job, says its name, and waits to be killed.
func playTenant(ctx context.Context, key identity.Key, m record.Signed[record.Mesh], addrs map[record.NodeID]string) error {
	wasm, err := os.ReadFile(os.Getenv(wasmEnv))
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, key, m, client.Config{Addrs: addrs})
	if err != nil {
		return err
	}
	in, err := c.Submit(ctx, client.Request{Module: wasm, Args: []string{"60"}, Retries: 3, MaxTotal: record.Credit})
	if err != nil {
		return err
	}
	fmt.Println("ready", in.Job)
	<-ctx.Done()
	return nil
}

// A party is a process of the mesh.
type party struct {
	dir  string
	key  identity.Key
	env  []string
	cmd  *exec.Cmd
	said string // what it said when it was ready
}

// A stage is a mesh of processes: a gateway that is also keeper, and whoever is added.
type stage struct {
	t      *testing.T
	mesh   record.Signed[record.Mesh]
	dir    string       // the tenant's
	tenant identity.Key // also the mint
	gate   *party
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t}
	tenant := s.party()
	s.dir, s.tenant = tenant.dir, tenant.key
	s.gate = s.party(roleEnv + "=gateway")
	var err error
	if s.mesh, err = node.Solo(s.gate.key, s.tenant.PublicKey(), time.Now()); err != nil {
		t.Fatal(err)
	}
	s.gate.env = append(s.gate.env, listenEnv+"=127.0.0.1:0")
	s.start(s.gate)
	s.gate.env[len(s.gate.env)-1] = listenEnv + "=" + s.gate.said // the same after a restart
	return s
}

func (s *stage) party(env ...string) *party {
	s.t.Helper()
	p := &party{dir: s.t.TempDir(), env: env}
	var err error
	if p.key, err = identity.Open(filepath.Join(p.dir, "key")); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// start starts the process and returns when it is ready.
func (s *stage) start(p *party) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "mesh"), s.mesh.Raw(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p.cmd = exec.Command(exe)
	p.cmd.Env = append(append(os.Environ(), p.env...), dirEnv+"="+p.dir, gatewayEnv+"="+s.gate.said)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { p.end(syscall.SIGKILL) })
	line, err := bufio.NewReader(out).ReadString('\n')
	said, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		s.t.Fatalf("%v said %q, %v", p.env, line, err)
	}
	p.said = strings.TrimSpace(said)
	go io.Copy(io.Discard, out)
}

// end signals the process and waits for its end.
func (p *party) end(sig syscall.Signal) error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.cmd.Wait()
}

func (s *stage) client() *client.Client {
	s.t.Helper()
	c, err := client.Dial(s.t.Context(), s.tenant, s.mesh, client.Config{Addrs: map[record.NodeID]string{s.gate.key.ID(): s.gate.said}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}
