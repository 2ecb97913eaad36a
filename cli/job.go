package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

// stopTime is how long a job may take to end once it is cancelled, before meshctl says
// only that it is on its way.
const stopTime = 15 * time.Second

func (t terminal) jobCommand() *cli.Command {
	outputDir := &cli.StringFlag{Name: "output-dir", Usage: "write outputs, stdout and proof.tlog into `DIR`"}
	return &cli.Command{Name: "job", Usage: "your jobs, now and before", Subcommands: []*cli.Command{
		{
			Name: "list", Usage: "list your jobs, the newest first",
			Description: "meshctl job list\nmeshctl job list --label run=7 -o name\nmeshctl job list --limit 20 -o json",
			Flags: []cli.Flag{
				&cli.UintFlag{Name: "limit", Value: 100, Usage: "list at most `N`"},
				&cli.StringSliceFlag{Name: "label", Usage: "list those marked `KEY=VALUE` (repeatable)"},
			},
			Action: t.jobList,
		},
		t.jobVerb("get", "show a job and its tasks", "meshctl job get j-5wq2k7rn\nmeshctl job get j-5wq -o yaml", t.jobGet),
		t.jobVerb("wait", "wait for a job's end and print what its module prints", "meshctl job wait j-5wq2k7rn\nmeshctl job wait j-5wq2k7rn --output-dir out", t.jobWait, outputDir),
		t.jobVerb("logs", "print what a job's module printed: its stdout, and on stderr its stderr and log",
			"meshctl job logs j-5wq2k7rn\nmeshctl job logs j-5wq2k7rn --follow", t.jobLogs,
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the job ends"}),
		t.jobVerb("result", "list a job's outputs, or fetch them", "meshctl job result j-5wq2k7rn\nmeshctl job result j-5wq2k7rn --output-dir out", t.jobResult, outputDir),
		t.jobVerb("replay", "run tasks again from their transcripts and check receipts and outputs against that",
			"meshctl submit m.wasm --transcript --detach -o name\nmeshctl job replay j-5wq2k7rn\nmeshctl job replay j-5wq2k7rn --task 3 -o json", t.jobReplay,
			&cli.Uint64Flag{Name: "task", Usage: "replay task `N` alone"},
			&cli.StringFlag{Name: "module", Usage: "take the module from `FILE`, where the gateway no longer keeps it"}),
		t.jobVerb("cancel", "end a job; what it has done by then is paid", "meshctl job cancel j-5wq2k7rn", t.jobCancel),
	}}
}

// jobVerb is a command about one job.
func (t terminal) jobVerb(name, usage, examples string, do func(context.Context, *cli.Context, *client.Client, wire.JobInfo) error, flags ...cli.Flag) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: "JOB", Description: examples, Flags: flags,
		Action: func(c *cli.Context) error {
			args, err := operands(c, 1, 1)
			if err != nil {
				return err
			}
			prefix, err := jobPrefix(args[0])
			if err != nil {
				return err
			}
			return t.connect(c, func(ctx context.Context, cl *client.Client) error {
				info, err := findJob(ctx, cl, prefix)
				if err != nil {
					return err
				}
				return do(ctx, c, cl, info)
			})
		}}
}

// jobPrefix reads the start of a job's id: j- and letters, or up to all 52 letters of
// its reference.
func jobPrefix(s string) (string, error) {
	p := strings.TrimPrefix(s, "j-")
	if p == "" || len(p) > 52 || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", usage("meshctl job list", "%q is not a job: want j- and 8 letters, or their start", s)
	}
	return p, nil
}

