package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

const (
	// answerTime is how long a process that holds the embedded node may be silent.
	answerTime = 5 * time.Second
	// lookAgain is how often a seat that is taken is looked at.
	lookAgain = 100 * time.Millisecond
)

// A user is a person's use of his home: its folder and his key.
type user struct {
	home string
	key  identity.Key
	// sells is whether the embedded node, should this process run it, runs jobs too. A
	// command that only looks would begin what it cannot end.
	sells bool
	// patience is how long a silent node is waited for. Zero means 5 seconds.
	patience time.Duration
}

func (u user) wait() time.Duration { return cmp.Or(u.patience, answerTime) }

// A useFunc uses a mesh. Its client is closed when it returns.
type useFunc = func(context.Context, *client.Client) error

// connect runs use with a client of the mesh that this home joined or, where it joined
// none, of the embedded one, whose node this process runs meanwhile unless another does.
func (t terminal) connect(c *cli.Context, use func(context.Context, *client.Client) error) error {
	dir, err := home(c)
	if err != nil {
		return err
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return err
	}
	u := user{home: dir, key: key, sells: needsProvider(c)}
	m, ok, err := joinedMesh(dir)
	switch {
	case err != nil:
		return err
	case ok:
		return u.joined(c.Context, m, use)
	case c.Bool("detach"):
		if err := ensureBackground(c.Context, dir); err != nil {
			return err
		}
	}
	return u.embedded(c.Context, use)
}

// needsProvider reports whether a command waits for jobs to be run.
func needsProvider(c *cli.Context) bool {
	switch c.Command.Name {
	case "query", "tail": // what they follow is the log
		return false
	}
	return c.Command.Name == "submit" || c.Command.Name == "wait" || c.Bool("follow")
}

// joined uses the first gateway of m that answers.
func (u user) joined(ctx context.Context, m signedMesh, use useFunc) error {
	addrs := map[record.NodeID]string{}
	if h, ok := findHolder(nodeBase(u.home)); ok {
		addrs[h.Node] = h.Addr
	}
	var why []string
	for _, g := range m.Value.Gateways {
		id := g.Key.ID()
		done, err := u.through(ctx, m, client.Config{Addrs: addrs, Gateway: id}, use)
		if done || ctx.Err() != nil {
			return err
		}
		why = append(why, fmt.Sprintf("%s at %s: %v", id.Short(), g.Addr, err))
	}
	return &refusal{status: 1, text: fmt.Sprintf("no gateway reachable of mesh %s: %s", m.Value.Name, strings.Join(why, "; ")), next: "meshctl doctor"}
}

// through runs use with a client of one gateway, and reports whether it came to that.
func (u user) through(ctx context.Context, m signedMesh, cfg client.Config, use useFunc) (done bool, err error) {
	dir, slot, err := openCache(u.home)
	if err != nil {
		return true, err
	}
	defer slot.Close()
	cfg.Dir = dir
	cl, err := client.Dial(ctx, u.key, m, cfg)
	if err != nil {
		return true, err
	}
	defer cl.Close()
	if err := u.ping(ctx, cl); err != nil {
		return !wire.Is(err, wire.Unavailable), err
	}
	return true, use(ctx, cl)
}

// ping returns once the gateway has answered.
func (u user) ping(ctx context.Context, cl *client.Client) error {
	short, cancel := context.WithTimeout(ctx, u.wait())
	defer cancel()
	_, err := cl.Status(short, record.NodeID{})
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return &wire.Error{Code: wire.Unavailable, Text: fmt.Sprintf("no answer within %v", u.wait())}
	}
	return err
}

