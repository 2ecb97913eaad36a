package cli

import (
	"crypto/sha256"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
)

// approvalFlags are those of entries that a quorum of keepers must consent to.
func approvalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "approve", Usage: "consent as the keeper whose node key this home has"},
		&cli.StringSliceFlag{Name: "approval", Usage: "add the consent of another keeper, from `FILE`; may be repeated"},
		&cli.StringFlag{Name: "approval-out", Usage: "write this home's consent to `FILE`, for whoever sends the entry, and send nothing"},
	}
}

const maxApproval = 4096

// approved sends an entry with the approvals that the flags name, or writes one.
func (t terminal) approved(c *cli.Context, e record.Entry, ready readyFunc) error {
	e.V = 1
	body, err := record.Encode(e)
	if err != nil {
		return err
	}
	e.Idem = sha256.Sum256(body) // sent again it is the same entry
	dir, err := home(c)
	if err != nil {
		return err
	}
	if out := c.String("approval-out"); out != "" {
		return approveTo(out, dir, e)
	}
	for _, path := range c.StringSlice("approval") {
		b, err := readSome(path, maxApproval)
		if err != nil {
			return usage("", "%s: %v", prefix(full(c)), plain(err))
		}
		a, err := record.Open[record.Approval](b)
		if err != nil {
			return &refusal{status: 7, text: fmt.Sprintf("approval %s: %v", path, err)}
		}
		e.Approvals = append(e.Approvals, a)
	}
	return t.postAs(c, e, func(m record.Mesh, by record.NodeID, e *record.Entry) error {
		if ready != nil {
			if err := ready(m, by, e); err != nil {
				return err
			}
		}
		if !c.Bool("approve") {
			return nil
		}
		a, err := consent(dir, m, *e)
		e.Approvals = append(e.Approvals, a)
		return err
	})
}

// approveTo writes this home's keeper's consent to a file.
func approveTo(out, dir string, e record.Entry) error {
	m, err := readMesh(currentMesh(dir))
	if err != nil {
		return err
	}
	a, err := consent(dir, m.Value, e)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, a.Raw(), 0o666); err != nil {
		return fmt.Errorf("approval: %w", plain(err))
	}
	return nil
}

// consent signs what e does as the keeper whose key this home has.
func consent(dir string, m record.Mesh, e record.Entry) (a record.Signed[record.Approval], err error) {
	path := nodeKeyFile(dir)
	if _, err := os.Lstat(path); err != nil {
		return a, &refusal{status: 4, text: "approve: this home has no keeper's key: " + path, next: "run it where the keeper's node runs"}
	}
	key, err := identity.Open(path)
	if err != nil {
		return a, err
	}
	if _, ok := m.Keeper(key.ID()); !ok {
		return a, &refusal{status: 4, text: fmt.Sprintf("approve: %s is not a keeper of mesh %s", key.ID().Short(), m.Name), next: "meshctl mesh show"}
	}
	matter, err := record.Matter(m, e)
	if err != nil {
		return a, err
	}
	return record.Sign(key, record.Approval{Matter: matter})
}
