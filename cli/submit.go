package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

func (t terminal) submitCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "job", Usage: "read the job from `FILE`, with the names of these flags as keys; flags win"},
		&cli.StringFlag{Name: "output-dir", Usage: "write outputs, stdout, proof.tlog and job.yaml into `DIR`"},
		&cli.BoolFlag{Name: "wait", Usage: "wait for the end and print what the module prints (this is what happens anyway)"},
		&cli.BoolFlag{Name: "detach", Usage: "print the job's id and return"},
		&cli.BoolFlag{Name: "dry-run", Usage: "say who would run it and for how much; nothing is sent or charged"},
	}
	for _, o := range options {
		switch {
		case o.many:
			flags = append(flags, &cli.StringSliceFlag{Name: o.name, Usage: o.usage})
		case o.alone:
			flags = append(flags, &cli.BoolFlag{Name: o.name, Usage: o.usage})
		default:
			flags = append(flags, &cli.StringFlag{Name: o.name, Usage: o.usage})
		}
	}
	return &cli.Command{
		Name: "submit", Usage: "run a Wasm module on the mesh", ArgsUsage: "MODULE [-- ARG…]", Flags: flags,
		Description: `meshctl submit hello.wasm
meshctl submit ./wasm-examples/search --input corpus=./docs -- how are jobs paid
meshctl submit train.wasm --input data=d.bin --shards 8 --min-vram 16GiB --max-price 0.40 --output-dir out
cat m.wasm | meshctl submit - --dry-run -o json
meshctl submit --job out/job.yaml --detach`,
		Action: func(c *cli.Context) error {
			s, err := t.readSubmission(c)
			if err != nil {
				return err
			}
			return t.connect(c, func(ctx context.Context, cl *client.Client) error { return t.submit(ctx, c, cl, s) })
		},
	}
}

// A submission is a job read and checked, with nothing sent.
type submission struct {
	*draft
	settings []setting // that give the same job again
}

func (t terminal) readSubmission(c *cli.Context) (submission, error) {
	if c.Bool("wait") && c.Bool("detach") {
		return submission{}, usage("", "submit: --wait and --detach cannot both be")
	}
	flags, err := submitSettings(c)
	if err != nil {
		return submission{}, err
	}
	var file []setting
	if path := c.String("job"); path != "" {
		if file, err = readJobFile(path); err != nil {
			return submission{}, err
		}
	}
	s := submission{settings: merge(file, flags)}
	if s.draft, err = read(s.settings); err != nil {
		return s, err
	}
	if s.module.text == "" {
		return s, usage("meshctl submit --help", "submit: want a module: a .wasm file, a folder with a Go main package, or - for stdin")
	}
	if err := t.loadModule(c.Context, s.draft); err != nil {
		return s, err
	}
	return s, s.pipe(t.in)
}

// submitSettings are the command line's own. What follows `--` are arguments of the
// module, behind those of --arg.
func submitSettings(c *cli.Context) ([]setting, error) {
	args := c.Args().Slice()
	var rest []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, rest = args[:i], args[i+1:]
	}
	if len(args) > 1 {
		return nil, usage("meshctl submit "+args[0]+" -- "+strings.Join(args[1:], " "),
			"submit: want one module, not also %q: the module's own arguments follow --", args[1])
	}
	var out []setting
	if len(args) == 1 {
		out = append(out, setting{option: "module", text: args[0], where: "submit"})
	}
	for _, o := range options {
		texts := c.StringSlice(o.name)
		if !o.many && c.IsSet(o.name) {
			texts = []string{c.String(o.name)}
			if o.alone {
				texts = []string{strconv.FormatBool(c.Bool(o.name))}
			}
		}
		for _, v := range texts {
			out = append(out, setting{option: o.name, text: v, where: "submit: --" + o.name})
		}
	}
	for _, v := range rest {
		out = append(out, setting{option: "arg", text: v, where: "submit"})
	}
	return rooted(out)
}

func (t terminal) submit(ctx context.Context, c *cli.Context, cl *client.Client, s submission) error {
	if err := s.resolveNear(cl.Mesh().Value); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return t.quote(ctx, c, cl, s)
	}
	scr := newScreen(t)
	defer scr.close()
	t.greet(ctx, cl, s)
	s.Progress = func(what string, done, total int64) {
		scr.at(what, uint64(done), uint64(total), fmt.Sprintf("%s of %s", size(uint64(done)), size(uint64(total))))
	}
	a, err := send(ctx, cl, s.Request)
	if err != nil {
		return err
	}
	scr.done("upload")
	if c.Bool("detach") {
		return show(t, c, admittedView{a.Job.JobID(), a.Job, a.Entry}, []column[admittedView]{
			{head: "job", cell: func(v admittedView) string { return v.Job }},
			{head: "ref", cell: func(v admittedView) string { return v.Ref.String() }, wide: true},
			{head: "entry", cell: func(v admittedView) string { return fmt.Sprint(v.Entry) }, wide: true},
		})
	}
	scr.say("job", a.Job.JobID()+" · Ctrl-C leaves it running · back with: meshctl job wait "+a.Job.JobID())
	return t.follow(ctx, c, cl, scr, following{job: a.Job, settings: s.settings})
}

