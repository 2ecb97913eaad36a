package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// maxKeepers is how many can agree without being slow for it.
const maxKeepers = 5

// keepersOf reads the keepers of a new mesh: this home's node, and those of --keeper.
func keepersOf(c *cli.Context, me record.Member) ([]record.Member, error) {
	all := []record.Member{me}
	for _, s := range c.StringSlice("keeper") {
		var m record.Member
		key, addr, ok := strings.Cut(s, "@")
		_, port, err := net.SplitHostPort(addr)
		if !ok || err != nil || port == "" || port == "0" || m.Key.UnmarshalText([]byte(key)) != nil {
			return nil, usage("meshctl key new --node -o wide", "mesh init: --keeper: %q is not KEY@HOST:PORT, such as a public key of 52 letters, then @192.0.2.8:7117", s)
		}
		m.Addr = addr
		for _, x := range all {
			if x.Key == m.Key {
				return nil, usage("", "mesh init: --keeper: %s is named twice; this home's own node is one without being named", m.Key.ID().Short())
			}
		}
		all = append(all, m)
	}
	if n := c.Uint("quorum"); c.IsSet("quorum") && (n > uint(len(all)) || n < uint(len(all))/2+1) {
		return nil, usage("", "mesh init: --quorum: %d of %d keepers: want more than half of them", n, len(all))
	}
	if len(all) == 1 || len(all)%2 == 1 && len(all) <= maxKeepers {
		return all, nil
	}
	return nil, usage("", "mesh init: %d keepers: want 1, 3 or 5, since an even one more helps nobody", len(all))
}

func (t terminal) keeperCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "list", Usage: "show what each keeper has, and who leads",
			Description: "meshctl mesh keeper list\nmeshctl mesh keeper list -o json",
			Action:      t.keeperList,
		},
		{
			Name: "add", Usage: "make a keeper that the mesh file names a member; run it at a keeper's home", ArgsUsage: "NODE",
			Description: "meshctl mesh keeper add NODE",
			Action: func(c *cli.Context) error {
				return t.seat(c, 1, func(ids []record.NodeID) []seating { return []seating{{ids[0], false}} })
			},
		},
		{
			Name: "remove", Usage: "end a keeper's membership; run it at a keeper's home", ArgsUsage: "NODE",
			Description: "meshctl mesh keeper remove NODE",
			Action: func(c *cli.Context) error {
				return t.seat(c, 1, func(ids []record.NodeID) []seating { return []seating{{ids[0], true}} })
			},
		},
		{
			Name: "replace", Usage: "add a keeper, wait until it has the whole ledger, and remove another", ArgsUsage: "OLD NEW",
			Description: "meshctl mesh keeper replace OLD NEW",
			Action: func(c *cli.Context) error {
				return t.seat(c, 2, func(ids []record.NodeID) []seating { return []seating{{ids[1], false}, {ids[0], true}} })
			},
		},
	}
}

// keeperView is a keeper as people read it.
type keeperView struct {
	wire.KeeperInfo
	Addr string `json:"addr,omitempty"`
}

func (v keeperView) role() string {
	switch {
	case v.Leads:
		return "leads"
	case v.Votes:
		return "votes"
	case v.Member:
		return "catches up"
	}
	return "no member"
}

func (t terminal) keeperList(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
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
	return t.withKeepers(c, user{home: dir, key: key}, func(ctx context.Context, cl *client.Client) error {
		all, err := keepers(ctx, cl)
		if err != nil {
			return err
		}
		return list(t, c, all, []column[keeperView]{
			{head: "node", cell: func(v keeperView) string { return v.ID.String() }},
			{head: "role", cell: keeperView.role},
			{head: "up", cell: func(v keeperView) string { return yesNo(v.Up) }},
			{head: "entries", cell: func(v keeperView) string { return fmt.Sprint(v.Size) }},
			{head: "clock ahead", cell: func(v keeperView) string { return v.Ahead.Duration().String() }},
			{head: "addr", cell: func(v keeperView) string { return v.Addr }},
		})
	})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func keepers(ctx context.Context, cl *client.Client) (all []keeperView, err error) {
	for k, err := range cl.Keepers(ctx) {
		if err != nil {
			return nil, err
		}
		m, _ := cl.Mesh().Value.Keeper(k.ID)
		all = append(all, keeperView{k, m.Addr})
	}
	return all, nil
}

// withKeepers runs use with a client of the joined mesh, whose gateways may be down.
func (t terminal) withKeepers(c *cli.Context, u user, use useFunc) error {
	m, ok, err := joinedMesh(u.home)
	switch {
	case err != nil:
		return err
	case !ok || len(m.Value.Keepers) == 1:
		return usage("meshctl mesh init --keeper KEY@HOST:PORT", "mesh keeper: this home's mesh has one keeper, which keeps the ledger alone")
	}
	addrs := map[record.NodeID]string{}
	if h, ok := findHolder(nodeBase(u.home)); ok {
		addrs[h.Node] = h.Addr
	}
	cl, err := client.Dial(c.Context, u.key, m, client.Config{Addrs: addrs})
	if err != nil {
		return err
	}
	return errors.Join(use(c.Context, cl), cl.Close())
}

// A seating is one change of the members.
type seating struct {
	id     record.NodeID
	remove bool
}

// seat makes changes by the order of this home's node, which must be a keeper.
func (t terminal) seat(c *cli.Context, n int, plan func([]record.NodeID) []seating) error {
	args, err := operands(c, n, n)
	if err != nil {
		return err
	}
	var ids []record.NodeID
	for _, s := range args {
		id, err := record.ParseNodeID(s)
		if err != nil {
			return usage("meshctl mesh keeper list", "mesh keeper %s: %v", c.Command.Name, err)
		}
		ids = append(ids, id)
	}
	dir, err := home(c)
	if err != nil {
		return err
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return err
	}
	by, err := identity.Open(nodeKeyFile(dir))
	if err != nil {
		return err
	}
	return t.withKeepers(c, user{home: dir, key: key}, func(ctx context.Context, cl *client.Client) error {
		for _, s := range plan(ids) {
			if err := cl.SeatKeeper(ctx, by, s.id, s.remove); err != nil {
				return err
			}
			if err := t.seated(ctx, cl, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// seated waits until a change has come true.
func (t terminal) seated(ctx context.Context, cl *client.Client, s seating) error {
	said := false
	for {
		all, err := keepers(ctx, cl)
		if err != nil && !wire.Is(err, wire.Unavailable) {
			return err
		}
		for _, k := range all {
			switch {
			case k.ID != s.id:
			case s.remove && !k.Member:
				fmt.Fprintf(t.err, "%s is no member any more\n", s.id.Short())
				return nil
			case !s.remove && k.Votes:
				fmt.Fprintf(t.err, "%s has the whole ledger and votes\n", s.id.Short())
				return nil
			case !said:
				said = true
				fmt.Fprintf(t.err, "waits for %s\n", s.id.Short())
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}
