package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/fxamacker/cbor/v2"
	"github.com/urfave/cli/v2"
	"lukechampine.com/blake3"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
	"idlemesh/sandbox/transcript"
)

// A replayView is what the replay of one task showed.
type replayView struct {
	Job    string         `json:"job"`
	Shard  uint32         `json:"shard"`
	Node   record.NodeID  `json:"provider"`
	Entry  uint64         `json:"entry"`
	Root   record.Ref     `json:"root"`
	Ran    string         `json:"ran"`
	OK     bool           `json:"ok"`
	Checks []replayCheck  `json:"checks"`
	job    record.Job     // public terms
	body   record.Body    // as the tenant sealed it
	params record.Params  // of the mesh
	tape   []byte         // the transcript
	module []byte         // what was run
	ending sandbox.Ending // as the transcript has it
}

type replayCheck struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// A step checks one thing and says what it saw.
type step struct {
	name string
	do   func(context.Context) (string, error)
}

func (t terminal) jobReplay(ctx context.Context, c *cli.Context, cl *client.Client, info wire.JobInfo) error {
	id := info.Job.JobID()
	o, err := gather(ctx, cl, info.Job, wire.JobEvent{})
	if err != nil {
		return err
	}
	var views []replayView
	for _, x := range o.tasks {
		if x.Receipt == nil || c.IsSet("task") && uint64(x.Shard) != c.Uint64("task") {
			continue
		}
		v, err := t.replayTask(ctx, c, cl, info, x)
		if err != nil {
			return err
		}
		views = append(views, v)
	}
	if len(views) == 0 {
		return &refusal{status: 5, text: id + " has no such task that has ended", next: "meshctl job get " + id}
	}
	if done, err := t.encode(c, views); !done {
		err = t.replayed(c, views)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	for _, v := range views {
		if !v.OK {
			bad := v.Checks[len(v.Checks)-1]
			return wire.Refuse(wire.Unverified, fmt.Sprintf("%s: task %d: %s: %s", id, v.Shard, bad.Check, bad.Detail))
		}
	}
	return nil
}

func (t terminal) replayed(c *cli.Context, views []replayView) error {
	type row struct {
		shard uint32
		replayCheck
	}
	var rows []row
	for _, v := range views {
		for _, x := range v.Checks {
			rows = append(rows, row{v.Shard, x})
		}
	}
	return list(t, c, rows, []column[row]{
		{head: "task", cell: func(r row) string { return fmt.Sprint(r.shard) }},
		{head: "check", cell: func(r row) string { return r.Check }},
		{head: "holds", cell: func(r row) string {
			if r.OK {
				return "yes"
			}
			return "NO"
		}},
		{head: "seen", cell: func(r row) string { return r.Detail }},
	})
}

// replayTask checks one task up to the first thing that does not hold. The error is of
// something that could not be looked at.
func (t terminal) replayTask(ctx context.Context, c *cli.Context, cl *client.Client, info wire.JobInfo, x taskOutcome) (replayView, error) {
	r := x.Receipt.Value
	v := replayView{Job: info.Job.JobID(), Shard: x.Shard, Node: x.Receipt.By(), Entry: x.Entry, Root: r.Root, Ran: r.Ran,
		job: info.Terms, params: cl.Mesh().Value.Params}
	if r.Root == (record.Ref{}) || x.manifest.Transcript.Size == 0 {
		return v, &refusal{status: 5, text: fmt.Sprintf("%s: task %d left no transcript", v.Job, x.Shard), next: "meshctl submit … --transcript"}
	}
	scr := newScreen(t)
	defer scr.close()
	if err := v.fetch(ctx, c, cl, scr, info, x); err != nil {
		return v, err
	}
	host := &replayHost{module: v.module, tape: v.tape, out: map[string]*replayOutput{}}
	for _, s := range []step{
		{"receipt", func(context.Context) (string, error) {
			return fmt.Sprintf("signed by %s, entry %d of the log", v.Node.Short(), x.Entry), nil
		}},
		{"transcript", func(context.Context) (string, error) { return v.root() }},
		{"module", func(context.Context) (string, error) { return v.ran(r) }},
		{"terms", func(context.Context) (string, error) { return v.asked(info.Job) }},
		{"replay", func(ctx context.Context) (string, error) { return v.replay(ctx, host, scr) }},
		{"usage", func(context.Context) (string, error) { return v.used(r) }},
		{"outputs", func(ctx context.Context) (string, error) { return v.left(ctx, cl, x.manifest, host) }},
	} {
		said, err := s.do(ctx)
		var down *unseen
		if errors.As(err, &down) {
			return v, down.error
		}
		v.OK = err == nil
		if err != nil {
			said = err.Error()
		}
		v.Checks = append(v.Checks, replayCheck{s.name, v.OK, said})
		if err != nil {
			break
		}
	}
	return v, nil
}

// An unseen error says nothing about the task: it could not be looked at.
type unseen struct{ error }

// fetch brings what the replay needs: body, module and transcript.
func (v *replayView) fetch(ctx context.Context, c *cli.Context, cl *client.Client, scr *screen, info wire.JobInfo, x taskOutcome) (err error) {
	if v.body, err = cl.Body(ctx, info.Terms); err != nil {
		return err
	}
	read := func(what string, b record.Blob) ([]byte, error) {
		var buf bytes.Buffer
		err := cl.Read(ctx, b, 0, &buf, func(n int64) { scr.at(what, uint64(n), b.Size, "") })
		return buf.Bytes(), err
	}
	if x.manifest.Transcript.Size > transcript.Max {
		return wire.Refuse(wire.Unverified, fmt.Sprintf("a transcript of %d bytes: at most %d are allowed", x.manifest.Transcript.Size, transcript.Max))
	}
	if v.tape, err = read("transcript", x.manifest.Transcript); err != nil {
		return err
	}
	if file := c.String("module"); file != "" {
		if v.module, err = os.ReadFile(file); err != nil {
			return usage("", "job replay: --module: %v", plain(err))
		}
		return nil
	}
	v.module, err = read("module", v.body.Module)
	var gone *wire.Error
	if errors.As(err, &gone) && gone.Code == wire.NotFound {
		return &refusal{status: 5, text: "the module is no longer kept by the gateway", next: "meshctl job replay " + v.Job + " --module FILE"}
	}
	return err
}

func (v *replayView) root() (string, error) {
	if sum := record.Ref(blake3.Sum256(v.tape)); sum != v.Root {
		return "", fmt.Errorf("its root is %s, the receipt's %s", sum, v.Root)
	}
	return fmt.Sprintf("%s, root %.12s… as in the receipt", size(uint64(len(v.tape))), v.Root), nil
}

func (v *replayView) ran(r record.Receipt) (string, error) {
	head, err := v.header()
	if err != nil {
		return "", err
	}
	switch {
	case r.Module != v.body.Module.Ref:
		return "", errors.New("the receipt is about another module than the job")
	case head.Module != sha256.Sum256(v.module):
		return "", errors.New("the transcript is about other bytes")
	case head.Ran != r.Ran:
		return "", fmt.Errorf("the transcript was made by %s, the receipt says %s", head.Ran, r.Ran)
	}
	return fmt.Sprintf("%s, as the job, the receipt and the transcript say", size(uint64(len(v.module)))), nil
}

func (v *replayView) header() (transcript.Header, error) {
	_, head, err := transcript.NewReader(bytes.NewReader(v.tape))
	return head, err
}

// spec is the run as it was recorded.
func (v *replayView) spec() (s sandbox.Spec, err error) {
	head, err := v.header()
	if err != nil {
		return s, err
	}
	if err := cbor.Unmarshal(head.Spec, &s); err != nil {
		return s, fmt.Errorf("%w: %w", transcript.ErrFormat, err)
	}
	return s, nil
}

// asked checks that what ran is what the tenant asked for.
func (v *replayView) asked(job record.Ref) (string, error) {
	s, err := v.spec()
	if err != nil {
		return "", err
	}
	if err := differs(s, v.job, v.body, job, v.Shard, v.params); err != nil {
		return "", err
	}
	return "arguments, environment, inputs, limits and seed are the job's", nil
}

func (v *replayView) replay(ctx context.Context, host *replayHost, scr *screen) (string, error) {
	s, err := v.spec()
	if err != nil {
		return "", err
	}
	s.Replay = sandbox.Input{Blob: tapeName, Size: int64(len(v.tape))}
	s.Module = sandbox.Input{Blob: s.Module.Blob, Offset: s.Module.Offset, Size: int64(len(v.module))}
	host.name = s.Module.Blob
	scr.at("replay", 0, 0, "running "+v.Job+" again from its transcript")
	if err := runReplay(ctx, s, host); err != nil {
		return "", err
	}
	inputs, device, err := v.count()
	if err != nil {
		return "", &unseen{err}
	}
	if sum := host.sum(sandbox.Transcript); sum != [32]byte(v.Root) {
		return "", errors.New("the module heard the same and asked for something else")
	}
	return fmt.Sprintf("%d reads of inputs and %d answers of the device led to the same requests at the same fuel", inputs, device), nil
}

// count goes through a transcript that was replayed.
func (v *replayView) count() (inputs, device int, err error) {
	from, _, err := transcript.NewReader(bytes.NewReader(v.tape))
	for err == nil {
		var e transcript.Event
		switch e, err = from.Next(); {
		case errors.Is(err, io.EOF):
			return inputs, device, nil
		case e.Op == transcript.Input:
			inputs++
		case e.Op == transcript.End:
			err = cbor.Unmarshal(e.Data, &v.ending)
		default:
			device++
		}
	}
	return inputs, device, err
}

func (v *replayView) used(r record.Receipt) (string, error) {
	e, u := v.ending, r.Usage
	work := record.Work(e.Work) + v.params.GuestWork(e.Fuel)
	for _, x := range [...]struct {
		what             string
		replayed, billed uint64
	}{
		{"exit code", uint64(e.Exit), uint64(r.Exit)}, {"end", uint64(e.End), uint64(r.End)}, {"fuel", e.Fuel, u.Fuel},
		{"FLOP", e.FLOP, u.FLOP}, {"bytes of kernels", e.Bytes, u.Bytes}, {"memory", e.Memory, u.Memory}, {"work", uint64(work), uint64(u.Work)},
	} {
		if x.replayed != x.billed {
			return "", fmt.Errorf("%s is %d, the receipt says %d", x.what, x.replayed, x.billed)
		}
	}
	return fmt.Sprintf("%d fuel and %d FLOP make the %s that were billed", e.Fuel, e.FLOP, workText(work)), nil
}

// left compares what the replay left with what the tenant got.
func (v *replayView) left(ctx context.Context, cl *client.Client, m record.Manifest, host *replayHost) (string, error) {
	outs := slices.Clone(m.Outputs)
	for i := range outs {
		outs[i].Name = "out/" + outs[i].Name
	}
	for name, b := range map[string]record.Blob{"stdout": m.Stdout, "stderr": m.Stderr, "log": m.Log} {
		if b.Size > 0 {
			outs = append(outs, record.Output{Name: name, Blob: b})
		}
	}
	for _, o := range outs {
		h := blake3.New(32, nil)
		if err := cl.Read(ctx, o.Blob, 0, h, nil); err != nil {
			return "", &unseen{err}
		}
		if host.out[o.Name] == nil && o.Blob.Size > 0 || host.sum(o.Name) != [32]byte(h.Sum(nil)) {
			return "", fmt.Errorf("%s has other bytes than the provider returned", o.Name)
		}
	}
	if n := len(host.out) - 1; n != len(outs) {
		return "", fmt.Errorf("the replay left %d outputs, the provider returned %d", n, len(outs))
	}
	return fmt.Sprintf("%d, byte for byte", len(outs)), nil
}

// runReplay runs s in a worker of its own, which has no device.
func runReplay(ctx context.Context, s sandbox.Spec, h sandbox.Host) error {
	ctx, cancel := context.WithCancel(ctx)
	pool := sandbox.NewPool(sandbox.Config{Log: slog.New(slog.DiscardHandler), Device: replayDevice})
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }()
	res, err := pool.Execute(ctx, "replay", s, h)
	cancel()
	if e := <-done; err == nil && e != nil {
		err = &unseen{e}
	}
	if err == nil && res.End == sandbox.BadModule {
		err = errors.New(res.Error)
	}
	return err
}

const (
	replayDevice = "replay" // as gpu.Open takes it
	tapeName     = "transcript"
)
