package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
)

// port is where a gateway listens that was not told otherwise.
const port = "7117"

func (t terminal) meshCommand() *cli.Command {
	return &cli.Command{Name: "mesh", Usage: "the mesh that this home belongs to", Subcommands: []*cli.Command{
		{
			Name: "init", Usage: "make a mesh, with this home's node as gateway and keeper",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "name", Usage: "call it `NAME`", Value: "mesh"},
				&cli.StringFlag{Name: "addr", Usage: "others reach the gateway at `HOST:PORT`", Value: "127.0.0.1:" + port},
				&cli.StringSliceFlag{Name: "keeper", Usage: "name one more keeper, `KEY@HOST:PORT`; KEY is what key new --node shows there"},
				&cli.UintFlag{Name: "quorum", Usage: "have `N` keepers sign each tree head (more than half of them)"},
				&cli.BoolFlag{Name: "simulated", Usage: "let simulated devices earn: for demonstrations"},
			},
			Description: "meshctl mesh init --name home --addr 192.0.2.7:7117\nmeshctl node run --gateway --keeper --provider",
			Action:      t.meshInit,
		},
		{
			Name: "keeper", Usage: "the keepers that share the ledger", Subcommands: t.keeperCommands(),
		},
		{
			Name: "join", Usage: "join a mesh, by a node's address and the mesh's id", ArgsUsage: "ADDR#MESHID",
			Description: "meshctl mesh join 192.0.2.7:7117#MESHID",
			Action: func(c *cli.Context) error {
				args, err := operands(c, 1, 1)
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
				if err := (user{home: dir, key: key}).join(c.Context, args[0]); err != nil {
					return err
				}
				return t.meshShow(c, dir)
			},
		},
		{
			Name: "show", Usage: "show the mesh file of the mesh that this home uses",
			Description: "meshctl mesh show\nmeshctl mesh show -o json",
			Action: func(c *cli.Context) error {
				if _, err := operands(c, 0, 0); err != nil {
					return err
				}
				dir, err := home(c)
				if err != nil {
					return err
				}
				return t.meshShow(c, dir)
			},
		},
	}}
}

func (t terminal) meshInit(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	name, addr := c.String("name"), c.String("addr")
	if name == "" || len(name) > 64 || clean(name) != name {
		return usage("", "mesh init: --name: want 1 to 64 letters")
	}
	if _, p, err := net.SplitHostPort(addr); err != nil || p == "" || p == "0" {
		return usage("", "mesh init: --addr: %q is not HOST:PORT, such as 192.0.2.7:%s", addr, port)
	}
	dir, err := home(c)
	if err != nil {
		return err
	}
	if old, ok, err := joinedMesh(dir); err != nil {
		return err
	} else if ok {
		return usage("meshctl mesh show", "mesh init: this home belongs to mesh %s (%s) already", old.Value.Name, old.Ref())
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return err
	}
	host, err := identity.Open(nodeKeyFile(dir))
	if err != nil {
		return err
	}
	keepers, err := keepersOf(c, record.Member{Key: host.PublicKey(), Addr: addr})
	if err != nil {
		return err
	}
	if err := initMesh(dir, name, keepers, uint8(c.Uint("quorum")), c.Bool("simulated"), host, key.PublicKey()); err != nil {
		return err
	}
	return t.meshShow(c, dir)
}

// initMesh makes a mesh whose first keeper, host, is also its gateway, and makes it the
// home's. A quorum of zero is more than half of the keepers.
func initMesh(home, name string, keepers []record.Member, quorum uint8, simulated bool, host identity.Key, mint record.PublicKey) error {
	p := record.DefaultParams()
	p.AllowSimulated = simulated
	m, err := record.Sign(host, record.Mesh{Name: name, Keepers: keepers, Quorum: cmp.Or(quorum, uint8(len(keepers)/2+1)), Mint: mint, Gateways: keepers[:1], Params: p, Created: record.At(time.Now())})
	if err != nil {
		return fmt.Errorf("mesh init: %w", err)
	}
	return storeMesh(home, m)
}

// A meshView is a mesh file as people read it. Its names are those of the design.
type meshView struct {
	ID       record.Ref       `json:"id"`
	Name     string           `json:"name"`
	Join     string           `json:"join,omitempty"`
	Created  stamp            `json:"created"`
	Signer   record.NodeID    `json:"signer"`
	Gateways []memberView     `json:"gateways"`
	Keepers  []memberView     `json:"keepers"`
	Quorum   uint8            `json:"quorum"`
	Mint     record.PublicKey `json:"mint"`
	Params   paramsView       `json:"parameters"`
}

type memberView struct {
	Node record.NodeID    `json:"node"`
	Key  record.PublicKey `json:"key"`
	Addr string           `json:"addr,omitempty"`
}

type paramsView struct {
	FLOPS          uint64        `json:"reference_flops"`
	Bandwidth      uint64        `json:"reference_bytes_per_second"`
	GuestDiv       uint64        `json:"guest_cpu_ms_per_work_unit"`
	Reserve        record.Amount `json:"reserve_ucr_per_hour"`
	Holdback       uint32        `json:"holdback_ppm"`
	Fee            uint32        `json:"fee_ppm"`
	DailyMint      record.Amount `json:"daily_mint_ucr"`
	AllowSimulated bool          `json:"simulated_devices_earn"`
	VestDays       uint32        `json:"holdback_vests_days"`
	Unbond         record.Millis `json:"unbond_ms"`
	Slash          uint32        `json:"slash_ppm"`
}

func viewMesh(m signedMesh) meshView {
	members := func(list []record.Member) []memberView {
		out := []memberView{}
		for _, x := range list {
			out = append(out, memberView{x.Key.ID(), x.Key, x.Addr})
		}
		return out
	}
	p := m.Value.Params
	v := meshView{ID: m.Ref(), Name: m.Value.Name, Created: stamp(m.Value.Created), Signer: m.By(), Gateways: members(m.Value.Gateways),
		Keepers: members(m.Value.Keepers), Quorum: m.Value.Quorum, Mint: m.Value.Mint,
		Params: paramsView{p.FLOPS, p.Bandwidth, p.GuestDiv, p.Reserve, p.Holdback, p.Fee, p.DailyMint, p.AllowSimulated, p.VestDays, p.Unbond, p.Slash}}
	for _, g := range v.Gateways {
		if g.Addr != "" {
			v.Join = g.Addr + "#" + v.ID.String()
			break
		}
	}
	return v
}

// meshShow prints the mesh file. People get YAML too: a mesh file has no shorter form.
func (t terminal) meshShow(c *cli.Context, dir string) error {
	m, err := readMesh(currentMesh(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return &refusal{status: 5, text: "this home has no mesh yet", next: "meshctl mesh init, or meshctl mesh join ADDR#MESHID"}
	}
	if err != nil {
		return err
	}
	v := viewMesh(m)
	if c.String("output") == "name" {
		_, err := fmt.Fprintln(t.out, v.ID)
		return err
	}
	if c.String("output") != "json" {
		if err := c.Set("output", "yaml"); err != nil {
			return errors.Join(errors.New("mesh: output"), err)
		}
	}
	_, err = t.encode(c, v)
	if v.Join != "" && t.live() {
		fmt.Fprintf(t.err, "others join with: meshctl mesh join %s\n", v.Join)
	}
	return err
}
