package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// devNodes are what `dev` simulates: the first is also gateway and keeper.
var devNodes = [...]struct{ name, device, floor, region string }{
	{"node-1", "sim:rtx4090", "0.300", "eu-de"},
	{"node-2", "sim:rtx3060", "0.030", "eu-fr"},
	{"node-3", "sim:t4", "0.012", "us-east"},
}

// devStart is how long the three may take until they sell.
const devStart = 30 * time.Second

func (t terminal) devCommand() *cli.Command {
	return &cli.Command{
		Name: "dev", Usage: "run a mesh of three processes with simulated GPUs here, until Ctrl-C",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "dir", Usage: "keep it in `DIR`, and go on with what is there (a new folder)"}},
		Description: "meshctl dev\nmeshctl dev --dir ./dev",
		Action: func(c *cli.Context) error {
			if _, err := operands(c, 0, 0); err != nil {
				return err
			}
			return t.dev(c)
		},
	}
}

// A devMesh is a folder with a home for each node and one for a tenant.
type devMesh struct {
	dir      string
	mesh     signedMesh
	ids      []record.NodeID
	mint     identity.Key
	tenant   identity.Key
	children []*child
}

func (d *devMesh) home(name string) string { return filepath.Join(d.dir, name) }

func (t terminal) dev(c *cli.Context) (err error) {
	d := &devMesh{dir: c.String("dir")}
	if d.dir == "" {
		d.dir, err = os.MkdirTemp("", "idlemesh-dev-")
	} else {
		d.dir, err = filepath.Abs(d.dir)
	}
	if err == nil {
		err = d.prepare()
	}
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	defer func() {
		d.stop()
		fmt.Fprintf(t.err, "stopped. %s is left: go on with it with meshctl dev --dir %[1]s, or remove it with rm -r %[1]s\n", d.dir)
	}()
	out := &lines{w: t.err}
	for i, n := range devNodes {
		args := []string{"--home", d.home(n.name), "node", "run", "--provider", "--device", n.device, "--floor", n.floor, "--region", n.region}
		if i == 0 {
			args = append(args, "--gateway", "--keeper")
		}
		ch, err := startChild(n.name, args, out)
		if err != nil {
			return fmt.Errorf("dev: %w", err)
		}
		d.children = append(d.children, ch)
	}
	nodes, err := d.ready(c.Context)
	if err != nil {
		return err
	}
	if err := t.devTable(c, d, nodes); err != nil {
		return err
	}
	t.devWords(d)
	return t.devWatch(c.Context, d)
}

// prepare makes the homes, their keys and the mesh, where they are not there yet.
func (d *devMesh) prepare() (err error) {
	var first identity.Key
	for i, n := range devNodes {
		if err := os.MkdirAll(d.home(n.name), 0o700); err != nil {
			return err
		}
		key, err := identity.Open(nodeKeyFile(d.home(n.name)))
		if err != nil {
			return err
		}
		if i == 0 {
			first = key
		}
		d.ids = append(d.ids, key.ID())
	}
	if d.tenant, err = identity.Open(keyFile(d.home("tenant"))); err != nil {
		return err
	}
	home := d.home(devNodes[0].name)
	if d.mint, err = identity.Open(keyFile(home)); err != nil {
		return err
	}
	m, ok, err := joinedMesh(home)
	if err == nil && !ok {
		var addr string
		if addr, err = freeAddr(); err == nil {
			err = initMesh(home, "dev (simulated)", []record.Member{{Key: first.PublicKey(), Addr: addr}}, 0, true, first, d.mint.PublicKey())
		}
		if err == nil {
			m, _, err = joinedMesh(home)
		}
	}
	if err != nil {
		return err
	}
	d.mesh = m
	for _, name := range []string{devNodes[1].name, devNodes[2].name, "tenant"} {
		if err := storeMesh(d.home(name), m); err != nil {
			return err
		}
	}
	return nil
}

// freeAddr finds a UDP port of loopback that nobody uses now. It is none of those that
// systems hand out, so nobody gets it before the node does.
func freeAddr() (string, error) {
	var err error
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		pc, e := net.ListenPacket("udp", addr)
		if e == nil {
			return addr, pc.Close()
		}
		err = e
	}
	return "", err
}

