package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

// maxShownStdout bounds the stdout that stands in JSON; --output-dir has all.
const maxShownStdout = 64 << 10

// An outcome is what a job came to.
type outcome struct {
	info  wire.JobInfo
	end   wire.JobEvent // zero where the end was not watched
	tasks []taskOutcome
}

type taskOutcome struct {
	wire.TaskInfo
	manifest record.Manifest
	proof    tree.Proof // of the entry that settled it; checked
	head     uint64     // size of the log that the proof is about
}

// gather collects a job's results. Receipts are checked when they are decoded, blobs
// when they are read; that the log has each receipt is checked here.
func gather(ctx context.Context, cl *client.Client, job record.Ref, end wire.JobEvent) (o outcome, err error) {
	err = again(ctx, func() error {
		o, err = gatherOnce(ctx, cl, job, end)
		return err
	})
	return o, err
}

func gatherOnce(ctx context.Context, cl *client.Client, job record.Ref, end wire.JobEvent) (outcome, error) {
	o := outcome{end: end}
	var err error
	if o.info, err = jobOf(ctx, cl, job); err != nil {
		return o, err
	}
	for info, err := range cl.Tasks(ctx, job) {
		if err != nil {
			return o, err
		}
		x := taskOutcome{TaskInfo: info}
		if info.Receipt != nil {
			if err := x.check(ctx, cl); err != nil {
				return o, fmt.Errorf("task %d: %w", info.Shard, err)
			}
		}
		o.tasks = append(o.tasks, x)
	}
	return o, nil
}

func (x *taskOutcome) check(ctx context.Context, cl *client.Client) (err error) {
	if x.manifest, err = cl.Manifest(ctx, x.Receipt.Value); err != nil {
		return err
	}
	if x.proof, err = cl.Prove(ctx, x.Entry); err != nil {
		return err
	}
	proven, err := tree.Check(x.proof, cl.Mesh())
	if err != nil {
		return wire.Refuse(wire.Unverified, err.Error())
	}
	x.head = proven.Head.Size
	s := proven.Entry.Value.Settle
	if s == nil || s.Receipt.Ref() != x.Receipt.Ref() || proven.Index != x.Entry {
		return wire.Refuse(wire.Unverified, fmt.Sprintf("entry %d of the log does not pay this receipt", x.Entry))
	}
	x.Price = s.Voucher.Value.Amount
	return nil
}

// state is a job's, in one word.
func state(i wire.JobInfo) string {
	switch {
	case i.Ended == 0 && i.Running == 0 && i.Done == 0:
		return "waiting"
	case i.Ended == 0:
		return "running"
	case i.Reason == record.ByTenant:
		return "cancelled"
	case i.Reason == record.Expired:
		return "expired"
	case i.Reason != record.Finished || i.Failed > 0:
		return "failed"
	}
	return "done"
}

func (o outcome) state() string {
	if s := state(o.info); s != "done" || o.verdict() == nil {
		return s
	}
	return "failed"
}

// verdict is nil for a job that ended well.
func (o outcome) verdict() error {
	id := o.info.Job.JobID()
	for _, x := range o.tasks {
		if err := x.verdict(id, len(o.tasks) > 1); err != nil {
			return err
		}
	}
	switch {
	case o.end.Err != nil:
		return fmt.Errorf("%s: %w", id, o.end.Err)
	case o.info.Err != nil: // its end was not watched
		return fmt.Errorf("%s: %w", id, o.info.Err)
	case o.info.Ended == 0 || o.info.Reason == record.Finished:
		return nil
	}
	code := map[record.Reason]int{record.Expired: 3, record.Unaffordable: 6}[o.info.Reason]
	return &refusal{status: max(code, 1), text: fmt.Sprintf("%s: the job ended early: %s", id, o.info.Reason), next: "meshctl job get " + id}
}

