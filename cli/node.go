package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
)

func (t terminal) nodeCommand() *cli.Command {
	return &cli.Command{Name: "node", Usage: "this machine as a node", Subcommands: append([]*cli.Command{
		{
			Name: "run", Usage: "sell this machine's time, or serve the mesh, until Ctrl-C",
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "gateway", Usage: "admit and place jobs; the mesh file must name this node"},
				&cli.BoolFlag{Name: "provider", Usage: "run jobs (the default)"},
				&cli.BoolFlag{Name: "keeper", Usage: "keep the ledger; the mesh file must name this node"},
				&cli.StringFlag{Name: "join", Usage: "join the mesh at `ADDR#MESHID` first"},
				&cli.StringFlag{Name: "listen", Usage: "use the UDP address `HOST:PORT`"},
				&cli.StringFlag{Name: "policy", Usage: "sell as policy.yaml `FILE` says"},
				&cli.StringFlag{Name: "device", Usage: "sell `DEVICE`: cpu, or sim:MODEL, which is simulated", Value: "cpu"},
				&cli.StringFlag{Name: "owner", Usage: "pretend that a simulated device's owner works `WORKS/EVERY`, such as 20s/2m"},
				&cli.StringFlag{Name: "floor", Usage: "sell for no less than `CREDITS` per hour of this device"},
				&cli.StringFlag{Name: "region", Usage: "say that this machine stands in `REGION`, such as eu-de"},
				&cli.StringFlag{Name: "quota", Usage: "as a gateway, keep at most `SIZE` of one account's inputs and outputs (5GiB)"},
				&cli.UintFlag{Name: "slots", Usage: "run `N` tasks at once (one for each CPU)"},
				&cli.DurationFlag{Name: "idle", Hidden: true},
			},
			Description: "meshctl node run\nmeshctl node run --join 192.0.2.7:7117#MESHID --policy policy.yaml\nmeshctl node run --gateway --keeper",
			Action:      t.nodeRun,
		},
		{
			Name: "status", Usage: "show this home's node, and the nodes that its mesh has",
			Description: "meshctl node status\nmeshctl node status -o json",
			Action:      t.nodeStatus,
		},
	}, t.wishCommands()...)}
}

func (t terminal) nodeRun(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	cfg, err := t.nodeConfig(c)
	if err != nil {
		return err
	}
	dir, err := home(c)
	if err != nil {
		return err
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return err
	}
	u := user{home: dir, key: key}
	if c.IsSet("join") {
		if err := u.join(c.Context, c.String("join")); err != nil {
			return err
		}
	}
	m, ok, err := joinedMesh(dir)
	switch {
	case err != nil:
		return err
	case ok:
		return t.runMember(c, u, m, cfg)
	case cfg.Gateway || cfg.Keeper:
		return usage("meshctl mesh init", "node run: a gateway or keeper serves a mesh, and this home has none")
	}
	return t.runEmbedded(c, u, cfg)
}

// nodeConfig reads what a node sells and how it is reached.
func (t terminal) nodeConfig(c *cli.Context) (node.Config, error) {
	cfg := node.Config{Gateway: c.Bool("gateway"), Provider: c.Bool("provider"), Keeper: c.Bool("keeper"),
		Listen: c.String("listen"), Log: slog.New(newEventLog(t.err))}
	if cfg.Listen != "" {
		if _, _, err := net.SplitHostPort(cfg.Listen); err != nil {
			return cfg, usage("", "node run: --listen: %v: want HOST:PORT, such as :7117", err)
		}
	}
	var err error
	if cfg.Policy, _, err = readPolicy(c); err != nil {
		return cfg, err
	}
	if c.IsSet("quota") {
		n, err := parseSize(c.String("quota"))
		if err != nil || n == 0 || n > 1<<50 {
			return cfg, usage("", "node run: --quota: %q: want a size such as 20GiB", c.String("quota"))
		}
		cfg.Quota = int64(n)
	}
	cfg.Workers.Device, cfg.Workers.Slots = c.String("device"), int(cfg.Policy.Slots)
	if err := checkDevice(cfg.Workers.Device); err != nil {
		return cfg, err
	}
	cfg.Sensor, err = sensorOf(cfg.Workers.Device, c.String("owner"), cfg.Log)
	return cfg, err
}

func checkDevice(name string) error {
	if kind, model, _ := strings.Cut(name, ":"); name != "cpu" && (kind != "sim" || model == "") {
		return usage("", "node run: --device: %q is not a device: want cpu or sim:MODEL (real GPUs come with a later release)", name)
	}
	return nil
}

// runEmbedded runs the embedded node for its own sake.
func (t terminal) runEmbedded(c *cli.Context, u user, cfg node.Config) error {
	own := embeddedConfig()
	cfg.Gateway, cfg.Keeper, cfg.Provider = true, true, true
	if !c.IsSet("floor") && !c.IsSet("policy") {
		cfg.Policy.Floor = own.Policy.Floor
	}
	cfg.Quota = cmp.Or(cfg.Quota, own.Quota)
	idle := c.Duration("idle")
	s, err := await(c.Context, embeddedBase(u.home), idle)
	if err != nil {
		return err
	}
	fmt.Fprintln(t.err, "sells to itself: this home has joined no mesh, so the node is a mesh of its own and runs the jobs of this home")
	r, err := u.start(c.Context, s, cfg, idle > 0)
	if err != nil {
		return errors.Join(err, s.leave())
	}
	return t.serve(c, r, cfg, idle)
}

