package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
)

func (t terminal) accountCommand() *cli.Command {
	return &cli.Command{Name: "account", Usage: "accounts, which keys are", Subcommands: append([]*cli.Command{
		{
			Name: "show", Usage: "show what an account has, or yours", ArgsUsage: "[ACCOUNT]",
			Description: "meshctl account show\nmeshctl account show -o json",
			Action:      func(c *cli.Context) error { return t.balance(c) },
		},
		{
			Name: "deposit", Usage: "credit an account; only the holder of the mint's key may", ArgsUsage: "ACCOUNT CREDITS",
			Flags:       append([]cli.Flag{&cli.StringFlag{Name: "external", Usage: "what it is for, outside: `REF` counts once (wanted)"}}, approvalFlags()...),
			Description: "meshctl account deposit $(meshctl key show -o name) 10.00 --external invoice-17\nmeshctl account deposit ACCOUNT 50000 --external big-1 --approve",
			Action:      t.deposit,
		},
	}, append(t.moneyCommands(), t.ownCommands()...)...)}
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
	amount, err := amountOf(c, args[1])
	if err != nil {
		return err
	}
	external, err := externalOf(c)
	if err != nil {
		return err
	}
	if c.Bool("approve") || c.IsSet("approval") || c.IsSet("approval-out") {
		e := record.Entry{Kind: record.TypeDeposit, Deposit: &record.Deposit{To: to, Amount: amount, External: external}}
		return t.approved(c, e, mintOnly)
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		if err := mintOnly(cl.Mesh().Value, cl.ID(), nil); err != nil {
			return err
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
