package cli

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/client"
	"idlemesh/mesh/keeper"
	"idlemesh/mesh/wire"
)

// dirFlags are of commands that can read a copy of the ledger instead of asking a keeper.
func dirFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "dir", Usage: "read the ledger in folder `DIR`, such as a mirror or a backup, and ask no keeper"},
		meshFlag(),
	}
}

func meshFlag() cli.Flag {
	return &cli.StringFlag{Name: "mesh", Usage: "take the keepers' keys from mesh file `FILE`, not from the one joined"}
}

// readLog runs use with the log that the flags name: that of --dir, or a keeper's.
func (t terminal) readLog(c *cli.Context, use func(ctx context.Context, src logSource) error) error {
	if !c.IsSet("dir") {
		return t.connect(c, func(ctx context.Context, cl *client.Client) error { return use(ctx, cl) })
	}
	f, err := openFolder(c)
	if err != nil {
		return err
	}
	defer f.close()
	return use(c.Context, f)
}

// A folder is a copy of the ledger on this machine, read as a keeper would read it.
type folder struct {
	mesh   record.Signed[record.Mesh]
	ledger *ledger.Ledger
	mux    wire.Mux
	users  sync.WaitGroup
}

func openFolder(c *cli.Context) (*folder, error) {
	mesh, err := trustedMesh(c)
	if err != nil {
		return nil, err
	}
	dir := c.String("dir")
	if _, err := os.Stat(filepath.Join(dir, "store")); err != nil {
		return nil, usage("meshctl ledger mirror DIR", "--dir: %s holds no ledger: want a mirror, a backup, or the folder ledger of a node that does not run", dir)
	}
	f := &folder{mesh: mesh}
	if f.ledger, err = ledger.OpenReadOnly(dir, mesh, ledger.Config{Log: slog.New(slog.DiscardHandler)}); err != nil {
		if errors.Is(err, ledger.ErrLocked) {
			return nil, &refusal{status: 1, text: err.Error(), next: "end it, or leave out --dir and ask it"}
		}
		return nil, err
	}
	f.mux.Roles = func(record.NodeID) wire.Role { return wire.Anyone }
	keeper.New(f.ledger, keeper.Config{}).Register(&f.mux)
	return f, nil
}

func (f *folder) close() {
	f.users.Wait()
	f.ledger.Close()
}

// Open implements wire.Opener: every peer is this folder.
func (f *folder) Open(ctx context.Context, to record.NodeID, _ string) (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	f.users.Go(func() { f.mux.Serve(context.WithoutCancel(ctx), to, there) })
	return here, nil
}

func (f *folder) Mesh() record.Signed[record.Mesh] { return f.mesh }

func (f *folder) Head(ctx context.Context) (wire.HeadReply, error) {
	return wire.Call(ctx, f, record.NodeID{}, wire.Head, wire.HeadRequest{})
}

func (f *folder) Query(ctx context.Context, q wire.QueryRequest) iter.Seq2[wire.Row, error] {
	return wire.Stream(ctx, f, record.NodeID{}, wire.Query, q)
}

func (f *folder) BalanceAt(ctx context.Context, of record.NodeID, size uint64) (wire.BalanceReply, error) {
	return wire.Call(ctx, f, record.NodeID{}, wire.Balance, wire.BalanceRequest{Of: of, At: size})
}

func (f *folder) Prove(_ context.Context, index uint64) (tree.Proof, error) {
	p, err := f.ledger.Prove(index)
	if errors.Is(err, ledger.ErrReadOnly) {
		return p, usage("meshctl ledger backup DIR", "this folder has no tree head that keepers have signed, so nothing in it can be proved: mirrors and backups have one")
	}
	return p, err
}

func (f *folder) HeadAt(ctx context.Context, size uint64) (wire.HeadReply, error) {
	h := f.ledger.Signed()
	if size != 0 && size != h.Size {
		return wire.HeadReply{}, wire.Refuse(wire.NotFound, "a copy has one signed tree head")
	}
	return wire.HeadReply{Size: h.Size, Root: h.Root, Note: h.Note}, nil
}

func (f *folder) Consistency(ctx context.Context, older, newer uint64) ([]record.Ref, error) {
	rep, err := wire.Call(ctx, f, record.NodeID{}, wire.Consistency, wire.ConsistencyRequest{Older: older, Newer: newer})
	return rep.Path, err
}

func (f *folder) Tile(ctx context.Context, q wire.TileRequest) ([]byte, error) {
	rep, err := wire.Call(ctx, f, record.NodeID{}, wire.Tile, q)
	return rep.Data, err
}
