package quorum

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"idlemesh/ledger/record"
)

// A name is a keeper and the log that it was born with. A keeper that has lost its disk
// comes back with another: what it promised to raft before, it no longer knows.
type name struct {
	id   record.NodeID
	born string
}

func (n name) String() string               { return n.id.String() + "." + n.born }
func (n name) server() raft.ServerID        { return raft.ServerID(n.String()) }
func (n name) address() raft.ServerAddress  { return raft.ServerAddress(n.String()) }
func (n name) Network() string              { return "mesh" }
func (n name) in(c raft.Configuration) bool { return n.suffrage(c) >= 0 }
func (n name) is(s raft.Server) bool        { return s.ID == n.server() }
func signs(k crypto.Signer, p record.PublicKey) bool {
	pub, ok := k.Public().(ed25519.PublicKey)
	return ok && record.PublicKey(pub) == p
}

func (n name) suffrage(c raft.Configuration) raft.ServerSuffrage {
	for _, s := range c.Servers {
		if n.is(s) {
			return s.Suffrage
		}
	}
	return -1
}

func parseName(s string) (n name, err error) {
	id, born, ok := strings.Cut(s, ".")
	if !ok {
		return n, fmt.Errorf("%.80q is not the name of a keeper's log", s)
	}
	n.born = born
	n.id, err = record.ParseNodeID(id)
	return n, err
}

// What a stream is for, its first byte.
const (
	forRaft = 'r' // a hello, then raft's own bytes
	forAsk  = 'a' // ask → state
	forSign = 's' // signRequest → signReply
	forJoin = 'j' // joinRequest → joinReply
	forRead = 'f' // ask → readReply
)

// A hello says whom raft's stream is meant for.
type hello struct {
	To string `cbor:"1,keyasint"` // a name: another life of the keeper must not answer
}

const (
	maxFrame  = 64 << 10
	dialTime  = 2 * time.Second
	replyTime = 5 * time.Second
)

func writeFrame(w io.Writer, head []byte, v any) error {
	b, err := record.Encode(v)
	if err != nil {
		return err
	}
	out := binary.BigEndian.AppendUint32(append([]byte(nil), head...), uint32(len(b)))
	_, err = w.Write(append(out, b...))
	return err
}

func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return fmt.Errorf("message of %d bytes: at most %d", n, maxFrame)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return record.Decode(b, v)
}

// call asks another keeper one thing.
func call[Q, R any](ctx context.Context, m *Member, to record.NodeID, kind byte, q Q) (r R, err error) {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	s, err := m.cfg.Open(ctx, to)
	if err != nil {
		return r, err
	}
	c := newConn(s, m.name, name{id: to})
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.hurry() })
	defer stop()
	if err := writeFrame(c, []byte{kind}, q); err != nil {
		return r, err
	}
	return r, readFrame(c, &r)
}

// A conn is a stream with the rest of a net.Conn.
type conn struct {
	io.ReadWriteCloser
	local, remote net.Addr
	gone          chan struct{} // closed once it is

	writing sync.Mutex // a stream must not be closed while it is written to
	mu      sync.Mutex
	closed  bool
}

func newConn(s io.ReadWriteCloser, local, remote net.Addr) *conn {
	return &conn{ReadWriteCloser: s, local: local, remote: remote, gone: make(chan struct{})}
}

func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.ReadWriteCloser.Write(p)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.hurry()
	c.writing.Lock()
	defer c.writing.Unlock()
	close(c.gone)
	return c.ReadWriteCloser.Close()
}

// hurry makes what is blocked return.
func (c *conn) hurry() { c.deadline(time.Unix(1, 0)) }

func (c *conn) deadline(t time.Time) {
	if d, ok := c.ReadWriteCloser.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(t) // a closed stream needs none
	}
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.deadline(t)
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// A layer is raft's view of the streams between keepers: a raft.StreamLayer.
type layer struct {
	me   name
	cfg  Config
	in   chan net.Conn
	done chan struct{}

	mu     sync.Mutex
	conns  map[*conn]bool // to true for those that this keeper dialled
	silent time.Time      // until then this keeper dials nobody
	closed bool
}

func newLayer(me name, c Config) *layer {
	return &layer{me: me, cfg: c, in: make(chan net.Conn), done: make(chan struct{}), conns: map[*conn]bool{}}
}

// Accept implements net.Listener.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *layer) Addr() net.Addr { return l.me }

// Close implements net.Listener: it ends every stream of raft's.
func (l *layer) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	l.mu.Unlock()
	l.hangUp(func(bool) bool { return true })
	return nil
}

// mute ends what this keeper has dialled, and dials nobody for so long.
func (l *layer) mute(d time.Duration) {
	l.mu.Lock()
	l.silent = time.Now().Add(d)
	l.mu.Unlock()
	l.hangUp(func(dialled bool) bool { return dialled })
}

func (l *layer) hangUp(which func(dialled bool) bool) {
	l.mu.Lock()
	var all []*conn
	for c, dialled := range l.conns {
		if which(dialled) {
			all = append(all, c)
		}
	}
	l.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // it is of no use any more
		l.forget(c)
	}
}

func (l *layer) adopt(c *conn, dialled bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || dialled && time.Now().Before(l.silent) {
		return net.ErrClosed
	}
	for old := range l.conns { // raft closes its connections without a word to us
		select {
		case <-old.gone:
			delete(l.conns, old)
		default:
		}
	}
	l.conns[c] = dialled
	return nil
}

func (l *layer) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// Dial implements raft.StreamLayer.
func (l *layer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	n, err := parseName(string(to))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(timeout, dialTime))
	defer cancel()
	s, err := l.cfg.Open(ctx, n.id)
	if err != nil {
		return nil, err
	}
	c := newConn(s, l.me, n)
	if err := l.adopt(c, true); err != nil {
		_ = c.Close()
		return nil, err
	}
	if err := writeFrame(c, []byte{forRaft}, hello{To: n.String()}); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// serve hands a stream to raft and returns when that is done with it.
func (l *layer) serve(ctx context.Context, c *conn) {
	var h hello
	if err := readFrame(c, &h); err != nil || h.To != l.me.String() {
		return
	}
	if l.adopt(c, false) != nil {
		return
	}
	defer l.forget(c)
	select {
	case l.in <- c:
	case <-l.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-c.gone:
	case <-l.done:
	case <-ctx.Done():
	}
}

// Serve takes a stream that another keeper has opened, and returns when it is done with
// it. Streams of others are closed.
func (m *Member) Serve(ctx context.Context, from record.NodeID, s io.ReadWriteCloser) {
	c := newConn(s, m.name, name{id: from})
	defer c.Close()
	if _, ok := m.cfg.Mesh.Value.Keeper(from); !ok || m.running() == nil {
		return
	}
	c.deadline(time.Now().Add(replyTime))
	var kind [1]byte
	if _, err := io.ReadFull(c, kind[:]); err != nil {
		return
	}
	switch kind[0] {
	case forRaft:
		c.deadline(time.Time{})
		m.layer.serve(ctx, c)
	case forAsk:
		answer(c, func(ask) state { return m.state() })
	case forSign:
		answer(c, func(q signRequest) signReply { return m.sign(ctx, q) })
	case forJoin:
		answer(c, func(q joinRequest) joinReply { return m.admit(from, q) })
	case forRead:
		answer(c, func(ask) readReply { return m.read(ctx) })
	}
}

func answer[Q, R any](c *conn, f func(Q) R) {
	var q Q
	if readFrame(c, &q) == nil {
		_ = writeFrame(c, nil, f(q)) // who asked may have left
	}
}
