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

// maxReplay is how many entries are replayed at a time.
const maxReplay = 512

func (t terminal) ledgerVerify(c *cli.Context) error {
	most := 1
	if c.Bool("consistency") {
		most = 2
	}
	args, err := operands(c, most-1, most)
	if err != nil {
		return err
	}
	switch {
	case c.Bool("consistency") && len(args) == 2:
		return t.verifyConsistency(c, args[0], args[1])
	case c.Bool("consistency"):
		return t.verifyConsistency(c, args[0], "now")
	case len(args) == 1 && (c.Bool("full") || c.Bool("rebuild") || c.IsSet("dir")):
		return usage("meshctl ledger verify --help", "ledger verify: a proof is checked by itself: leave out --full, --rebuild and --dir, or leave out %s", args[0])
	case len(args) == 1:
		return t.verifyFile(c, args[0])
	case c.IsSet("dir"):
		return t.verifyFolder(c)
	case c.Bool("rebuild"):
		return usage("", "ledger verify: --rebuild needs --dir DIR: a copy of the ledger, whose indexes are rebuilt and compared")
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		mesh := cl.Mesh()
		if c.IsSet("mesh") {
			if mesh, err = trustedMesh(c); err != nil {
				return err
			}
		}
		return t.verifyStream(ctx, c, cl, mesh)
	})
}

// verifyFolder recomputes a copy of the ledger, with no node. Where a signed tree head
// lies beside it, opening it has held the log to that.
func (t terminal) verifyFolder(c *cli.Context) error {
	f, err := openFolder(c)
	if err != nil {
		return err
	}
	defer f.close()
	scr := newScreen(t)
	defer scr.close()
	at := func(done, total uint64) { scr.at("verify", done, total, fmt.Sprintf("%d of %d entries", done, total)) }
	var rep ledger.Report
	if c.Bool("rebuild") {
		rep, err = rebuildFolder(c, f, at)
	} else {
		rep, err = f.ledger.Verify(c.Context, at)
	}
	if err != nil {
		return fmt.Errorf("ledger %w", err)
	}
	scr.close()
	v := verdictView{OK: true, Entries: rep.Entries, Head: headView{rep.Head.Size, rep.Head.Root}, Mesh: f.mesh.Ref()}
	if h := f.ledger.Signed(); h.Note != "" {
		v.Signed = &headView{h.Size, h.Root}
	}
	return t.showVerdict(c, v)
}

// rebuildFolder rebuilds everything but the entries: in --out, where it stays, or in a
// folder that goes away.
func rebuildFolder(c *cli.Context, f *folder, progress func(done, total uint64)) (ledger.Report, error) {
	out := c.String("out")
	if out == "" {
		tmp, err := os.MkdirTemp("", "meshctl-rebuild-")
		if err != nil {
			return ledger.Report{}, err
		}
		defer os.RemoveAll(tmp)
		out = filepath.Join(tmp, "ledger")
	}
	return f.ledger.Rebuild(c.Context, out, progress)
}

// verifyStream replays the keeper's log into a ledger of its own, under the mesh's
// rules and the log's own times: a wrong signature, number or balance is refused there
// as it would be by a keeper, and the tree that grows must be the one that the keepers
// signed.
func (t terminal) verifyStream(ctx context.Context, c *cli.Context, cl logSource, mesh record.Signed[record.Mesh]) error {
	rep, err := cl.Head(ctx)
	if err != nil {
		return err
	}
	head, err := tree.Open(rep.Note, mesh)
	if err != nil {
		return &refusal{status: 7, text: fmt.Sprintf("ledger verify: %v", err)}
	}
	r, err := newReplay(mesh)
	if err != nil {
		return fmt.Errorf("ledger verify: %w", err)
	}
	defer r.close()
	scr := newScreen(t)
	defer scr.close()
	if head.Size > 0 {
		for row, err := range pages(ctx, cl, wire.QueryRequest{Size: head.Size}) {
			if err == nil {
				err = r.add(row)
			}
			if err != nil {
				return err
			}
			scr.at("verify", r.next, head.Size, fmt.Sprintf("%d of %d entries", r.next, head.Size))
			if r.next == head.Size {
				break
			}
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	if got := r.ledger.Head(); got.Size != head.Size || got.Root != head.Root {
		return &refusal{status: 7, text: fmt.Sprintf("ledger verify: %d entries lead to root %v, but the keepers signed %d with %v",
			got.Size, got.Root, head.Size, head.Root)}
	}
	scr.close()
	return t.showVerdict(c, verdictView{OK: true, Entries: head.Size, Head: headView{head.Size, head.Root}, Mesh: mesh.Ref()})
}

// A replay is a ledger that takes another's entries at their own times.
type replay struct {
	name   string // of the command
	dir    string
	ledger *ledger.Ledger
	now    record.Millis
	next   uint64
	batch  []record.Raw
}

func newReplay(mesh record.Signed[record.Mesh]) (*replay, error) {
	dir, err := os.MkdirTemp("", "meshctl-verify-")
	if err != nil {
		return nil, err
	}
	r := &replay{name: "ledger verify", dir: dir}
	key, err := identity.New() // its heads are not shown to anybody
	if err == nil {
		r.ledger, err = ledger.Open(dir, mesh, key, ledger.Config{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now.Time() }})
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

func (r *replay) close() {
	r.ledger.Close()
	os.RemoveAll(r.dir)
}

func (r *replay) add(row wire.Row) error {
	if row.Index != r.next {
		return &refusal{status: 7, text: fmt.Sprintf("%s: entry %d where entry %d should be", r.name, row.Index, r.next)}
	}
	if row.Time != r.now || len(r.batch) == maxReplay {
		if err := r.flush(); err != nil {
			return err
		}
	}
	if row.Time < r.now {
		return &refusal{status: 7, text: fmt.Sprintf("%s: entry %d: its time is before that of entry %d", r.name, row.Index, row.Index-1)}
	}
	r.now, r.next = row.Time, r.next+1
	r.batch = append(r.batch, row.Entry)
	return nil
}

func (r *replay) flush() error {
	if len(r.batch) == 0 {
		return nil
	}
	first := r.next - uint64(len(r.batch))
	out, err := r.ledger.Apply(r.batch)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	for i, o := range out {
		at := first + uint64(i)
		switch {
		case o.Err != nil:
			return &refusal{status: 7, text: fmt.Sprintf("%s: entry %d: %v", r.name, at, o.Err)}
		case o.Known || o.Index != at:
			return &refusal{status: 7, text: fmt.Sprintf("%s: entry %d is entry %d again", r.name, at, o.Index)}
		}
	}
	r.batch = r.batch[:0]
	return nil
}
