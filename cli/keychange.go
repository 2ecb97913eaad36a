package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
)

// keyChanges are the commands by which an account's keys change.
func (t terminal) keyChanges() []*cli.Command {
	recovery := &cli.StringFlag{Name: "recovery", Usage: "sign with the recovery key in `FILE`"}
	return []*cli.Command{
		{
			Name: "register", Usage: "make an account whose key can be replaced, and move there what yours has",
			Flags: []cli.Flag{&cli.StringFlag{Name: "recovery", Usage: "`KEY` takes the account back: the public key of one that you keep elsewhere (wanted)"}, nodeFlag},
			Description: "meshctl --home /media/safe key new -o wide\n" +
				"meshctl key register --recovery PUBLICKEY",
			Action: t.keyRegister,
		},
		{
			Name: "rotate", Usage: "give your account another key in 24 hours, unless the recovery key vetoes",
			Flags:       []cli.Flag{&cli.StringFlag{Name: "to", Usage: "the next key is in `FILE`, made where there is none (wanted)"}, nodeFlag},
			Description: "meshctl key rotate --to next.key", Action: t.keyRotate,
		},
		{
			Name: "veto", Usage: "end a rotation that waits, with the recovery key", ArgsUsage: "ACCOUNT", Flags: []cli.Flag{recovery},
			Description: "meshctl key veto ACCOUNT --recovery /media/safe/key", Action: t.keyVeto,
		},
		{
			Name: "revoke", Usage: "end your account's key at once; with the recovery key name another", ArgsUsage: "[ACCOUNT]",
			Flags:       []cli.Flag{recovery, &cli.StringFlag{Name: "to", Usage: "the next key is in `FILE`, made where there is none"}, nodeFlag},
			Description: "meshctl key revoke\nmeshctl key revoke ACCOUNT --recovery /media/safe/key --to new.key", Action: t.keyRevoke,
		},
	}
}

func (t terminal) keyRegister(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	var body record.Register
	if err := body.Recovery.UnmarshalText([]byte(c.String("recovery"))); err != nil {
		return usage("meshctl --home ELSEWHERE key new -o wide", "key register: --recovery: %v", err)
	}
	key, err := signer(c)
	if err != nil {
		return err
	}
	body.Key = key.PublicKey()
	err = t.postAs(c, record.Entry{Kind: record.TypeRegister, Register: &body}, nil)
	if err == nil {
		t.hint("account", body.Account().String())
	}
	return err
}

// nextKey is the key of --to, with its consent to be an account's.
func nextKey(c *cli.Context, of record.NodeID) (s record.Signed[record.Successor], err error) {
	key, err := identity.Open(c.String("to"))
	if err != nil {
		return s, err
	}
	return record.Sign(key, record.Successor{Account: of})
}

func (t terminal) keyRotate(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	if c.String("to") == "" {
		return usage("meshctl key rotate --help", "key rotate: want --to FILE, the next key's")
	}
	key, err := signer(c)
	if err != nil {
		return err
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		b, err := cl.Balance(ctx, key.ID())
		if err != nil {
			return err
		}
		next, err := nextKey(c, b.Account)
		if err != nil {
			return err
		}
		e := record.Entry{Kind: record.TypeRotate, Idem: idemOf(c), Rotate: &record.Rotate{Next: next}}
		err = t.send(ctx, c, cl, key, e)
		if err == nil {
			t.hint("then", fmt.Sprintf("in 24 hours %s is your key; keep the old one until then", c.String("to")))
		}
		return err
	})
}

func (t terminal) keyVeto(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	of, err := record.ParseNodeID(args[0])
	if err != nil {
		return usage("meshctl account show", "key veto: %v", err)
	}
	key, err := recoveryKey(c)
	if err != nil {
		return err
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		return t.send(ctx, c, cl, key, record.Entry{Kind: record.TypeVeto, Idem: idemOf(c), Veto: &record.Veto{Account: of}})
	})
}

// recoveryKey is the key of --recovery, which is never made: it would be another.
func recoveryKey(c *cli.Context) (identity.Key, error) {
	path, name := c.String("recovery"), full(c)
	if path == "" {
		return identity.Key{}, usage(name+" --help", "%swant --recovery FILE", prefix(name))
	}
	if _, err := os.Lstat(path); err != nil {
		return identity.Key{}, &refusal{status: 2, text: fmt.Sprintf("%s--recovery: %v", prefix(name), plain(err))}
	}
	return identity.Open(path)
}

func (t terminal) keyRevoke(c *cli.Context) error {
	args, err := operands(c, 0, 1)
	if err != nil {
		return err
	}
	var body record.Revoke
	if len(args) == 1 {
		if body.Account, err = record.ParseNodeID(args[0]); err != nil {
			return usage("meshctl account show", "key revoke: %v", err)
		}
	}
	by, key := signer, identity.Key{}
	if c.IsSet("recovery") {
		by = recoveryKey
		if len(args) == 0 {
			return usage("meshctl key revoke --help", "key revoke: want the ACCOUNT whose recovery key it is")
		}
	}
	if key, err = by(c); err != nil {
		return err
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		if len(args) == 0 {
			b, err := cl.Balance(ctx, key.ID())
			if err != nil {
				return err
			}
			body.Account = b.Account
		}
		if c.IsSet("to") {
			next, err := nextKey(c, body.Account)
			if err != nil {
				return err
			}
			body.Next = &next
		}
		return t.send(ctx, c, cl, key, record.Entry{Kind: record.TypeRevoke, Idem: idemOf(c), Revoke: &body})
	})
}