func findJob(ctx context.Context, cl *client.Client, prefix string) (wire.JobInfo, error) {
	var found []wire.JobInfo
	for j, err := range cl.Jobs(ctx, wire.JobsRequest{Prefix: prefix, Limit: 2}) {
		if err != nil {
			return wire.JobInfo{}, err
		}
		found = append(found, j)
	}
	switch len(found) {
	case 0:
		return wire.JobInfo{}, &refusal{status: 5, text: "no job of yours starts with j-" + prefix, next: "meshctl job list"}
	case 1:
		return found[0], nil
	}
	return wire.JobInfo{}, &refusal{status: 5, next: "meshctl job list", text: fmt.Sprintf("several jobs start with j-%s: %s and %s at least", prefix, found[0].Job.JobID(), found[1].Job.JobID())}
}

func jobOf(ctx context.Context, cl *client.Client, job record.Ref) (wire.JobInfo, error) {
	return findJob(ctx, cl, job.String())
}

type jobView struct {
	Job      string            `json:"job"`
	Ref      record.Ref        `json:"ref"`
	Name     string            `json:"name"`
	State    string            `json:"state"`
	Reason   string            `json:"reason,omitempty"`
	Error    string            `json:"error,omitempty"` // why it ended badly
	Created  stamp             `json:"created"`
	Ended    *stamp            `json:"ended"`
	Shards   uint32            `json:"shards"`
	Waiting  uint32            `json:"waiting"`
	Running  uint32            `json:"running"`
	Done     uint32            `json:"done"`
	Failed   uint32            `json:"failed"`
	Spent    record.Amount     `json:"spent_ucr"`
	MaxTotal record.Amount     `json:"max_total_ucr"`
	MaxPrice record.Amount     `json:"max_price_ucr_per_gpu_hour"`
	Tier     record.Tier       `json:"tier"`
	Needs    record.Needs      `json:"needs"`
	Labels   map[string]string `json:"labels"`
	Entry    uint64            `json:"entry"`
}

func viewJob(i wire.JobInfo) jobView {
	v := jobView{Job: i.Job.JobID(), Ref: i.Job, Name: i.Name, State: state(i), Created: stamp(i.Created), Shards: i.Terms.Shards,
		Waiting: i.Waiting, Running: i.Running, Done: i.Done, Failed: i.Failed, Spent: i.Spent, MaxTotal: i.Terms.MaxTotal,
		MaxPrice: i.Terms.MaxPrice, Tier: i.Terms.Tier, Needs: i.Terms.Needs, Labels: i.Labels, Entry: i.Entry}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	if i.Ended != 0 {
		end := stamp(i.Ended)
		v.Ended, v.Reason = &end, i.Reason.String()
	}
	if i.Err != nil {
		v.Error = i.Err.Text
	}
	return v
}

var jobColumns = [...]column[jobView]{
	{head: "job", cell: func(v jobView) string { return v.Job }},
	{head: "module", cell: func(v jobView) string { return v.Name }},
	{head: "state", cell: func(v jobView) string { return v.State }},
	{head: "tasks", cell: func(v jobView) string { return fmt.Sprintf("%d/%d", v.Done, v.Shards) }},
	{head: "spent", cell: func(v jobView) string { return credits(v.Spent) }},
	{head: "created", cell: func(v jobView) string { return v.Created.String() }},
	{head: "why", cell: func(v jobView) string { return v.Error }, wide: true},
	{head: "tier", cell: func(v jobView) string { return v.Tier.String() }, wide: true},
	{head: "at most", cell: func(v jobView) string { return credits(v.MaxTotal) }, wide: true},
	{head: "labels", cell: func(v jobView) string { return labelText(v.Labels) }, wide: true},
	{head: "ref", cell: func(v jobView) string { return v.Ref.String() }, wide: true},
}

func (t terminal) jobList(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	q := wire.JobsRequest{Limit: uint32(min(c.Uint("limit"), 100_000))}
	for _, s := range c.StringSlice("label") {
		k, v, err := pair(s)
		if err != nil {
			return usage("meshctl job list --help", "job list: --label: %v", err)
		}
		put(&q.Labels, k, v)
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		var rows []jobView
		for i, err := range cl.Jobs(ctx, q) {
			if err != nil {
				return err
			}
			rows = append(rows, viewJob(i))
		}
		return list(t, c, rows, jobColumns[:])
	})
}