// runMember runs this home's node in the mesh that it has joined.
func (t terminal) runMember(c *cli.Context, u user, m signedMesh, cfg node.Config) error {
	key, err := identity.Open(nodeKeyFile(u.home))
	if err != nil {
		return err
	}
	if err := roles(&cfg, key.ID(), m.Value); err != nil {
		return err
	}
	if cfg.Listen == "" {
		cfg.Listen = listen(key.ID(), m.Value)
	}
	s, err := await(c.Context, nodeBase(u.home), 0)
	if err != nil {
		return err
	}
	cfg.Operator, cfg.Gauge = u.key.ID(), gaugeTime
	r, err := run(c.Context, s, key, m, cfg)
	if err != nil {
		return errors.Join(err, s.leave())
	}
	if err := s.announce(holder{Addr: loopback(r.Addr()), Node: r.ID()}); err != nil {
		return errors.Join(err, r.stop())
	}
	return t.serve(c, r, cfg, 0)
}

// await takes a seat. With idle, it waits for it: whoever has it now may end soon.
func await(ctx context.Context, base string, idle time.Duration) (*seat, error) {
	for end := time.Now().Add(idle); ; {
		s, err := takeSeat(base)
		if !errors.Is(err, errTaken) {
			return s, err
		}
		if time.Now().After(end) {
			return nil, &refusal{status: 1, text: fmt.Sprintf("node run: process %d runs this home's node already", lockPID(base)),
				next: "meshctl node status, or another --home for another node"}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

// roles completes the roles of a node and checks them against the mesh file.
func roles(c *node.Config, id record.NodeID, m record.Mesh) error {
	_, gateway := m.Gateway(id)
	_, keeper := m.Keeper(id)
	if !c.Gateway && !c.Keeper && !c.Provider {
		c.Gateway, c.Keeper, c.Provider = gateway, keeper, true
	}
	for role, bad := range map[string]bool{"gateway": c.Gateway && !gateway, "keeper": c.Keeper && !keeper} {
		if bad {
			return &refusal{status: 4, text: fmt.Sprintf("node run: mesh %s does not name this node (%s) as a %s", m.Name, id.Short(), role),
				next: "meshctl node run --provider"}
		}
	}
	return nil
}

// listen is where a node of m listens that was not told: the port where others look for
// it, or any.
func listen(id record.NodeID, m record.Mesh) string {
	x, ok := m.Gateway(id)
	if !ok {
		x, ok = m.Keeper(id)
	}
	host, port, err := net.SplitHostPort(x.Addr)
	if !ok || err != nil {
		return ":0"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return x.Addr
	}
	return ":" + port
}

// loopback is where a node is reached from its own machine.
func loopback(a net.Addr) string {
	u, ok := a.(*net.UDPAddr)
	if !ok || !u.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(u.Port))
}

// serve lets a node run until ctx ends, or until it was idle for so long.
func (t terminal) serve(cc *cli.Context, r *running, c node.Config, idle time.Duration) error {
	ctx := cc.Context
	var names []string
	for name, has := range map[string]bool{"gateway": c.Gateway, "keeper": c.Keeper, "provider": c.Provider} {
		if has {
			names = append(names, name)
		}
	}
	c.Log.Info("started", "node", r.ID().Short(), "at", r.Addr(), "mesh", r.mesh.Value.Name, "as", strings.Join(sorted(names), ", "))
	tick := time.NewTicker(tickFor(idle))
	defer tick.Stop()
	sells := watchPolicy(cc, c.Log, r.Sell)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			err := r.stop()
			c.Log.Info("stopped")
			return err
		case <-r.done:
			return errors.Join(explain(r.err, c), r.stop())
		case <-look.C:
			sells.look()
		case now := <-tick.C:
			if since, free := r.Idle(); idle > 0 && free && now.Sub(since) >= idle {
				c.Log.Info("stopped: idle", "for", idle)
				return r.stop()
			}
		}
	}
}

func tickFor(idle time.Duration) time.Duration {
	if idle <= 0 {
		return time.Hour
	}
	return max(min(idle/10, 10*time.Second), 10*time.Millisecond)
}

// join makes the mesh at ADDR#MESHID this home's.
func (u user) join(ctx context.Context, where string) error {
	addr, id, err := parseJoin(where)
	if err != nil {
		return err
	}
	if old, ok, err := joinedMesh(u.home); err != nil || ok && old.Ref() == id {
		return err
	}
	m, err := client.Join(ctx, u.key, addr, id)
	if err != nil {
		return err
	}
	return storeMesh(u.home, m)
}

func parseJoin(s string) (addr string, id record.Ref, err error) {
	addr, text, ok := strings.Cut(s, "#")
	if ok {
		_, _, err = net.SplitHostPort(addr)
	}
	if ok && err == nil {
		id, err = record.ParseRef(text)
	}
	if !ok || err != nil {
		return "", id, usage("meshctl mesh join --help", "%q is not ADDR#MESHID, such as 192.0.2.7:7117#… with 52 letters after the #", s)
	}
	return addr, id, nil
}