// ownCommands are those of owners of nodes.
func (t terminal) ownCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "own", Usage: "be paid what a node earns: this home's, or one that consents",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "consent", Usage: "the node's consent is in `FILE`"},
				&cli.StringFlag{Name: "consent-to", Usage: "write this home's node's consent to be owned by `ACCOUNT`, and send nothing"},
				&cli.StringFlag{Name: "out", Usage: "write the consent to `FILE`"},
			},
			Description: "meshctl account own\nmeshctl account own --consent-to ACCOUNT --out consent   # where the node is\n" +
				"meshctl account own --consent consent                    # where ACCOUNT is",
			Action: t.own,
		},
		{
			Name: "disown", Usage: "let a node go, which is then paid itself; either side may", ArgsUsage: "NODE", Flags: []cli.Flag{nodeFlag},
			Description: "meshctl account disown NODE", Action: t.disown,
		},
	}
}

func (t terminal) own(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	if c.IsSet("consent-to") != c.IsSet("out") || c.IsSet("consent") && c.IsSet("out") {
		return usage("meshctl account own --help", "account own: want --consent FILE, or --consent-to ACCOUNT with --out FILE, or neither")
	}
	if c.IsSet("out") {
		of, err := record.ParseNodeID(c.String("consent-to"))
		if err != nil {
			return usage("meshctl account show", "account own: --consent-to: %v", err)
		}
		s, err := t.owned(c, of)
		if err == nil {
			err = plain(os.WriteFile(c.String("out"), s.Raw(), 0o666))
		}
		return err
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		b, err := cl.Balance(ctx, cl.ID())
		if err != nil {
			return err
		}
		s, err := t.owned(c, b.Account)
		if err != nil {
			return err
		}
		key, err := signer(c)
		if err != nil {
			return err
		}
		return t.send(ctx, c, cl, key, record.Entry{Kind: record.TypeOwn, Idem: idemOf(c), Own: &record.Own{Node: &s}})
	})
}

// owned is a node's consent: from a file, or this home's node's.
func (t terminal) owned(c *cli.Context, by record.NodeID) (s record.Signed[record.Owned], err error) {
	if path := c.String("consent"); path != "" {
		b, err := readSome(path, maxApproval)
		if err != nil {
			return s, usage("", "account own: %v", plain(err))
		}
		if s, err = record.Open[record.Owned](b); err != nil {
			return s, &refusal{status: 7, text: fmt.Sprintf("consent %s: %v", path, err)}
		}
		return s, nil
	}
	key, err := nodeSigner(c)
	if err != nil {
		return s, err
	}
	return record.Sign(key, record.Owned{Owner: by})
}

func (t terminal) disown(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	node, err := record.ParseNodeID(args[0])
	if err != nil {
		return usage("meshctl node status", "account disown: %v", err)
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		b, err := cl.Balance(ctx, node) // of its key, or by its account's name
		if err != nil {
			return err
		}
		key, err := signer(c)
		if err != nil {
			return err
		}
		return t.send(ctx, c, cl, key, record.Entry{Kind: record.TypeOwn, Idem: idemOf(c), Own: &record.Own{Let: b.Account}})
	})
}

// keys fills in what an entry about keys has; false where it is none.
func (v *entryView) keys(e record.Entry) bool {
	switch {
	case e.Register != nil:
		of := e.Register.Account()
		v.Of = &of
	case e.Rotate != nil:
		next := e.Rotate.Next.By()
		v.Of, v.Next = &e.Rotate.Next.Value.Account, &next
	case e.Veto != nil:
		v.Of = &e.Veto.Account
	case e.Revoke != nil:
		v.Of = &e.Revoke.Account
		if e.Revoke.Next != nil {
			next := e.Revoke.Next.By()
			v.Next = &next
		}
	case e.Own != nil && e.Own.Node != nil:
		node := e.Own.Node.By()
		v.Of, v.Node = &e.Own.Node.Value.Owner, &node
	case e.Own != nil:
		v.Node = &e.Own.Let
	default:
		return false
	}
	return true
}

// supervision fills in what an entry about who acts for a tenant has, or about the mesh's
// parameters; false where it is none.
func (v *entryView) supervision(e record.Entry) bool {
	switch {
	case e.Voucher != nil:
		p := e.Voucher.Value
		v.Lease, v.Amount, v.Work = &p.Lease, p.Amount, p.Work
	case e.Delegate != nil:
		v.Job, v.To, v.Amount, v.Rate = &e.Delegate.Job, &e.Delegate.Gateway, e.Delegate.Amount, e.Delegate.Rate
	case e.Adopt != nil:
		v.Job, v.Reason = &e.Adopt.Job, fmt.Sprintf(" epoch %d", e.Adopt.Epoch)
	case e.Evidence != nil:
		keeper := e.Evidence.Keeper.ID()
		v.Of, v.Reason = &keeper, fmt.Sprintf(", who signed two heads of size %d", e.Evidence.Size)
	case e.Change != nil:
		v.Reason = fmt.Sprintf("change %d from %s on", e.Change.N, stamp(e.Change.From))
	default:
		return false
	}
	return true
}