func (x taskOutcome) verdict(id string, several bool) error {
	if x.Receipt == nil {
		return nil
	}
	r := x.Receipt.Value
	if several {
		id = fmt.Sprintf("%s: task %d", id, x.Shard)
	}
	switch {
	case r.End == record.Exited && r.Exit == 0:
		return nil
	case r.End == record.Exited:
		return &refusal{status: 1, text: fmt.Sprintf("%s: the module exited with code %d", id, r.Exit)}
	}
	why := r.End.String()
	if x.manifest.Error != "" {
		why += ": " + x.manifest.Error
	}
	if r.End == record.TimedOut {
		return &refusal{status: 124, text: id + ": " + why, next: "meshctl submit … --timeout TIME"}
	}
	return &refusal{status: 1, text: id + ": " + why}
}

// finishWords prints what the module said and has not been printed live.
func (t terminal) finishWords(ctx context.Context, cl *client.Client, f *follower, o outcome) error {
	read := reader(cl)
	for _, x := range o.tasks {
		if f.shards > 1 {
			f.stdout, f.stderr = newSpout(t.out), newSpout(t.err)
		}
		f.stdout.w, f.stderr.w = t.out, t.err
		same, err := f.stderr.finish(ctx, x.manifest.Stderr, read)
		if err == nil && !f.quiet {
			var sameOut bool
			sameOut, err = f.stdout.finish(ctx, x.manifest.Stdout, read)
			same = same && sameOut
		}
		if err != nil {
			return err
		}
		if !same {
			t.state("output", "the task was run again and said something else than before: meshctl job logs "+o.info.Job.JobID())
		}
	}
	return nil
}

func reader(cl *client.Client) func(context.Context, record.Blob, *tail) error {
	return func(ctx context.Context, b record.Blob, w *tail) error { return cl.Read(ctx, b, 0, w, nil) }
}

// conclude writes the outputs, prints the data and the bill, and says how the job
// ended.
func (t terminal) conclude(ctx context.Context, c *cli.Context, cl *client.Client, o outcome, w following) error {
	dir := c.String("output-dir")
	if dir != "" {
		if err := t.save(ctx, cl, o, dir, w.settings); err != nil {
			return err
		}
	}
	v, err := resultOf(ctx, cl, o)
	if err != nil {
		return err
	}
	if _, err := t.encode(c, v); err != nil {
		return err
	}
	if c.String("output") == "name" {
		fmt.Fprintln(t.out, v.Job)
	}
	t.bill(cl.Mesh().Value, o, dir, w.settings != nil)
	return o.verdict()
}

type resultView struct {
	Job    string     `json:"job"`
	Ref    record.Ref `json:"ref"`
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"`
	taskView
	Refunded record.Amount `json:"refunded_ucr"`
	Tasks    []taskView    `json:"tasks,omitempty"` // of an array job
}

type taskView struct {
	Shard     *uint32         `json:"shard,omitempty"`
	ExitCode  *uint32         `json:"exit_code"`
	Provider  *record.NodeID  `json:"provider"`
	Device    *record.Device  `json:"device,omitempty"`
	Price     record.Amount   `json:"price_ucr"`
	Rate      record.Amount   `json:"rate_ucr_per_gpu_hour"`
	Work      record.Work     `json:"work"` // nanoseconds of the reference GPU
	Fuel      *uint64         `json:"fuel"`
	Simulated bool            `json:"simulated"`
	Outputs   []outputView    `json:"outputs"`
	Metrics   []record.Metric `json:"metrics,omitempty"`
	Stdout    *string         `json:"stdout,omitempty"`
	Receipt   *receiptView    `json:"receipt"`
	Entry     *uint64         `json:"entry"`
}

type outputView struct {
	Name string     `json:"name"`
	Ref  record.Ref `json:"ref"`
	Size uint64     `json:"size"`
}