// ready waits until all nodes sell, funds the tenant, and returns the nodes.
func (d *devMesh) ready(ctx context.Context) ([]wire.NodeInfo, error) {
	cl, err := client.Dial(ctx, d.mint, d.mesh, client.Config{})
	if err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, devStart, fmt.Errorf("dev: the nodes did not begin to sell within %v", devStart))
	defer cancel()
	for {
		for _, ch := range d.children {
			if ch.ended() {
				return nil, fmt.Errorf("dev: %s ended: %s", ch.name, ch.last())
			}
		}
		var nodes []wire.NodeInfo
		for n, err := range cl.Nodes(ctx) {
			if err != nil {
				break
			}
			nodes = append(nodes, n)
		}
		if len(nodes) == len(devNodes) {
			_, err := cl.Deposit(ctx, d.tenant.ID(), welcome, "dev-welcome")
			return nodes, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookAgain):
		}
	}
}

// A devView is one of the simulated nodes.
type devView struct {
	Name string        `json:"name"`
	PID  int           `json:"pid"`
	Node record.NodeID `json:"node"`
	Home string        `json:"home"`
	wire.Offer
	Roles string `json:"roles"`
}

func (t terminal) devTable(c *cli.Context, d *devMesh, nodes []wire.NodeInfo) error {
	var rows []devView
	for i, ch := range d.children {
		v := devView{Name: ch.name, PID: ch.cmd.Process.Pid, Node: d.ids[i], Home: d.home(ch.name), Roles: "provider"}
		if i == 0 {
			v.Roles = "provider, gateway, keeper"
		}
		if n := slices.IndexFunc(nodes, func(n wire.NodeInfo) bool { return n.ID == d.ids[i] }); n >= 0 {
			v.Offer = nodes[n].Offer
		}
		rows = append(rows, v)
	}
	return list(t, c, rows, []column[devView]{
		{head: "name", cell: func(v devView) string { return v.Name }},
		{head: "pid", cell: func(v devView) string { return fmt.Sprint(v.PID) }},
		{head: "node", cell: func(v devView) string { return v.Node.Short() }},
		{head: "gpu", cell: func(v devView) string { return deviceText(v.Device) }},
		{head: "vram", cell: func(v devView) string { return size(v.Device.VRAM) }},
		{head: "ask/h", cell: func(v devView) string { return credits(v.Ask) }},
		{head: "speed", cell: func(v devView) string { return fmt.Sprintf("%d ‰", v.Device.Speed) }},
		{head: "region", cell: func(v devView) string { return v.Region }},
		{head: "roles", cell: func(v devView) string { return v.Roles }},
		{head: "home", cell: func(v devView) string { return v.Home }, wide: true},
	})
}

func (t terminal) devWords(d *devMesh) {
	fmt.Fprintf(t.err, `
The GPUs are simulated: names, memory and prices are made up, results and receipts are real.
In another terminal:
  export IDLEMESH_HOME=%s
  meshctl submit ./wasm-examples/hello
  meshctl node status
Kill a provider under a job and see it go on elsewhere:
  kill -9 %d
Ctrl-C ends it all.

`, d.home("tenant"), d.children[2].cmd.Process.Pid)
}

// devWatch reports each child that ends, until ctx ends or none is left.
func (t terminal) devWatch(ctx context.Context, d *devMesh) error {
	ends := make(chan *child)
	for _, ch := range d.children {
		go func() { // ends with the child, which d.stop ends
			<-ch.done
			select {
			case ends <- ch:
			case <-ctx.Done():
			}
		}()
	}
	for left := len(d.children); left > 0; left-- {
		select {
		case <-ctx.Done():
			return nil
		case ch := <-ends:
			note := ""
			if ch == d.children[0] {
				note = "; it was the gateway and keeper, so no job goes on until it is back"
			}
			fmt.Fprintf(t.err, "%s (process %d) ended: %v. It is not started again%s\n", ch.name, ch.cmd.Process.Pid, ch.how(), note)
		}
	}
	return errors.New("dev: every node has ended")
}

// stop ends the children, the gateway last, so that the others can still tell it.
func (d *devMesh) stop() {
	for i := len(d.children) - 1; i >= 0; i-- {
		d.children[i].end()
	}
}