type jobDetail struct {
	jobView
	Tasks []liveTask `json:"tasks"`
}

type liveTask struct {
	Shard   uint32         `json:"shard"`
	Attempt uint32         `json:"attempt"`
	State   string         `json:"state"`
	Node    *record.NodeID `json:"provider"`
	Device  *record.Device `json:"device"`
	Rate    record.Amount  `json:"rate_ucr_per_gpu_hour"`
	Price   record.Amount  `json:"price_ucr"`
	Done    uint64         `json:"done"`
	Total   uint64         `json:"total"`
	Text    string         `json:"text"`
	Entry   uint64         `json:"entry,omitempty"`
	Receipt *receiptView   `json:"receipt"`
}

func viewTask(x wire.TaskInfo) liveTask {
	v := liveTask{Shard: x.Shard, Attempt: x.Attempt, State: x.State, Device: x.Device, Rate: x.Rate, Price: x.Price,
		Done: x.Done, Total: x.Total, Text: x.Text, Entry: x.Entry}
	if x.Node != (record.NodeID{}) {
		v.Node = &x.Node
	}
	if x.Receipt != nil {
		v.Receipt = viewReceipt(*x.Receipt)
	}
	return v
}

func (t terminal) jobGet(ctx context.Context, c *cli.Context, cl *client.Client, info wire.JobInfo) error {
	d := jobDetail{jobView: viewJob(info), Tasks: []liveTask{}}
	for x, err := range cl.Tasks(ctx, info.Job) {
		if err != nil {
			return err
		}
		d.Tasks = append(d.Tasks, viewTask(x))
	}
	var cols []column[jobDetail]
	for _, col := range jobColumns {
		cols = append(cols, column[jobDetail]{head: col.head, wide: col.wide && (col.head != "why" || d.Error == ""), cell: func(d jobDetail) string { return col.cell(d.jobView) }})
	}
	if err := show(t, c, d, cols); err != nil || c.String("output") != "table" && c.String("output") != "wide" {
		return err
	}
	fmt.Fprintln(t.out)
	return list(t, c, d.Tasks, []column[liveTask]{
		{head: "task", cell: func(v liveTask) string { return fmt.Sprint(v.Shard) }},
		{head: "state", cell: func(v liveTask) string { return v.State }},
		{head: "attempt", cell: func(v liveTask) string { return fmt.Sprint(v.Attempt) }},
		{head: "node", cell: func(v liveTask) string {
			if v.Node == nil {
				return ""
			}
			return v.Node.Short()
		}},
		{head: "gpu", cell: func(v liveTask) string {
			if v.Device == nil {
				return ""
			}
			return deviceText(*v.Device)
		}},
		{head: "progress", cell: func(v liveTask) string { return progressText(v.Done, v.Total, v.Text) }},
		{head: "cost", cell: func(v liveTask) string { return credits(v.Price) }},
		{head: "entry", cell: func(v liveTask) string { return fmt.Sprint(v.Entry) }, wide: true},
	})
}

func (t terminal) jobWait(ctx context.Context, c *cli.Context, cl *client.Client, info wire.JobInfo) error {
	scr := newScreen(t)
	defer scr.close()
	return t.follow(ctx, c, cl, scr, following{job: info.Job})
}

