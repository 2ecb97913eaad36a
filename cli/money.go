package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

var (
	earnedFlag = &cli.BoolFlag{Name: "earned", Usage: "take it from what you have earned, not from what is free"}
	nodeFlag   = &cli.BoolFlag{Name: "node", Usage: "do it as this home's node, whose account has what it earned"}
	onceFlag   = &cli.StringFlag{Name: "once", Usage: "do it once for `WORD`, however often the command runs"}
)

// moneyCommands are those that move an account's own credits.
func (t terminal) moneyCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "transfer", Usage: "give credits to another account, or free what you have earned", ArgsUsage: "ACCOUNT CREDITS",
			Flags:       []cli.Flag{earnedFlag, nodeFlag, onceFlag},
			Description: "meshctl account transfer $(meshctl key show -o name) 2.5 --earned --node\nmeshctl account transfer ACCOUNT 10 --once invoice-17",
			Action:      t.transfer,
		},
		{
			Name: "withdraw", Usage: "ask the mint to pay credits out; they are pending until it confirms", ArgsUsage: "CREDITS",
			Flags:       []cli.Flag{&cli.StringFlag{Name: "external", Usage: "whom the mint pays: `REF`, by which it knows you; public (wanted)"}, earnedFlag, nodeFlag, onceFlag},
			Description: "meshctl account withdraw 10 --external customer-17 --earned --node",
			Action:      t.withdraw,
		},
		{
			Name: "confirm", Usage: "end a withdrawal; only the holder of the mint's key may", ArgsUsage: "WITHDRAWAL",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "external", Usage: "it was paid by `REF`, which counts once"},
				&cli.BoolFlag{Name: "cancel", Usage: "give it back: it was not paid"},
			},
			Description: "meshctl ledger query --type withdraw\nmeshctl account confirm WITHDRAWAL --external payment-4711\nmeshctl account confirm WITHDRAWAL --cancel",
			Action:      t.confirm,
		},
		{
			Name: "stake", Usage: "add credits to your bond", ArgsUsage: "CREDITS", Flags: []cli.Flag{earnedFlag, nodeFlag, onceFlag},
			Description: "meshctl account stake 25 --earned --node", Action: t.stake,
		},
		{
			Name: "unstake", Usage: "take back part of your bond; vest pays it out once the mesh's wait is over", ArgsUsage: "CREDITS",
			Flags:       []cli.Flag{nodeFlag, onceFlag},
			Description: "meshctl account unstake 5\nmeshctl account vest", Action: t.unstake,
		},
		{
			Name: "vest", Usage: "pay out what has become payable: of what was held back, and of a bond", ArgsUsage: "[ACCOUNT]", Flags: []cli.Flag{nodeFlag},
			Description: "meshctl account vest\nmeshctl account vest --node", Action: t.vest,
		},
		{
			Name: "reward", Usage: "pay from the mesh's own fees; a quorum of keepers must approve", ArgsUsage: "ACCOUNT CREDITS",
			Flags: append(approvalFlags(), &cli.StringFlag{Name: "external", Usage: "what it is for: `REF` counts once (wanted)"},
				&cli.BoolFlag{Name: "insurance", Usage: "take it from the insurance, not from the fees"}),
			Description: "meshctl account reward ACCOUNT 1 --external canary-3 --approve", Action: t.reward,
		},
	}
}

func (t terminal) transfer(c *cli.Context) error {
	args, err := operands(c, 2, 2)
	if err != nil {
		return err
	}
	to, err := record.ParseNodeID(args[0])
	if err != nil {
		return usage("meshctl key show", "account transfer: %v", err)
	}
	amount, err := amountOf(c, args[1])
	if err != nil {
		return err
	}
	return t.post(c, record.Entry{Kind: record.TypeTransfer, Transfer: &record.Transfer{To: to, Amount: amount, Earned: c.Bool("earned")}})
}

func (t terminal) withdraw(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	amount, err := amountOf(c, args[0])
	if err != nil {
		return err
	}
	external, err := externalOf(c)
	if err != nil {
		return err
	}
	return t.post(c, record.Entry{Kind: record.TypeWithdraw, Withdraw: &record.Withdraw{Amount: amount, External: external, Earned: c.Bool("earned")}})
}

