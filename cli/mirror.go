package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

func (t terminal) mirrorCommand() *cli.Command {
	return &cli.Command{
		Name: "mirror", Usage: "copy the public log and verify all of it; goes on where it was", ArgsUsage: "DIR",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Usage: "and go on with each entry that comes, until Ctrl-C"},
			&cli.DurationFlag{Name: "every", Usage: "look for new entries each `TIME`", Value: 2 * time.Second},
		},
		Description: "meshctl ledger mirror copy\nmeshctl ledger mirror copy --follow\nmeshctl ledger query --dir copy --limit 5\nmeshctl ledger verify --dir copy",
		Action:      t.ledgerMirror,
	}
}

type mirrorView struct {
	Dir     string   `json:"dir"`
	Fetched uint64   `json:"fetched"`
	Head    headView `json:"head"`
}

func (t terminal) ledgerMirror(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	if c.Duration("every") < 100*time.Millisecond {
		return usage("", "ledger mirror: --every: want at least 100ms")
	}
	return t.anonymously(c, func(ctx context.Context, src logSource) error {
		r, err := openMirror(args[0], src.Mesh())
		if err != nil {
			return err
		}
		defer r.ledger.Close()
		for {
			v := mirrorView{Dir: args[0]}
			if v.Fetched, v.Head, err = t.catchUp(ctx, src, r); err != nil {
				return err
			}
			if !c.Bool("follow") {
				t.hint("use", "meshctl ledger query --dir "+args[0])
				return t.showMirror(c, v)
			}
			if v.Fetched > 0 {
				fmt.Fprintf(t.err, "%d entries\n", v.Head.Size)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(c.Duration("every")):
			}
		}
	})
}

func (t terminal) showMirror(c *cli.Context, v mirrorView) error {
	return show(t, c, v, []column[mirrorView]{
		{head: "dir", cell: func(v mirrorView) string { return v.Dir }},
		{head: "fetched", cell: func(v mirrorView) string {
			return fmt.Sprintf("%d entries, every signature, number, rule and hash", v.Fetched)
		}},
		{head: "tree head", cell: func(v mirrorView) string { return fmt.Sprintf("%d %s", v.Head.Size, v.Head.Root) }},
	})
}

// anonymously runs use with a keeper of the mesh that this home has joined, under a key
// made for it: the log is public, and who reads it is nobody's business. The embedded
// node is one's own.
func (t terminal) anonymously(c *cli.Context, use func(ctx context.Context, src logSource) error) error {
	dir, err := home(c)
	if err != nil {
		return err
	}
	m, joined, err := joinedMesh(dir)
	if err != nil {
		return err
	}
	if !joined {
		return t.connect(c, func(ctx context.Context, cl *client.Client) error { return use(ctx, cl) })
	}
	key, err := identity.New()
	if err != nil {
		return err
	}
	return user{home: dir, key: key}.joined(c.Context, m, func(ctx context.Context, cl *client.Client) error { return use(ctx, cl) })
}

// openMirror opens or makes a copy of a mesh's ledger that takes entries at their own
// times.
func openMirror(dir string, mesh record.Signed[record.Mesh]) (*replay, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("ledger mirror: %w", plain(err))
	}
	r := &replay{name: "ledger mirror", dir: dir}
	key, err := identity.New() // its own heads are shown to nobody
	if err != nil {
		return nil, err
	}
	r.ledger, err = ledger.Open(dir, mesh, key, ledger.Config{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now.Time() }})
	if err != nil {
		return nil, fmt.Errorf("ledger mirror: %w", err)
	}
	r.now, r.next = r.ledger.Time(), r.ledger.Head().Size
	if err := writeFile(filepath.Join(dir, "mesh.cbor"), mesh.Raw()); err != nil {
		r.ledger.Close()
		return nil, fmt.Errorf("ledger mirror: %w", plain(err))
	}
	return r, nil
}

// catchUp takes what a keeper has more than the copy. The copy must come to the root that
// the keepers signed: a log that was changed since the last time does not.
func (t terminal) catchUp(ctx context.Context, src logSource, r *replay) (fetched uint64, v headView, err error) {
	rep, err := src.Head(ctx)
	if err != nil {
		return 0, v, err
	}
	head, err := tree.Open(rep.Note, src.Mesh())
	if err != nil {
		return 0, v, &refusal{status: 7, text: fmt.Sprintf("ledger mirror: %v", err)}
	}
	before := r.next
	if head.Size < before {
		return 0, v, &refusal{status: 7, text: fmt.Sprintf("ledger mirror: the keeper has %d entries, fewer than the %d that it had before", head.Size, before)}
	}
	scr := newScreen(t)
	defer scr.close()
	if head.Size > before {
		for row, err := range pages(ctx, src, wire.QueryRequest{From: before, Size: head.Size}) {
			if err == nil {
				err = r.add(row)
			}
			if err != nil {
				return 0, v, err
			}
			scr.at("mirror", r.next, head.Size, fmt.Sprintf("%d of %d entries", r.next, head.Size))
		}
	}
	if err := r.flush(); err != nil {
		return 0, v, err
	}
	if got := r.ledger.Head(); got.Size != head.Size || got.Root != head.Root {
		return 0, v, &refusal{status: 7, text: fmt.Sprintf("ledger mirror: the copy of %d entries has root %v, but the keepers signed %v at %d: the log has been changed",
			got.Size, got.Root, head.Root, head.Size)}
	}
	if err := r.ledger.KeepHead(head); err != nil {
		return 0, v, err
	}
	return head.Size - before, headView{head.Size, head.Root}, nil
}