// send uploads a job and hands it over. However often that takes, it is one job.
func send(ctx context.Context, cl *client.Client, r client.Request) (a wire.Admitted, err error) {
	var job client.Signed
	err = again(ctx, func() (err error) {
		job, err = cl.Prepare(ctx, r)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("submit: %w", err)
	}
	err = again(ctx, func() (err error) {
		a, err = cl.Send(ctx, job)
		return err
	})
	return a, err
}

type admittedView struct {
	Job   string     `json:"job"`
	Ref   record.Ref `json:"ref"`
	Entry uint64     `json:"entry"`
}

// resolveNear finds the gateway that --near names by the start of its name.
func (d *draft) resolveNear(m record.Mesh) error {
	if d.near == "" {
		return nil
	}
	var names []string
	for _, g := range m.Gateways {
		names = append(names, g.Key.ID().Short())
		if strings.HasPrefix(g.Key.ID().String(), d.near) {
			d.Needs.Near = g.Key.ID()
			return nil
		}
	}
	return usage("", "submit: --near: %q is not a gateway of mesh %s: it has %s", d.near, m.Name, strings.Join(names, ", "))
}

// greet says where the job goes and what goes with it.
func (t terminal) greet(ctx context.Context, cl *client.Client, s submission) {
	if !t.live() {
		return
	}
	line := fmt.Sprintf("%s (%s)", cl.Mesh().Value.Name, cl.Gateway().Short())
	nodes := 0
	for _, err := range cl.Nodes(ctx) {
		if err == nil {
			nodes++
		}
	}
	line += fmt.Sprintf(" · %d %s", nodes, plural(nodes, "node"))
	if b, err := cl.Balance(ctx, cl.ID()); err == nil {
		line += " · balance " + credits(b.Free) + " cr"
	}
	t.hint("mesh", line)
	t.hint("module", fmt.Sprintf("%s %s · ok", s.Name, size(uint64(len(s.Module)))))
	if len(s.Inputs) > 0 {
		var names []string
		for _, in := range s.Inputs {
			names = append(names, in.Name)
		}
		t.hint("inputs", strings.Join(names, " · "))
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

type quoteView struct {
	Nodes  uint32        `json:"nodes"`
	Fit    uint32        `json:"fit"`
	Others []wire.Count  `json:"others"`
	Low    record.Amount `json:"low_ucr_per_gpu_hour"`
	High   record.Amount `json:"high_ucr_per_gpu_hour"`
	Most   record.Amount `json:"max_total_ucr,omitempty"`
}

// quote prints who fits and for how much. That nobody does is the error that submit
// would end with.
func (t terminal) quote(ctx context.Context, c *cli.Context, cl *client.Client, s submission) error {
	q, err := cl.Quote(ctx, s.Request)
	if err != nil {
		return err
	}
	v := quoteView{q.Auction.Nodes, q.Auction.Fit, append([]wire.Count{}, q.Auction.Others...), q.Low, q.High, s.MaxTotal}
	err = show(t, c, v, []column[quoteView]{
		{head: "fit", cell: func(v quoteView) string { return fitText(q.Auction) }},
		{head: "price", cell: func(v quoteView) string {
			if v.Fit == 0 {
				return ""
			}
			return fmt.Sprintf("%s to %s cr per GPU-hour of work", credits(v.Low), credits(v.High))
		}},
		{head: "at most", cell: func(v quoteView) string {
			if v.Most == 0 {
				return ""
			}
			return credits(v.Most) + " cr"
		}},
	})
	if err == nil && q.Err != nil {
		err = q.Err
	}
	return err
}

// fitText says how many nodes fit and why others do not.
func fitText(a wire.Auction) string {
	s := fmt.Sprintf("%d of %d %s", a.Fit, a.Nodes, plural(int(a.Nodes), "node"))
	var why []string
	for _, x := range a.Others {
		why = append(why, fmt.Sprintf("%d %s", x.N, x.Why))
	}
	if len(why) > 0 {
		s += " (" + strings.Join(why, " · ") + ")"
	}
	return s
}
