// Package client is what a program needs to use a mesh: submit a job, watch it,
// fetch its results and check what was charged. It is the Go SDK.
//
// It reaches neither Pebble nor wazero. A Client is safe for concurrent use.
package client

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"sync"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh"
	"idlemesh/mesh/author"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// Config shapes a Client.
type Config struct {
	// Dir caches blobs between calls. Empty means memory.
	Dir string
	// Gateway admits this client's jobs. Zero means the mesh file's first.
	Gateway record.NodeID
	// Packets carries QUIC. Nil means a UDP socket on any port.
	Packets net.PacketConn
	// Addrs says where nodes are, host:port, in place of the mesh file.
	Addrs map[record.NodeID]string
	// Now tells the time. Nil means time.Now.
	Now func() time.Time
}

// A Client is one party's use of one mesh.
type Client struct {
	key     identity.Key
	mesh    record.Signed[record.Mesh]
	gateway record.Member
	end     *mesh.Endpoint
	blobs   *blob.Store
	author  *author.Author
	keepers *wire.Keepers
	sealer  *identity.Sealer
	opener  *identity.Opener
	now     func() time.Time

	mu   sync.Mutex
	sent map[record.Ref]time.Time // blobs that the gateway took
}

// Dial returns a client of m for the holder of key. Close it. It connects at the first
// call, so an unreachable gateway is that call's error.
func Dial(ctx context.Context, key identity.Key, m record.Signed[record.Mesh], c Config) (*Client, error) {
	if len(m.Value.Gateways) == 0 || len(m.Value.Keepers) == 0 {
		return nil, wire.Refuse(wire.Invalid, "dial: the mesh file names no gateway or no keeper")
	}
	gw := m.Value.Gateways[0]
	if c.Gateway != (record.NodeID{}) {
		var ok bool
		if gw, ok = m.Value.Gateway(c.Gateway); !ok {
			return nil, wire.Refuse(wire.Invalid, fmt.Sprintf("dial: %s is not a gateway of this mesh", c.Gateway.Short()))
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	end, err := connect(key, m.Value, c)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	blobs, err := blob.Open(c.Dir, end, blob.Config{})
	if err != nil {
		end.Close()
		return nil, fmt.Errorf("dial: %w", err)
	}
	opener, err := identity.NewOpener(key)
	if err != nil {
		end.Close()
		return nil, fmt.Errorf("dial: %w", err)
	}
	return &Client{key: key, mesh: m, gateway: gw, end: end, blobs: blobs, author: author.New(key, end, m.Value),
		keepers: wire.KeepersOf(m.Value, end, key.ID()), sealer: identity.NewSealer(), opener: opener, now: c.Now, sent: map[record.Ref]time.Time{}}, nil
}

func connect(key identity.Key, m record.Mesh, c Config) (*mesh.Endpoint, error) {
	if c.Packets == nil {
		pc, err := net.ListenUDP("udp", nil)
		if err != nil {
			return nil, err
		}
		c.Packets = pc
	}
	cert, err := key.Certificate()
	if err != nil {
		return nil, err
	}
	end, err := mesh.New(c.Packets, cert, mesh.Config{})
	if err != nil {
		return nil, err
	}
	for _, x := range append(m.Gateways[:len(m.Gateways):len(m.Gateways)], m.Keepers...) {
		if _, moved := c.Addrs[x.Key.ID()]; x.Addr != "" && !moved {
			end.Learn(x.Key.ID(), mesh.Host(x.Addr))
		}
	}
	for id, addr := range c.Addrs {
		end.Learn(id, mesh.Host(addr))
	}
	return end, nil
}

// Close ends every connection. The client's jobs go on.
func (c *Client) Close() error {
	err := c.end.Close()
	if e := c.blobs.Close(); err == nil {
		err = e
	}
	return err
}

// ID names the client's party, which is also its account.
func (c *Client) ID() record.NodeID { return c.key.ID() }

// Mesh returns the mesh file.
func (c *Client) Mesh() record.Signed[record.Mesh] { return c.mesh }

// Gateway names the gateway that this client's jobs go to.
func (c *Client) Gateway() record.NodeID { return c.gateway.Key.ID() }

// Watch yields what happened to a job and what happens, until it ended. With output
// it also yields what tasks say, as they say it.
func (c *Client) Watch(ctx context.Context, job record.Ref, output bool) iter.Seq2[wire.JobEvent, error] {
	return wire.Stream(ctx, c.end, c.Gateway(), wire.Watch, wire.WatchRequest{Job: job, Output: output})
}

// Jobs yields the client's jobs, the newest first.
func (c *Client) Jobs(ctx context.Context, q wire.JobsRequest) iter.Seq2[wire.JobInfo, error] {
	return wire.Stream(ctx, c.end, c.Gateway(), wire.Jobs, q)
}

// Tasks yields a job's tasks by shard.
func (c *Client) Tasks(ctx context.Context, job record.Ref) iter.Seq2[wire.TaskInfo, error] {
	return wire.Stream(ctx, c.end, c.Gateway(), wire.Tasks, wire.JobQuery{Job: job})
}

// Cancel ends a job; once it returns that stands in the log. What its tasks have done
// by then is paid. A job that has ended or is cancelled stays so.
func (c *Client) Cancel(ctx context.Context, job record.Ref) error {
	s, err := record.Sign(c.key, record.Cancel{Job: job})
	if err == nil {
		_, err = wire.Call(ctx, c.end, c.Gateway(), wire.Cancel, wire.CancelRequest{Cancel: s})
	}
	return err
}

// Nodes yields the providers that the gateway knows.
func (c *Client) Nodes(ctx context.Context) iter.Seq2[wire.NodeInfo, error] {
	return wire.Stream(ctx, c.end, c.Gateway(), wire.Nodes, wire.NodesRequest{})
}

// Status asks a node of the mesh file, or a zero id for the gateway, what it is and does.
func (c *Client) Status(ctx context.Context, id record.NodeID) (wire.StatusReply, error) {
	if id == (record.NodeID{}) {
		id = c.Gateway()
	}
	return wire.Call(ctx, c.end, id, wire.Status, wire.StatusRequest{})
}

// Wish asks a provider of which the caller is the operator to sell, to drain or to pause, and
// returns what it sells then. A pause is answered once nothing runs.
func (c *Client) Wish(ctx context.Context, id record.NodeID, w uint8) (wire.Offer, error) {
	return wire.Call(ctx, c.end, id, wire.Wish, wire.WishRequest{Wish: w})
}

// A Head is the newest tree head of the log.
func (c *Client) Head(ctx context.Context) (wire.HeadReply, error) {
	return c.HeadAt(ctx, 0)
}

// Deposit credits a party once for an external reference; only the mint's key may.
func (c *Client) Deposit(ctx context.Context, to record.NodeID, amount record.Amount, external string) (author.Place, error) {
	d := record.Deposit{To: to, Amount: amount, External: external}
	b, err := record.Encode(d)
	if err != nil {
		return author.Place{}, fmt.Errorf("deposit: %w", err)
	}
	return c.author.Append(ctx, record.Entry{Kind: record.TypeDeposit, Idem: blob.Sum(b), Deposit: &d})
}

// Keepers yields what a keeper knows of all that the mesh file names.
func (c *Client) Keepers(ctx context.Context) iter.Seq2[wire.KeeperInfo, error] {
	return wire.AskStream(ctx, c.keepers, wire.Quorum, wire.QuorumRequest{})
}

// SeatKeeper makes a keeper that the mesh file names a member of the quorum, or with
// remove ends that, by the order of a keeper's key.
func (c *Client) SeatKeeper(ctx context.Context, by crypto.Signer, id record.NodeID, remove bool) error {
	s, err := record.Sign(by, wire.Seating{Mesh: c.mesh.Ref(), Keeper: id, Remove: remove, At: record.At(c.now())})
	if err != nil {
		return err
	}
	_, err = wire.Ask(ctx, c.keepers, wire.Seat, wire.SeatRequest{Seating: s})
	return err
}

// Balance returns what a party owns.
func (c *Client) Balance(ctx context.Context, of record.NodeID) (wire.BalanceReply, error) {
	return c.BalanceAt(ctx, of, 0)
}

// BalanceAt returns what a party owned when the log had that many entries; zero means
// now.
func (c *Client) BalanceAt(ctx context.Context, of record.NodeID, size uint64) (wire.BalanceReply, error) {
	return wire.Ask(ctx, c.keepers, wire.Balance, wire.BalanceRequest{Of: of, At: size})
}

// Manifest returns what a task left, from its receipt.
func (c *Client) Manifest(ctx context.Context, r record.Receipt) (record.Manifest, error) {
	var m record.Manifest
	if r.Outputs == (record.Ref{}) {
		return m, nil
	}
	if err := c.blobs.Fetch(ctx, r.Outputs, -1, nil, c.Gateway()); err != nil {
		return m, lost("manifest", err)
	}
	sealed, err := c.blobs.Bytes(r.Outputs, maxManifest)
	if err != nil {
		return m, lost("manifest", err)
	}
	plain, err := c.opener.Open(sealed, wire.SealManifest)
	if err == nil {
		err = record.Decode(plain, &m)
	}
	if err != nil {
		return m, wire.Refuse(wire.Unverified, "manifest: "+err.Error())
	}
	return m, nil
}

// Body fetches what a job of this tenant runs.
func (c *Client) Body(ctx context.Context, j record.Job) (record.Body, error) {
	var body record.Body
	if err := c.blobs.Fetch(ctx, j.Body, -1, nil, c.Gateway()); err != nil {
		return body, lost("body", err)
	}
	sealed, err := c.blobs.Bytes(j.Body, maxManifest)
	if err != nil {
		return body, lost("body", err)
	}
	plain, err := c.opener.Open(sealed, wire.SealBody)
	if err == nil {
		err = record.Decode(plain, &body)
	}
	if err != nil {
		return body, wire.Refuse(wire.Unverified, "body: "+err.Error())
	}
	return body, nil
}

// Read writes a blob's content to w from the offset on, checked against its hash.
// progress, which may be nil, is told the bytes that have come.
func (c *Client) Read(ctx context.Context, b record.Blob, from uint64, w io.Writer, progress func(int64)) error {
	if b.Size == 0 || from >= b.Size {
		return nil
	}
	if err := c.blobs.Fetch(ctx, b.Ref, int64(b.Size), progress, c.Gateway()); err != nil {
		return lost("read blob", err)
	}
	r, err := c.blobs.Get(b.Ref)
	if err != nil {
		return lost("read blob", err)
	}
	defer r.Close()
	var at io.ReaderAt = r
	if b.Key != nil {
		if len(b.Key) != 32 {
			return wire.Refuse(wire.Unverified, "read blob: its key has the wrong length")
		}
		at = blob.Decrypt(r, [32]byte(b.Key))
	}
	_, err = io.Copy(w, io.NewSectionReader(at, int64(from), int64(b.Size-from)))
	return err
}

const maxManifest = 16 << 20 // bytes, sealed

// lost gives an error of the blob room the code that a caller branches on.
func lost(what string, err error) error {
	switch {
	case errors.Is(err, blob.ErrMissing):
		return &wire.Error{Code: wire.NotFound, Text: what + ": " + err.Error(), Next: "outputs are kept for the job's --retention"}
	case errors.Is(err, blob.ErrDenied):
		return wire.Refuse(wire.Denied, what+": "+err.Error())
	case errors.Is(err, blob.ErrQuota):
		return &wire.Error{Code: wire.Funds, Text: what + ": " + err.Error() + ": its quota is used up",
			Next: "use smaller inputs, or wait until the --retention of earlier jobs is over"}
	case errors.Is(err, blob.ErrFull):
		return wire.Refuse(wire.Funds, what+": "+err.Error())
	case errors.Is(err, net.ErrClosed): // so say connections that broke
		return wire.Refuse(wire.Unavailable, what+": "+err.Error())
	}
	return fmt.Errorf("%s: %w", what, err)
}