// embedded uses the node of the embedded mesh: its own, or the one that another process
// runs. A process that is just starting one, or has been killed, is given some time; a
// seat that passes from one to another is not held by a silent process.
func (u user) embedded(ctx context.Context, use useFunc) error {
	base := embeddedBase(u.home)
	var end time.Time
	for pid := -1; ; {
		s, err := takeSeat(base)
		if err == nil {
			return u.hold(ctx, s, use)
		}
		if !errors.Is(err, errTaken) {
			return fmt.Errorf("embedded node: %w", err)
		}
		if now := lockPID(base); now != pid {
			pid, end = now, time.Now().Add(u.wait())
		}
		if h, ok := findHolder(base); ok {
			if done, err := u.follow(ctx, h, use); done || ctx.Err() != nil {
				return err
			}
		}
		if time.Now().After(end) && lockPID(base) == pid {
			return silent(base)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

func silent(base string) error {
	who, next := "another process", "end it and try again"
	if pid := lockPID(base); pid != 0 {
		who, next = fmt.Sprintf("process %d", pid), fmt.Sprintf("kill -9 %d, then try again: nothing that was acknowledged is lost", pid)
	}
	return &refusal{status: 1, text: fmt.Sprintf("ledger folder %s is held by %s, which does not answer", base, who), next: next}
}

// hold runs the embedded node for as long as use takes.
func (u user) hold(ctx context.Context, s *seat, use useFunc) error {
	r, err := u.start(ctx, s, u.config(), false)
	if err != nil {
		return errors.Join(err, s.leave())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the node
		<-r.done
		cancel() // a node that fails by itself ends use
	}()
	_, err = u.through(ctx, r.mesh, client.Config{Addrs: r.addrs()}, use)
	if r.failed() {
		return r.stop()
	}
	u.linger(ctx)
	return errors.Join(err, r.stop())
}

// linger gives the commands that use this process's node a moment to be done with what
// cannot wait. What takes longer is repeated when the node is back (see again).
func (u user) linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for ctx.Err() == nil {
		f, err := os.OpenFile(embeddedBase(u.home)+".users", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return
		}
		err = tryLock(f)
		f.Close()
		if !errors.Is(err, errTaken) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain / 4):
		}
	}
}

// follow uses the node that h runs, and runs it in his place should he end: then it has
// the same name and address, and use sees no more than a gateway that was gone for a
// moment. It reports whether it came to use.
func (u user) follow(ctx context.Context, h holder, use useFunc) (bool, error) {
	m, err := readMesh(embeddedFile(u.home))
	if err != nil {
		return false, err
	}
	users, err := os.OpenFile(embeddedBase(u.home)+".users", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return true, err
	}
	defer users.Close()
	if err := shareLock(users); err != nil && !errors.Is(err, errTaken) {
		return true, err
	}
	life, end := context.WithCancel(ctx)
	defer end()
	using, lost := context.WithCancel(ctx)
	defer lost()
	heir := make(chan error, 1)
	go func() {
		err := u.inherit(life, h)
		if err != nil {
			lost()
		}
		heir <- err
	}()
	done, err := u.through(using, m, client.Config{Addrs: map[record.NodeID]string{h.Node: h.Addr}}, use)
	end()
	if failed := <-heir; failed != nil && ctx.Err() == nil {
		err = failed
	}
	return done, err
}

// inherit waits for the seat and runs the node in it until ctx ends.
func (u user) inherit(ctx context.Context, h holder) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
		s, err := takeSeat(embeddedBase(u.home))
		if errors.Is(err, errTaken) {
			continue
		}
		if err != nil {
			return fmt.Errorf("embedded node: %w", err)
		}
		cfg := u.config()
		cfg.Listen = h.Addr
		r, err := u.start(ctx, s, cfg, false)
		if err != nil {
			return errors.Join(err, s.leave())
		}
		select {
		case <-ctx.Done():
		case <-r.done:
		}
		return r.stop()
	}
}

// again repeats f, which must be safe to repeat, while its gateway is away. One that is
// started anew, or whose place another command takes, is back within seconds.
func again(ctx context.Context, f func() error) error {
	for end := time.Now().Add(2 * answerTime); ; {
		err := f()
		if !wire.Is(err, wire.Unavailable) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lookAgain):
		}
	}
}