func (t terminal) confirm(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	name, err := record.ParseRef(args[0])
	if err != nil {
		return usage("meshctl ledger query --type withdraw -o wide", "account confirm: %v", err)
	}
	if c.Bool("cancel") == c.IsSet("external") {
		return usage("meshctl account confirm --help", "account confirm: want --external REF of the payment, or --cancel")
	}
	body := record.Confirm{Withdrawal: name, Paid: !c.Bool("cancel"), External: c.String("external")}
	return t.postAs(c, record.Entry{Kind: record.TypeConfirm, Idem: sha256.Sum256(append([]byte("confirm"), name[:]...)), Confirm: &body}, mintOnly)
}

func (t terminal) stake(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	amount, err := amountOf(c, args[0])
	if err != nil {
		return err
	}
	return t.post(c, record.Entry{Kind: record.TypeStake, Stake: &record.Stake{Amount: amount, Earned: c.Bool("earned")}})
}

func (t terminal) unstake(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	amount, err := amountOf(c, args[0])
	if err != nil {
		return err
	}
	return t.post(c, record.Entry{Kind: record.TypeUnstake, Unstake: &record.Unstake{Amount: amount}})
}

func (t terminal) vest(c *cli.Context) error {
	args, err := operands(c, 0, 1)
	if err != nil {
		return err
	}
	body := record.Vest{}
	if len(args) == 1 {
		if body.Of, err = record.ParseNodeID(args[0]); err != nil {
			return usage("meshctl key show", "account vest: %v", err)
		}
	}
	return t.postAs(c, record.Entry{Kind: record.TypeVest, Vest: &body}, func(_ record.Mesh, by record.NodeID, _ *record.Entry) error {
		if body.Of == (record.NodeID{}) {
			body.Of = by
		}
		return nil
	})
}

func (t terminal) reward(c *cli.Context) error {
	args, err := operands(c, 2, 2)
	if err != nil {
		return err
	}
	to, err := record.ParseNodeID(args[0])
	if err != nil {
		return usage("", "account reward: %v", err)
	}
	amount, err := amountOf(c, args[1])
	if err != nil {
		return err
	}
	external, err := externalOf(c)
	if err != nil {
		return err
	}
	e := record.Entry{Kind: record.TypeReward, Reward: &record.Reward{To: to, Amount: amount, Insurance: c.Bool("insurance"), External: external}}
	return t.approved(c, e, nil)
}

func amountOf(c *cli.Context, s string) (record.Amount, error) {
	name := full(c)
	a, err := record.ParseAmount(s)
	if err == nil && a == 0 {
		err = fmt.Errorf("want more than 0")
	}
	if err != nil {
		return 0, usage(name+" --help", "%s%v", prefix(name), err)
	}
	return a, nil
}

func externalOf(c *cli.Context) (string, error) {
	name, s := full(c), c.String("external")
	if s == "" || len(s) > 128 {
		return "", usage(name+" --help", "%swant --external REF, at most 128 bytes", prefix(name))
	}
	return s, nil
}

// mintOnly says at once what the ledger would refuse.
func mintOnly(m record.Mesh, by record.NodeID, _ *record.Entry) error {
	if mint := m.Mint.ID(); mint != by {
		return &wire.Error{Code: wire.Denied, Next: "meshctl key show",
			Text: fmt.Sprintf("only the mint's key (%s) may, and yours is %s", mint.Short(), by.Short())}
	}
	return nil
}

// post writes an entry of the user's own, and shows what it did.
func (t terminal) post(c *cli.Context, e record.Entry) error { return t.postAs(c, e, nil) }

// A readyFunc has a last word before an entry of a party's is written.
type readyFunc = func(m record.Mesh, by record.NodeID, e *record.Entry) error

// postAs is post with a last word.
func (t terminal) postAs(c *cli.Context, e record.Entry, ready readyFunc) error {
	if e.Idem == (record.Ref{}) {
		e.Idem = idemOf(c)
	}
	key, err := signer(c)
	if err != nil {
		return err
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		if ready != nil {
			if err := ready(cl.Mesh().Value, key.ID(), &e); err != nil {
				return err
			}
		}
		return t.send(ctx, c, cl, key, e)
	})
}

