package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
	"idlemesh/mesh/policy"
)

// gift is what the owner of an embedded mesh has to spend, once.
const gift = 100 * record.Credit

// connect runs use with a client of the embedded mesh of this home: one node with every
// role, which lives as long as use does.
func (t terminal) connect(c *cli.Context, use func(context.Context, *client.Client) error) error {
	dir, err := home(c)
	if err != nil {
		return err
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return err
	}
	host, err := identity.Open(filepath.Join(nodeDir(dir), "key"))
	if err != nil {
		return err
	}
	// A key of its own: two endpoints with one name would take each other for themselves.
	mint, err := identity.Open(filepath.Join(nodeDir(dir), "mint"))
	if err != nil {
		return err
	}
	m, err := embeddedMesh(dir, host, mint)
	if err != nil {
		return err
	}
	n, err := node.Open(host, m, node.Config{Dir: nodeDir(dir), Gateway: true, Provider: true, Keeper: true,
		Policy: policy.Policy{Floor: 1}, Version: version().Version, Log: slog.New(slog.DiscardHandler)})
	if errors.Is(err, ledger.ErrLocked) {
		return &refusal{status: 1, text: fmt.Sprintf("%s is in use by another meshctl: wait for it, or use another --home", dir)}
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(n.Run(ctx)) // a node that fails by itself ends use
	}()
	err = embedded(ctx, n, dir, key, mint, m, use)
	if failed := context.Cause(ctx); err != nil && failed != nil && c.Context.Err() == nil {
		err = failed
	}
	cancel(nil)
	<-done
	return err
}

// embeddedMesh returns the mesh file of this home, and makes it at the first call.
func embeddedMesh(dir string, host, mint identity.Key) (m record.Signed[record.Mesh], err error) {
	b, err := readSome(meshFile(dir), maxMeshFile)
	switch {
	case err == nil:
		return record.Open[record.Mesh](b)
	case !errors.Is(err, fs.ErrNotExist):
		return m, plain(err)
	}
	if m, err = node.Solo(host, mint.PublicKey(), time.Now()); err != nil {
		return m, err
	}
	return m, os.WriteFile(meshFile(dir), m.Raw(), 0o600)
}

func embedded(ctx context.Context, n *node.Node, dir string, key, mintKey identity.Key, m record.Signed[record.Mesh], use func(context.Context, *client.Client) error) error {
	<-n.Ready()
	addrs := map[record.NodeID]string{n.ID(): n.Addr().String()}
	mint, err := client.Dial(ctx, mintKey, m, client.Config{Addrs: addrs})
	if err != nil {
		return err
	}
	_, err = mint.Deposit(ctx, key.ID(), gift, "embedded:"+key.ID().String())
	if err = errors.Join(err, mint.Close()); err != nil {
		return err
	}
	cl, err := client.Dial(ctx, key, m, client.Config{Addrs: addrs, Dir: filepath.Join(dir, "blobs")})
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, cl), cl.Close())
}
