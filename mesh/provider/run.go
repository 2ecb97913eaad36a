package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lukechampine.com/blake3"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

// A run is the Host of one lease: inputs from blobs, outputs into blobs, events to
// the listeners.
type run struct {
	p     *Provider
	l     *lease
	ctx   context.Context
	reads map[string]record.Blob

	mu      sync.Mutex
	outputs map[string]record.Blob
	said    [wire.Log + 1]uint64
	root    record.Ref // of the transcript
	opened  []opened   // the one read last at the end
}

// errBody says that the tenant has described something that cannot be. The node is not
// to blame, and must not be: else a tenant could ruin any node's standing.
var errBody = errors.New("the job does not make sense")

func (p *Provider) open(sealed []byte, job record.Signed[record.Job]) (body record.Body, err error) {
	plain, err := p.opener.Open(sealed, wire.SealBody)
	if err == nil {
		err = record.Decode(plain, &body)
	}
	if err != nil {
		return body, wire.Refuse(wire.Invalid, "body: "+err.Error())
	}
	return body, nil
}

// stage fetches what the job needs and says it in the sandbox's words.
func (p *Provider) stage(ctx context.Context, l *lease, body record.Body, time record.Millis, gateway record.NodeID) (*run, sandbox.Spec, error) {
	r := &run{p: p, l: l, ctx: ctx, reads: map[string]record.Blob{}, outputs: map[string]record.Blob{}}
	s := sandbox.Spec{Inputs: map[string]sandbox.Input{}, Args: body.Args, Env: map[string]string{}, Record: body.Record,
		Seed:   body.TaskSeed(l.signed.Value.Job, l.signed.Value.Shard),
		Limits: sandbox.Limits(l.job.Value.Limits), Time: int64(time), FLOPS: p.cfg.Mesh.Params.FLOPS, Bandwidth: p.cfg.Mesh.Params.Bandwidth}
	s.Limits.VRAM = l.vram
	for k, v := range body.Env {
		s.Env[k] = v
	}
	v := l.signed.Value
	s.Env["MESH_JOB"] = v.Job.JobID()
	s.Env["MESH_SHARD_INDEX"], s.Env["MESH_SHARD_COUNT"] = strconv.Itoa(int(v.Shard)), strconv.Itoa(int(l.job.Value.Shards))
	if err := r.fetch(gateway, body); err != nil {
		return r, s, err
	}
	s.Module = r.name(body.Module)
	for _, in := range body.Inputs {
		if !in.Dir {
			s.Inputs[in.Name] = r.name(in.Blob)
			continue
		}
		if err := r.unfold(in, s.Inputs); err != nil {
			return r, s, fmt.Errorf("input %s: %w", in.Name, err)
		}
	}
	return r, s, nil
}

// fetch brings every blob here.
func (r *run) fetch(gateway record.NodeID, body record.Body) error {
	for _, b := range body.Blobs() {
		if b.Size == 0 {
			continue
		}
		if err := r.p.cfg.Blobs.Fetch(r.ctx, b.Ref, int64(b.Size), nil, gateway); err != nil {
			return err
		}
	}
	return nil
}

// name gives a blob a short name for the worker, which knows no other: half its Ref is
// enough among one tenant's.
func (r *run) name(b record.Blob) sandbox.Input {
	name := b.Ref.String()[:26]
	r.reads[name] = b
	return sandbox.Input{Blob: name, Size: int64(b.Size)}
}

// unfold turns a folder's tree into inputs. The tenant made it, so it is checked like
// any stranger's bytes.
func (r *run) unfold(in record.Input, into map[string]sandbox.Input) error {
	at, err := r.at(in.Blob)
	if err != nil {
		return err
	}
	const most = 16 << 20
	if in.Blob.Size > most {
		return fmt.Errorf("%w: a list of files of %d bytes: at most %d", errBody, in.Blob.Size, most)
	}
	b, err := io.ReadAll(io.NewSectionReader(at, 0, int64(in.Blob.Size)))
	if err != nil {
		return err
	}
	var tree record.Tree
	if err := record.Decode(b, &tree); err != nil {
		return fmt.Errorf("%w: list of files: %w", errBody, err)
	}
	packs := make([]sandbox.Input, len(in.Packs))
	for i, p := range in.Packs {
		packs[i] = r.name(p)
	}
	for _, f := range tree.Files {
		x, err := lies(f, packs)
		if err != nil {
			return err
		}
		into[path.Join(in.Name, f.Path)] = x
	}
	return nil
}

// lies returns where a file of a folder is found.
func lies(f record.TreeFile, packs []sandbox.Input) (sandbox.Input, error) {
	x := sandbox.Input{Size: int64(f.Size)}
	switch {
	case !localPath(f.Path):
		return x, fmt.Errorf("%w: path %.60q leaves the folder", errBody, f.Path)
	case f.Size == 0:
		return x, nil
	case int64(f.Pack) >= int64(len(packs)) || f.Offset > uint64(packs[f.Pack].Size) || f.Size > uint64(packs[f.Pack].Size)-f.Offset:
		return x, fmt.Errorf("%w: %.60q lies outside its pack", errBody, f.Path)
	}
	x.Blob, x.Offset = packs[f.Pack].Blob, int64(f.Offset)
	return x, nil
}

func localPath(p string) bool {
	return p != "" && p == path.Clean(p) && p[0] != '/' && p != ".." && !strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\\\x00")
}

