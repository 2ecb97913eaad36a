package cli

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/client"
)

func (t terminal) accuseCommand() *cli.Command {
	return &cli.Command{
		Name: "accuse", Usage: "bring two tree heads of one size with different roots to the log, at the cost of who signed both", ArgsUsage: "HEAD HEAD",
		Description: "meshctl ledger accuse head.mine head.theirs", Action: t.accuse,
	}
}

const maxHeadFile = 64 << 10

func (t terminal) accuse(c *cli.Context) error {
	args, err := operands(c, 2, 2)
	if err != nil {
		return err
	}
	var heads [2]string
	for i, path := range args {
		b, err := readSome(path, maxHeadFile)
		if err != nil {
			return usage("", "ledger accuse: %v", plain(err))
		}
		heads[i] = string(b)
	}
	key, err := signer(c)
	if err != nil {
		return err
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		all, err := tree.Forks(heads[0], heads[1], cl.Mesh())
		if err != nil {
			return &refusal{status: 7, text: fmt.Sprintf("ledger accuse: %v", err)}
		}
		for _, e := range all {
			body, err := record.Encode(e)
			if err != nil {
				return err
			}
			entry := record.Entry{Kind: record.TypeEvidence, Idem: sha256.Sum256(body), Evidence: &e}
			if err := t.send(ctx, c, cl, key, entry); err != nil {
				return err
			}
		}
		return nil
	})
}
