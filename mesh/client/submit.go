package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/wire"
)

// A Request is what a tenant asks for: the flags of `submit` and the keys of
// job.yaml. Zero fields have the defaults named.
type Request struct {
	Name   string // of the module, for people
	Module []byte
	Args   []string
	Env    map[string]string
	Labels map[string]string
	Inputs []Input
	Shards uint32      // 1
	Tier   record.Tier // bronze
	// MaxPrice is per hour of reference-GPU work; zero means 0.50 credits.
	MaxPrice record.Amount
	// MaxTotal caps the whole job and is held in escrow; zero means an hour of
	// reference-GPU work for each task.
	MaxTotal  record.Amount
	Needs     record.Needs
	Limits    record.Limits // 1 GiB, 1 hour, 1 GiB, 0
	Retries   uint32
	Retention time.Duration // 7 days
	Expires   time.Duration // 1 hour to find a provider
	Record    bool          // keep transcripts, from which tasks can be replayed
	// Progress, which may be nil, is told of uploads: bytes sent and all.
	Progress func(what string, done, total int64)
}

// An Input is what the module finds at /in/Name.
type Input struct {
	Name string
	// Open reads the file from its start; it is called more than once.
	Open func() (io.ReadCloser, error)
	// Dir is a folder instead. Its regular files are taken.
	Dir fs.FS
}

// A Signed job is ready to be sent, as often as one likes.
type Signed struct {
	Job  record.Signed[record.Job]
	Body []byte // sealed
}

// Submit uploads what the job needs and returns once it is in escrow.
func (c *Client) Submit(ctx context.Context, r Request) (wire.Admitted, error) {
	s, err := c.Prepare(ctx, r)
	if err != nil {
		return wire.Admitted{}, fmt.Errorf("submit: %w", err)
	}
	return c.Send(ctx, s)
}

// Send hands a job to the gateway. The same job sent again is the same job.
func (c *Client) Send(ctx context.Context, s Signed) (wire.Admitted, error) {
	return wire.Call(ctx, c.end, c.Gateway(), wire.Submit, wire.JobRequest{Job: s.Job, Body: s.Body})
}

// Quote asks who would run these terms and for how much; nothing is sent or charged.
func (c *Client) Quote(ctx context.Context, r Request) (wire.QuoteReply, error) {
	return wire.Call(ctx, c.end, c.Gateway(), wire.Quote, wire.QuoteRequest{Terms: c.terms(r, record.Ref{})})
}

// Prepare uploads what the job needs, seals its body and signs its terms.
func (c *Client) Prepare(ctx context.Context, r Request) (Signed, error) {
	body := record.Body{Name: r.Name, Args: r.Args, Env: r.Env, Labels: r.Labels, Seed: random(32), Record: r.Record}
	up := c.uploader(ctx, r.Progress)
	var err error
	if body.Module, err = up.bytes(r.Module); err != nil {
		return Signed{}, fmt.Errorf("module: %w", err)
	}
	for _, in := range r.Inputs {
		put := up.folder
		if in.Dir == nil {
			put = up.single
		}
		x, err := put(in)
		if err != nil {
			return Signed{}, fmt.Errorf("input %s: %w", in.Name, err)
		}
		body.Inputs = append(body.Inputs, x)
	}
	if err := up.finish(); err != nil {
		return Signed{}, err
	}
	plain, err := record.Encode(body)
	if err != nil {
		return Signed{}, err
	}
	sealed, err := c.sealer.Seal(plain, wire.SealBody, c.key.PublicKey(), c.gateway.Key)
	if err != nil {
		return Signed{}, err
	}
	job, err := record.Sign(c.key, c.terms(r, blob.Sum(sealed)))
	return Signed{Job: job, Body: sealed}, err
}

// terms fills in the defaults.
func (c *Client) terms(r Request, body record.Ref) record.Job {
	shards := max(r.Shards, 1)
	price := cmp.Or(r.MaxPrice, record.Credit/2)
	return record.Job{
		Body: body, Shards: shards, Tier: cmp.Or(r.Tier, record.Bronze), MaxPrice: price,
		MaxTotal: cmp.Or(r.MaxTotal, min(price, c.mesh.Value.Params.Reserve)*record.Amount(shards)),
		Needs:    r.Needs,
		Limits: record.Limits{Memory: cmp.Or(r.Limits.Memory, 1<<30), Wall: cmp.Or(r.Limits.Wall, 3_600_000),
			Output: cmp.Or(r.Limits.Output, 1<<30), VRAM: r.Limits.VRAM, Fuel: r.Limits.Fuel},
		Retries: r.Retries, Retention: record.Span(cmp.Or(r.Retention, 7*24*time.Hour)),
		Expires: record.At(c.now().Add(cmp.Or(r.Expires, time.Hour))), Nonce: random(16), Delegate: c.Gateway(),
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}