// Open implements sandbox.Host.
func (r *run) Open(name string) (io.ReaderAt, error) {
	b, ok := r.reads[name]
	if !ok {
		return nil, fmt.Errorf("no blob %.20q", name)
	}
	return r.at(b)
}

// Create implements sandbox.Host: what the task writes is encrypted on its way to disk.
func (r *run) Create(name string) (io.WriteCloser, error) {
	var key [32]byte
	rand.Read(key[:])
	in, out := io.Pipe()
	o := &output{run: r, name: name, key: key, pipe: out, plain: blob.Encrypt(key, out), done: make(chan stored, 1)}
	if name == sandbox.Transcript {
		o.sum = blake3.New(len(r.root), nil)
		o.plain = io.MultiWriter(o.sum, o.plain)
	}
	// What was written before the tenant stopped the run is his, and paid: the end of
	// the run's context does not end it, but the sandbox's Close, which always comes.
	ctx := context.WithoutCancel(r.ctx)
	go func() {
		ref, n, err := r.p.cfg.Blobs.Put(ctx, in)
		in.CloseWithError(err)
		o.done <- stored{ref, n, err}
	}()
	return o, nil
}

type output struct {
	*run
	name  string
	key   [32]byte
	pipe  *io.PipeWriter
	plain io.Writer
	sum   *blake3.Hasher // of a transcript
	done  chan stored
}

type stored struct {
	ref  record.Ref
	size int64
	err  error
}

func (o *output) Write(b []byte) (int, error) { return o.plain.Write(b) }

// Close returns once the output is stored.
func (o *output) Close() error {
	o.pipe.Close()
	s := <-o.done
	if s.err == nil {
		o.mu.Lock()
		o.outputs[o.name] = record.Blob{Ref: s.ref, Size: uint64(s.size), Key: o.key[:]}
		if o.sum != nil {
			o.sum.Sum(o.root[:0])
		}
		o.mu.Unlock()
	}
	return s.err
}

// Event implements sandbox.Host.
func (r *run) Event(e sandbox.Event) {
	ev := wire.LeaseEvent{Done: e.Done, Total: e.Total}
	switch e.Kind {
	case sandbox.Stdout:
		ev.Channel = wire.Stdout
	case sandbox.Stderr:
		ev.Channel = wire.Stderr
	case sandbox.Log:
		ev.Channel = wire.Log
	case sandbox.Progress:
		ev.Text = e.Text
	default:
		return
	}
	if ev.Channel != 0 {
		ev.Data, ev.Offset = []byte(e.Text), r.said[ev.Channel]
		r.said[ev.Channel] += uint64(len(ev.Data))
	}
	r.l.say(ev)
}

// manifest seals the list of what the task left to the tenant and the gateway.
func (p *Provider) manifest(r *run, l *lease, gateway record.NodeID, res sandbox.Result) ([]byte, error) {
	m := record.Manifest{Stdout: r.outputs["stdout"], Stderr: r.outputs["stderr"], Log: r.outputs["log"], Error: res.Error,
		Transcript: r.outputs[sandbox.Transcript]}
	for name, b := range r.outputs {
		if rest, ok := strings.CutPrefix(name, "out/"); ok {
			m.Outputs = append(m.Outputs, record.Output{Name: rest, Blob: b})
		}
	}
	slices.SortFunc(m.Outputs, func(a, b record.Output) int { return cmp.Compare(a.Name, b.Name) })
	for _, x := range res.Metrics {
		if math.IsNaN(x.Value) || math.IsInf(x.Value, 0) {
			continue // no number, and no gateway takes it
		}
		m.Metrics = append(m.Metrics, record.Metric{Name: x.Name, Value: x.Value})
	}
	plain, err := record.Encode(m)
	if err != nil {
		return nil, err
	}
	to := []record.PublicKey{l.job.Key}
	if g, ok := p.cfg.Mesh.Gateway(gateway); ok {
		to = append(to, g.Key)
	}
	return p.sealer.Seal(plain, wire.SealManifest, to...)
}

// push does not give up on a gateway that is restarting: the work is done, and losing it
// would lose its pay.
func (p *Provider) push(ctx context.Context, refs []record.Ref, gateway record.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, pushFor)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 4*time.Second) {
		err := p.cfg.Blobs.PushAll(ctx, refs, gateway, nil)
		if err == nil {
			return nil
		}
		if noRoom(err) || errors.Is(err, blob.ErrDenied) || errors.Is(err, blob.ErrMissing) {
			return fmt.Errorf("hand over: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("hand over: %w", err)
		}
	}
}

// pushFor is how long outputs wait for their gateway.
const pushFor = 10 * time.Minute

func (p *Provider) receipt(l *lease, r *run, body record.Body, res sandbox.Result) record.Receipt {
	v := l.signed.Value
	x := record.Receipt{Lease: l.signed.Ref(), Root: r.root, Job: v.Job, Shard: v.Shard, Attempt: v.Attempt, Module: body.Module.Ref,
		Inputs: body.InputsRef(), Device: v.Bid.Value.Device, Exit: res.Exit, End: record.End(res.End), Ran: p.ran}
	u := res.Usage
	x.Usage = record.Usage{Meter: record.Fuel, Fuel: u.Fuel, Wall: u.Wall, CPU: u.CPU, Kernel: u.Kernel, FLOP: u.FLOP, Bytes: u.Bytes, Memory: u.Memory,
		Work: record.Work(u.Work) + p.cfg.Mesh.Params.GuestWork(u.Fuel)}
	return x
}
