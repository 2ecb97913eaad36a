package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

type consistencyView struct {
	OK    bool       `json:"ok"`
	Older headView   `json:"older"`
	Newer headView   `json:"newer"`
	Mesh  record.Ref `json:"mesh"`
	Error string     `json:"error,omitempty"`
	// Evidence are the two signed tree heads, where they contradict each other.
	Evidence []string `json:"evidence,omitempty"`
}

// verifyConsistency shows that one signed tree head is the beginning of another.
func (t terminal) verifyConsistency(c *cli.Context, a, b string) error {
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		mesh := src.Mesh()
		if c.IsSet("mesh") {
			var err error
			if mesh, err = trustedMesh(c); err != nil {
				return err
			}
		}
		older, err := signedHead(ctx, src, mesh, a)
		if err != nil {
			return err
		}
		newer, err := signedHead(ctx, src, mesh, b)
		if err != nil {
			return err
		}
		if older.Size > newer.Size {
			older, newer = newer, older
		}
		v := consistencyView{Older: headView{older.Size, older.Root}, Newer: headView{newer.Size, newer.Root}, Mesh: mesh.Ref()}
		err = consistent(ctx, src, older, newer)
		if v.OK = err == nil; !v.OK {
			v.Error = clean(err.Error())
			if older.Size == newer.Size {
				v.Evidence = []string{older.Note, newer.Note}
			}
			if _, e := t.encode(c, v); e != nil {
				return e
			}
			return &refusal{status: 7, text: "ledger verify: " + err.Error()}
		}
		return show(t, c, v, []column[consistencyView]{
			{head: "result", cell: func(consistencyView) string { return "ok: nothing was changed or taken out in between" }},
			{head: "older", cell: func(v consistencyView) string { return fmt.Sprintf("%d %s", v.Older.Size, v.Older.Root) }},
			{head: "newer", cell: func(v consistencyView) string { return fmt.Sprintf("%d %s", v.Newer.Size, v.Newer.Root) }},
			{head: "mesh", cell: func(v consistencyView) string { return v.Mesh.String() }},
		})
	})
}

// consistent asks the log for the path between two heads that keepers have signed.
func consistent(ctx context.Context, src logSource, older, newer tree.Head) error {
	if older.Size == newer.Size {
		if older.Root != newer.Root {
			return fmt.Errorf("the keepers signed two logs of %d entries: both tree heads together prove it", older.Size)
		}
		return nil
	}
	path, err := src.Consistency(ctx, older.Size, newer.Size)
	if err != nil {
		return err
	}
	return tree.CheckConsistency(older, newer, path)
}

// signedHead reads a tree head: from a file that is one or a proof under one, or by its
// size from the log.
func signedHead(ctx context.Context, src logSource, mesh record.Signed[record.Mesh], name string) (tree.Head, error) {
	b, err := readSome(name, maxProofFile)
	switch {
	case err == nil:
		return headOf(name, b, mesh)
	case !errors.Is(err, fs.ErrNotExist):
		return tree.Head{}, usage("", "ledger verify: %v", plain(err))
	}
	size := uint64(0)
	if name != "now" {
		if size, err = parseIndex(name); err != nil || size == 0 {
			return tree.Head{}, usage("", "ledger verify: %q is no tree head: want a file that has one, the size of a log, or now", name)
		}
	}
	rep, err := src.HeadAt(ctx, size)
	if err != nil {
		return tree.Head{}, err
	}
	head, err := tree.Open(rep.Note, mesh)
	if err == nil && size > 0 && head.Size != size {
		err = fmt.Errorf("%w: of size %d, not %d", tree.ErrHead, head.Size, size)
	}
	if err != nil {
		return head, &refusal{status: 7, text: fmt.Sprintf("ledger verify: %s: %v", name, err)}
	}
	return head, nil
}

func headOf(name string, b []byte, mesh record.Signed[record.Mesh]) (tree.Head, error) {
	text := string(b)
	var p tree.Proof
	if p.UnmarshalText(b) == nil {
		text = p.Head.Note
	}
	head, err := tree.Open(text, mesh)
	if err != nil {
		return head, &refusal{status: 7, text: fmt.Sprintf("ledger verify: %s: %v", name, err)}
	}
	return head, nil
}
