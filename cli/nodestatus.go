package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// A nodeView is this home's node, if it runs, and the providers of its mesh.
type nodeView struct {
	Running    bool              `json:"running"`
	PID        int               `json:"pid,omitempty"`
	Background bool              `json:"background,omitempty"`
	Node       *wire.StatusReply `json:"node,omitempty"`
	Nodes      []wire.NodeInfo   `json:"nodes"`
}

// nodeStatus starts nothing: what does not run is shown as not running.
func (t terminal) nodeStatus(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	dir, err := home(c)
	if err != nil {
		return err
	}
	m, joined, err := joinedMesh(dir)
	if err != nil {
		return err
	}
	base := nodeBase(dir)
	if !joined {
		base = embeddedBase(dir)
		if m, err = readMesh(embeddedFile(dir)); errors.Is(err, fs.ErrNotExist) {
			return t.printStatus(c, nodeView{Nodes: []wire.NodeInfo{}})
		} else if err != nil {
			return err
		}
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return err
	}
	v, err := user{home: dir, key: key}.status(c.Context, m, base, joined)
	if err != nil {
		return err
	}
	return t.printStatus(c, v)
}

func (u user) status(ctx context.Context, m signedMesh, base string, joined bool) (nodeView, error) {
	v := nodeView{Nodes: []wire.NodeInfo{}}
	h, found := findHolder(base)
	if found {
		if s, err := takeSeat(base); err == nil { // who announced it was killed
			found = false
			if err := s.leave(); err != nil {
				return v, err
			}
		}
	}
	if !found && !joined {
		return v, nil
	}
	use := func(ctx context.Context, cl *client.Client) error {
		if found {
			v.Running, v.PID, v.Background = true, h.PID, h.Background
			short, cancel := context.WithTimeout(ctx, u.wait())
			defer cancel()
			if s, err := cl.Status(short, h.Node); err == nil {
				v.Node = &s
			}
		}
		for n, err := range cl.Nodes(ctx) {
			if err != nil {
				return err
			}
			v.Nodes = append(v.Nodes, n)
		}
		return nil
	}
	if joined {
		return v, u.joined(ctx, m, use)
	}
	done, err := u.through(ctx, m, client.Config{Addrs: map[record.NodeID]string{h.Node: h.Addr}}, use)
	if !done && ctx.Err() == nil {
		err = silent(base)
	}
	return v, err
}

func (t terminal) printStatus(c *cli.Context, v nodeView) error {
	if done, err := t.encode(c, v); done {
		return err
	}
	if c.String("output") != "name" {
		if err := show(t, c, v, ownColumns()); err != nil || len(v.Nodes) == 0 {
			return err
		}
		fmt.Fprintln(t.out)
	}
	return list(t, c, v.Nodes, nodeColumns())
}

func ownColumns() []column[nodeView] {
	of := func(f func(wire.StatusReply) string) func(nodeView) string {
		return func(v nodeView) string {
			if v.Node == nil {
				return ""
			}
			return f(*v.Node)
		}
	}
	return []column[nodeView]{
		{head: "this node", cell: func(v nodeView) string {
			switch {
			case !v.Running:
				return "not running: meshctl node run"
			case v.Node == nil:
				return fmt.Sprintf("process %d, which does not answer", v.PID)
			case v.Background:
				return fmt.Sprintf("runs in the background, until idle for %v", idleTime)
			}
			return "runs"
		}},
		{head: "id", cell: of(func(s wire.StatusReply) string { return s.ID.Short() })},
		{head: "address", cell: of(func(s wire.StatusReply) string { return s.Addr })},
		{head: "mesh", cell: of(func(s wire.StatusReply) string { return s.Name + " (" + s.Mesh.String()[:12] + ")" })},
		{head: "roles", cell: of(func(s wire.StatusReply) string { return strings.Join(s.Roles, ", ") })},
		{head: "device", cell: of(func(s wire.StatusReply) string {
			if s.Offer == nil {
				return ""
			}
			return offerState(*s.Offer)
		})},
		{head: "speed", cell: of(func(s wire.StatusReply) string {
			if s.Offer == nil {
				return ""
			}
			return speedText(*s.Offer)
		})},
		{head: "since", cell: of(func(s wire.StatusReply) string { return stamp(s.Since).String() })},
		{head: "jobs", cell: of(func(s wire.StatusReply) string { return fmt.Sprintf("%d not ended", s.Jobs) })},
		{head: "entries", cell: of(func(s wire.StatusReply) string { return fmt.Sprint(s.Entries) }), wide: true},
		{head: "process", cell: func(v nodeView) string {
			if !v.Running {
				return ""
			}
			return fmt.Sprintf("%d; end it with: kill %[1]d", v.PID)
		}},
	}
}

// speedText says how fast a device counts as, and since when that is known.
func speedText(o wire.Offer) string {
	switch {
	case o.Device.Simulated:
		return fmt.Sprintf("%d ‰, simulated", o.Device.Speed)
	case o.Measured == 0:
		return fmt.Sprintf("%d ‰, not measured", o.Device.Speed)
	}
	return fmt.Sprintf("%d ‰, measured %s", o.Device.Speed, o.Measured.Time().Format(time.DateOnly))
}

func nodeColumns() []column[wire.NodeInfo] {
	return []column[wire.NodeInfo]{
		{head: "node", cell: func(n wire.NodeInfo) string { return n.ID.Short() }},
		{head: "device", cell: func(n wire.NodeInfo) string { return deviceText(n.Offer.Device) }},
		{head: "vram", cell: func(n wire.NodeInfo) string { return size(n.Offer.Device.VRAM) }},
		{head: "ask/h", cell: func(n wire.NodeInfo) string { return credits(n.Offer.Ask) }},
		{head: "rtt", cell: func(n wire.NodeInfo) string {
			if n.RTT < 0 {
				return "unknown"
			}
			return fmt.Sprintf("%d ms", n.RTT)
		}},
		{head: "slots", cell: func(n wire.NodeInfo) string { return fmt.Sprintf("%d of %d", n.Offer.Leases, n.Offer.Slots) }},
		{head: "region", cell: func(n wire.NodeInfo) string { return n.Offer.Region }},
		{head: "speed", cell: func(n wire.NodeInfo) string { return speedText(n.Offer) }, wide: true},
		{head: "missing walls", cell: func(n wire.NodeInfo) string { return strings.Join(n.Offer.Grade, ", ") }, wide: true},
	}
}
