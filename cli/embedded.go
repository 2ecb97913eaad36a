package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"syscall"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
	"idlemesh/mesh/policy"
)

const (
	// welcome is what the embedded mesh gives its user, once.
	welcome = 100 * record.Credit
	// closeTime is how long a node may take to end, once it should.
	closeTime = 2 * time.Second
)

// embeddedConfig sells this machine's processor to its owner for next to nothing, and
// keeps for him all that it can.
func embeddedConfig() node.Config {
	return node.Config{Gateway: true, Provider: true, Keeper: true, Policy: policy.Policy{Floor: 1}, Quota: 10 << 30, Log: slog.New(slog.DiscardHandler)}
}

func (u user) config() node.Config {
	c := embeddedConfig()
	c.Provider = u.sells
	return c
}

// A running is a node that this process runs in a seat.
type running struct {
	*node.Node
	mesh   signedMesh
	seat   *seat
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned err
	err    error
}

// run runs node key of m in a seat, and tells where it is once it answers. It goes on
// when ctx ends, until stop.
func run(ctx context.Context, s *seat, key identity.Key, m signedMesh, c node.Config) (*running, error) {
	c.Dir, c.Version = s.base, version().Version
	n, err := node.Open(key, m, c)
	if err != nil {
		return nil, explain(err, c)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{Node: n, mesh: m, seat: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = n.Run(life)
	}()
	select {
	case <-n.Ready():
		return r, nil
	case <-r.done:
	case <-ctx.Done():
		cancel()
		<-r.done
		r.err = ctx.Err()
	}
	cancel()
	return nil, explain(r.err, c)
}

// start runs the embedded node, gives its user his first credits and announces it.
func (u user) start(ctx context.Context, s *seat, c node.Config, background bool) (*running, error) {
	key, err := identity.Open(nodeKeyFile(u.home))
	if err != nil {
		return nil, err
	}
	mint, err := identity.Open(filepath.Join(u.home, "mint.key"))
	if err != nil {
		return nil, err
	}
	m, err := u.solo(key, mint)
	if err != nil {
		return nil, err
	}
	c.Operator = u.key.ID()
	r, err := run(ctx, s, key, m, c)
	if err != nil {
		return nil, err
	}
	err = u.greet(ctx, r, mint)
	if err == nil {
		err = s.announce(holder{Addr: r.Addr().String(), Node: r.ID(), Background: background})
	}
	if err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

// solo returns the embedded mesh, which is made once.
func (u user) solo(key, mint identity.Key) (signedMesh, error) {
	path := embeddedFile(u.home)
	m, err := readMesh(path)
	if errors.Is(err, fs.ErrNotExist) {
		if m, err = node.Solo(key, mint.PublicKey(), time.Now()); err != nil {
			return m, err
		}
		return m, writeFile(path, m.Raw())
	}
	if _, ours := m.Value.Gateway(key.ID()); err == nil && !ours {
		err = &refusal{status: 2, text: fmt.Sprintf("%s and %s do not belong together: the mesh file is another node's", path, nodeKeyFile(u.home)),
			next: "put back the file that was changed"}
	}
	return m, err
}

// greet deposits the welcome. Its reference makes it count once, however often the node
// starts.
func (u user) greet(ctx context.Context, r *running, mint identity.Key) error {
	cl, err := client.Dial(ctx, mint, r.mesh, client.Config{Addrs: r.addrs()})
	if err != nil {
		return err
	}
	defer cl.Close()
	b, err := cl.Balance(ctx, u.key.ID())
	if err != nil || b.Free > 0 {
		return err
	}
	if _, err = cl.Deposit(ctx, u.key.ID(), welcome, "embedded-welcome:"+u.key.ID().String()); err != nil {
		return fmt.Errorf("first credits: %w", err)
	}
	return nil
}

func (r *running) addrs() map[record.NodeID]string {
	return map[record.NodeID]string{r.ID(): r.Addr().String()}
}

// stop ends the node and leaves its seat. A node that does not end in time is left
// behind: its ledger holds what was acknowledged, and the process ends anyway.
func (r *running) stop() error { return errors.Join(r.end(), r.seat.leave()) }

func (r *running) end() error {
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(closeTime):
		return nil
	}
}

// explain adds the remedy to an error of a node's start.
func explain(err error, c node.Config) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &refusal{status: 1, text: err.Error(), next: "end the process that listens there, or choose another address with --listen"}
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return usage("meshctl node run --help", "%v: %s is not an address of this machine", err, c.Listen)
	}
	return err
}

// failed reports whether the node has ended by itself, with an error.
func (r *running) failed() bool {
	select {
	case <-r.done:
		return r.err != nil
	default:
		return false
	}
}