func (t terminal) jobResult(ctx context.Context, c *cli.Context, cl *client.Client, info wire.JobInfo) error {
	if info.Ended == 0 {
		return &refusal{status: 1, text: info.Job.JobID() + " has not ended", next: "meshctl job wait " + info.Job.JobID()}
	}
	o, err := gather(ctx, cl, info.Job, wire.JobEvent{})
	if err != nil {
		return err
	}
	dir := c.String("output-dir")
	if dir != "" {
		if err := t.save(ctx, cl, o, dir, nil); err != nil {
			return err
		}
	}
	v, err := resultOf(ctx, cl, o)
	if err != nil {
		return err
	}
	if done, err := t.encode(c, v); done {
		return err
	}
	var rows []savedOutput
	for _, x := range o.tasks {
		for _, out := range x.manifest.Outputs {
			rows = append(rows, savedOutput{x.Shard, out})
		}
	}
	return list(t, c, rows, []column[savedOutput]{
		{head: "name", cell: func(v savedOutput) string { return v.Name }},
		{head: "task", cell: func(v savedOutput) string { return fmt.Sprint(v.shard) }},
		{head: "size", cell: func(v savedOutput) string { return size(v.Blob.Size) }},
		{head: "ref", cell: func(v savedOutput) string { return v.Blob.Ref.String() }, wide: true},
	})
}

type savedOutput struct {
	shard uint32
	record.Output
}

func (t terminal) jobCancel(ctx context.Context, c *cli.Context, cl *client.Client, info wire.JobInfo) error {
	if err := cl.Cancel(ctx, info.Job); err != nil {
		return err
	}
	// Its tasks are stopped and paid first, which an embedded node must live to see.
	soon, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for e, err := range cl.Watch(soon, info.Job, false) {
		if err != nil || e.Kind == wire.Ended {
			break
		}
	}
	info, err := jobOf(ctx, cl, info.Job)
	if err != nil {
		return err
	}
	return show(t, c, viewJob(info), jobColumns[:])
}

// jobLogs prints what has ended tasks said; with --follow also what the others say.
func (t terminal) jobLogs(ctx context.Context, c *cli.Context, cl *client.Client, info wire.JobInfo) error {
	if info.Ended == 0 && c.Bool("follow") {
		scr := &screen{t: t, off: true}
		f := newFollower(t, scr, info.Terms.Shards)
		if err := f.watch(ctx, cl, info.Job); err != nil {
			return err
		}
		o, err := gather(ctx, cl, info.Job, f.end)
		if err != nil {
			return err
		}
		return t.finishWords(ctx, cl, f, o)
	}
	o, err := gather(ctx, cl, info.Job, wire.JobEvent{})
	if err != nil {
		return err
	}
	if f := c.String("output"); f == "json" || f == "yaml" {
		return t.logRows(ctx, c, cl, o)
	}
	if info.Ended == 0 {
		t.hint("logs", "the job has not ended: --follow prints what its tasks say from now on")
	}
	for _, x := range o.tasks {
		if err := errors.Join(cl.Read(ctx, x.manifest.Stdout, 0, t.out, nil), cl.Read(ctx, x.manifest.Stderr, 0, t.err, nil),
			cl.Read(ctx, x.manifest.Log, 0, t.err, nil)); err != nil {
			return err
		}
	}
	return nil
}

type logView struct {
	Shard  uint32 `json:"shard"`
	Stream string `json:"stream"`
	Text   string `json:"text"`
	Cut    bool   `json:"cut"` // only the start is here
}

func (t terminal) logRows(ctx context.Context, c *cli.Context, cl *client.Client, o outcome) error {
	var rows []logView
	for _, x := range o.tasks {
		m := x.manifest
		for i, b := range []record.Blob{m.Stdout, m.Stderr, m.Log} {
			var w head
			if err := cl.Read(ctx, b, 0, &w, nil); err != nil {
				return err
			}
			if b.Size > 0 {
				rows = append(rows, logView{x.Shard, []string{"stdout", "stderr", "log"}[i], w.b.String(), b.Size > maxShownStdout})
			}
		}
	}
	return list(t, c, rows, nil)
}

// A head keeps the start of what is written to it.
type head struct{ b strings.Builder }

func (h *head) Write(p []byte) (int, error) {
	h.b.Write(p[:min(len(p), maxShownStdout-h.b.Len())])
	return len(p), nil
}

func labelText(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}