type receiptView struct {
	Ref      record.Ref    `json:"ref"`
	Provider record.NodeID `json:"provider"`
	Lease    record.Ref    `json:"lease"`
	Job      record.Ref    `json:"job"`
	Shard    uint32        `json:"shard"`
	Attempt  uint32        `json:"attempt"`
	Module   record.Ref    `json:"module"`
	Inputs   record.Ref    `json:"inputs"`
	Outputs  record.Ref    `json:"outputs"`
	Device   record.Device `json:"device"`
	Exit     uint32        `json:"exit"`
	End      record.End    `json:"end"`
	Usage    record.Usage  `json:"usage"`
	Started  stamp         `json:"started"`
	Phases   record.Phases `json:"phases"`
	Root     record.Ref    `json:"root"`
	Ran      string        `json:"ran"`
}

func viewReceipt(r record.Signed[record.Receipt]) *receiptView {
	v := r.Value
	return &receiptView{r.Ref(), r.By(), v.Lease, v.Job, v.Shard, v.Attempt, v.Module, v.Inputs, v.Outputs, v.Device,
		v.Exit, v.End, v.Usage, stamp(v.Started), v.Phases, v.Root, v.Ran}
}

func resultOf(ctx context.Context, cl *client.Client, o outcome) (resultView, error) {
	v := resultView{Job: o.info.Job.JobID(), Ref: o.info.Job, State: o.state(), Refunded: o.refund()}
	if o.info.Reason != 0 {
		v.Reason = o.info.Reason.String()
	}
	for _, x := range o.tasks {
		tv, err := x.view(ctx, cl)
		if err != nil {
			return v, err
		}
		v.Tasks = append(v.Tasks, tv)
	}
	v.taskView = summary(v.Tasks)
	if o.info.Terms.Shards == 1 {
		if len(v.Tasks) == 1 {
			v.taskView = v.Tasks[0]
			v.Shard = nil
		}
		v.Tasks = nil
	}
	return v, nil
}

// summary is what tasks come to together.
func summary(tasks []taskView) taskView {
	sum := taskView{Outputs: []outputView{}}
	for _, x := range tasks {
		sum.Price += x.Price
		sum.Work += x.Work
		sum.Simulated = sum.Simulated || x.Simulated
		if x.ExitCode != nil && (sum.ExitCode == nil || *sum.ExitCode == 0) {
			sum.ExitCode = x.ExitCode
		}
		if x.Entry != nil && (sum.Entry == nil || *x.Entry > *sum.Entry) {
			sum.Entry = x.Entry
		}
	}
	return sum
}

func (x taskOutcome) view(ctx context.Context, cl *client.Client) (taskView, error) {
	v := taskView{Shard: &x.Shard, Price: x.Price, Rate: x.Rate, Outputs: []outputView{}}
	if x.Receipt == nil {
		return v, nil
	}
	r, by := x.Receipt.Value, x.Receipt.By()
	v.ExitCode, v.Provider, v.Device, v.Work, v.Simulated = &r.Exit, &by, &r.Device, r.Usage.Work, r.Device.Simulated
	v.Metrics, v.Receipt, v.Entry = x.manifest.Metrics, viewReceipt(*x.Receipt), &x.Entry
	if r.Usage.Meter == record.Fuel {
		v.Fuel = &r.Usage.Fuel
	}
	for _, out := range x.manifest.Outputs {
		v.Outputs = append(v.Outputs, outputView{out.Name, out.Blob.Ref, out.Blob.Size})
	}
	if x.manifest.Stdout.Size <= maxShownStdout {
		var b bytes.Buffer
		if err := cl.Read(ctx, x.manifest.Stdout, 0, &b, nil); err != nil {
			return v, err
		}
		s := b.String()
		v.Stdout = &s
	}
	return v, nil
}

func (o outcome) spent() (sum record.Amount) {
	for _, x := range o.tasks {
		sum += x.Price
	}
	return max(sum, o.info.Spent)
}

// refund is what came back of the escrow once the job ended.
func (o outcome) refund() record.Amount {
	if o.info.Ended == 0 || o.spent() > o.info.Terms.MaxTotal {
		return 0
	}
	return o.info.Terms.MaxTotal - o.spent()
}
