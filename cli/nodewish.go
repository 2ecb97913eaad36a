package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
)

// wishCommands are the owner's words to his node.
func (t terminal) wishCommands() []*cli.Command {
	var all []*cli.Command
	for _, w := range []struct {
		name, usage string
		wish        policy.Wish
	}{
		{"pause", "take the device back now: what runs is ended and placed elsewhere, unpaid", policy.Pause},
		{"drain", "let what runs end, and begin nothing new", policy.Drain},
		{"resume", "sell again, as the policy says", policy.Sell},
	} {
		all = append(all, &cli.Command{Name: w.name, Usage: w.usage,
			Description: fmt.Sprintf("meshctl node %s\nmeshctl node %[1]s -o json", w.name),
			Action: func(c *cli.Context) error {
				if _, err := operands(c, 0, 0); err != nil {
					return err
				}
				return t.wish(c, w.wish)
			}})
	}
	return all
}

func (t terminal) wish(c *cli.Context, w policy.Wish) error {
	dir, err := home(c)
	if err != nil {
		return err
	}
	m, base, err := ownMesh(dir)
	if err != nil {
		return err
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return err
	}
	var o wire.Offer
	err = user{home: dir, key: key}.own(c.Context, m, base, func(ctx context.Context, cl *client.Client, id record.NodeID) error {
		o, err = cl.Wish(ctx, id, uint8(w))
		return err
	})
	if err != nil {
		return err
	}
	return show(t, c, o, []column[wire.Offer]{
		{head: "device", cell: func(o wire.Offer) string { return deviceText(o.Device) }},
		{head: "state", cell: offerState},
		{head: "running", cell: func(o wire.Offer) string { return fmt.Sprintf("%d of %d slots", o.Leases, o.Slots) }},
	})
}

// ownMesh is the mesh that this home's node is in.
func ownMesh(dir string) (m signedMesh, base string, err error) {
	m, joined, err := joinedMesh(dir)
	if err != nil || joined {
		return m, nodeBase(dir), err
	}
	if m, err = readMesh(embeddedFile(dir)); errors.Is(err, fs.ErrNotExist) {
		return m, "", notRunning()
	}
	return m, embeddedBase(dir), err
}

func notRunning() error {
	return &refusal{status: 1, text: "this home's node does not run", next: "meshctl node run"}
}

// own speaks with this home's node alone: its owner is obeyed when no gateway is there.
func (u user) own(ctx context.Context, m signedMesh, base string, use func(context.Context, *client.Client, record.NodeID) error) error {
	h, found := findHolder(base)
	if !found {
		return notRunning()
	}
	dir, slot, err := openCache(u.home)
	if err != nil {
		return err
	}
	defer slot.Close()
	cl, err := client.Dial(ctx, u.key, m, client.Config{Dir: dir, Addrs: map[record.NodeID]string{h.Node: h.Addr}})
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, u.wait())
	defer cancel()
	if err := use(ctx, cl, h.Node); !wire.Is(err, wire.Unavailable) && ctx.Err() == nil {
		return err
	}
	return &refusal{status: 1, text: fmt.Sprintf("this home's node, process %d, does not answer", h.PID),
		next: fmt.Sprintf("kill %d takes the device back in any case", h.PID)}
}

// offerState says whether a device is for sale, and why not.
func offerState(o wire.Offer) string {
	if o.Why == "" {
		return o.State
	}
	return o.State + ": " + o.Why
}
