package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

func (t terminal) accountCommand() *cli.Command {
	return &cli.Command{Name: "account", Usage: "accounts, which keys are", Subcommands: []*cli.Command{
		{
			Name: "show", Usage: "show what an account has, or yours", ArgsUsage: "[ACCOUNT]",
			Description: "meshctl account show\nmeshctl account show -o json",
			Action:      func(c *cli.Context) error { return t.balance(c) },
		},
		{
			Name: "deposit", Usage: "credit an account; only the holder of the mint's key may", ArgsUsage: "ACCOUNT CREDITS",
			Flags:       []cli.Flag{&cli.StringFlag{Name: "external", Usage: "what it is for, outside: `REF` counts once (wanted)"}},
			Description: "meshctl account deposit $(meshctl key show -o name) 10.00 --external invoice-17",
			Action:      t.deposit,
		},
	}}
}

type depositView struct {
	Account  record.NodeID `json:"account"`
	Amount   record.Amount `json:"amount_ucr"`
	External string        `json:"external"`
	Entry    uint64        `json:"entry"`
}

func (t terminal) deposit(c *cli.Context) error {
	args, err := operands(c, 2, 2)
	if err != nil {
		return err
	}
	to, err := record.ParseNodeID(args[0])
	if err != nil {
		return usage("meshctl key show", "account deposit: %v", err)
	}
	amount, err := record.ParseAmount(args[1])
	external := c.String("external")
	switch {
	case err != nil:
		return usage("meshctl account deposit --help", "account deposit: %v", err)
	case external == "" || len(external) > 128:
		return usage("meshctl account deposit --help", "account deposit: want --external REF, at most 128 bytes: the same reference counts once")
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		if mint := cl.Mesh().Value.Mint.ID(); mint != cl.ID() {
			return &wire.Error{Code: wire.Denied, Next: "meshctl key show",
				Text: fmt.Sprintf("account deposit: only the mint's key (%s) may, and yours is %s", mint.Short(), cl.ID().Short())}
		}
		place, err := cl.Deposit(ctx, to, amount, external)
		if err != nil {
			return err
		}
		return show(t, c, depositView{to, amount, external, place.Index}, []column[depositView]{
			{head: "account", cell: func(v depositView) string { return v.Account.String() }},
			{head: "amount", cell: func(v depositView) string { return credits(v.Amount) + " cr" }},
			{head: "external", cell: func(v depositView) string { return v.External }},
			{head: "entry", cell: func(v depositView) string { return fmt.Sprint(v.Entry) }},
		})
	})
}