// send writes an entry that key signs, and shows it.
func (t terminal) send(ctx context.Context, c *cli.Context, cl *client.Client, key identity.Key, e record.Entry) error {
	var at uint64
	err := again(ctx, func() (err error) {
		at, err = cl.AppendAs(ctx, key, e)
		return err
	})
	if err != nil {
		return err
	}
	return t.posted(ctx, c, cl, at)
}

// signer is whose entry a command writes: the user's, or with --node his node's, whose
// account has what it earned.
func signer(c *cli.Context) (identity.Key, error) {
	dir, err := home(c)
	if err != nil {
		return identity.Key{}, err
	}
	if c.Bool("node") {
		return nodeSigner(c)
	}
	return identity.Open(keyFile(dir))
}

// nodeSigner is the key of this home's node, which must have one.
func nodeSigner(c *cli.Context) (identity.Key, error) {
	dir, err := home(c)
	if err != nil {
		return identity.Key{}, err
	}
	path := nodeKeyFile(dir)
	if _, err := os.Lstat(path); err != nil {
		return identity.Key{}, &refusal{status: 5, text: "this home has no node yet: " + path, next: "meshctl node run"}
	}
	return identity.Open(path)
}

// posted shows an entry as the log has it.
func (t terminal) posted(ctx context.Context, c *cli.Context, cl *client.Client, at uint64) error {
	for row, err := range cl.Query(ctx, wire.QueryRequest{From: at, Limit: 1}) {
		if err != nil {
			return err
		}
		v, err := viewEntry(row)
		if err != nil {
			return err
		}
		return show(t, c, v, append([]column[entryView]{
			{head: "entry", cell: func(v entryView) string { return fmt.Sprint(v.Index) }},
			{head: "withdrawal", cell: func(v entryView) string {
				if v.Withdrawal == nil {
					return ""
				}
				return v.Withdrawal.String()
			}},
		}, entryColumns[1:]...))
	}
	return wire.Refuse(wire.Internal, fmt.Sprintf("entry %d is not in the log", at))
}

// idemOf is the key under which a command's entry counts once: the user's word, or none
// but this run.
func idemOf(c *cli.Context) (idem record.Ref) {
	if c.IsSet("once") {
		return sha256.Sum256([]byte(full(c) + "\x00" + c.String("once")))
	}
	rand.Read(idem[:])
	return idem
}

// some renders an amount that most accounts do not have.
func some(a record.Amount) string {
	if a == 0 {
		return ""
	}
	return credits(a) + " cr"
}

// money fills in what an entry that moves an account's own credits has; false where it is
// none.
func (v *entryView) money(e record.Entry) bool {
	switch {
	case e.Transfer != nil:
		v.Amount, v.To, v.Earned = e.Transfer.Amount, &e.Transfer.To, e.Transfer.Earned
	case e.Withdraw != nil:
		name := e.Name(v.Author)
		v.Amount, v.Extern, v.Earned, v.Withdrawal = e.Withdraw.Amount, e.Withdraw.External, e.Withdraw.Earned, &name
	case e.Confirm != nil:
		v.Withdrawal, v.Paid, v.Extern = &e.Confirm.Withdrawal, &e.Confirm.Paid, e.Confirm.External
	case e.Stake != nil:
		v.Amount, v.Earned = e.Stake.Amount, e.Stake.Earned
	case e.Unstake != nil:
		v.Amount = e.Unstake.Amount
	case e.Vest != nil:
		v.To = &e.Vest.Of
	case e.Reward != nil:
		v.Amount, v.To, v.Extern = e.Reward.Amount, &e.Reward.To, e.Reward.External
	case e.TopUp != nil:
		v.Job, v.Amount = &e.TopUp.Job, e.TopUp.Amount
		if e.TopUp.Lease != (record.Ref{}) {
			v.Lease = &e.TopUp.Lease
		}
	default:
		return false
	}
	return true
}
