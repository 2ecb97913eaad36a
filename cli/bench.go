package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
	"idlemesh/mesh/provider"
	"idlemesh/sandbox"
	"idlemesh/sandbox/frame"
)

const (
	// benchTime is how long a measurement that was asked for takes, about: under 20 s in
	// all, on a machine that is slow or busy too.
	benchTime = 10 * time.Second
	// gaugeTime is the same where a node measures for itself, before it first sells.
	gaugeTime = 4 * time.Second
)

func (t terminal) benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Usage: "measure how fast this machine's device is, for the node's adverts",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "device", Usage: "measure `DEVICE`, as node run takes it", Value: "cpu"},
			&cli.DurationFlag{Name: "time", Usage: "take about `DURATION`, at most 15s", Value: benchTime},
			&cli.BoolFlag{Name: "dry-run", Usage: "keep nothing: adverts stay as they are"},
		},
		Description: "meshctl bench\nmeshctl bench -o json",
		Action:      t.bench,
	}
}

// A benchView is a measurement as it is printed. Signed is what adverts carry.
type benchView struct {
	Node      record.NodeID `json:"node"`
	Simulated bool          `json:"simulated,omitempty"`
	Speed     uint32        `json:"speed_permille"`
	record.Bench
	Signed []byte `json:"signed"`
}

// A figure is one line of the table.
type figure struct{ name, rate, share string }

func (t terminal) bench(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	device, limit := c.String("device"), c.Duration("time")
	if err := checkDevice(device); err != nil {
		return err
	}
	if limit < time.Millisecond || limit > 15*time.Second {
		return usage("", "bench: --time: %v: want between 1ms and 15s", limit)
	}
	dir, err := home(c)
	if err != nil {
		return err
	}
	base, params, err := benchPlace(c.Context, dir)
	if err != nil {
		return err
	}
	key, err := identity.Open(nodeKeyFile(dir))
	if err != nil {
		return err
	}
	if pid := lockPID(base); pid > 0 {
		t.hint("bench", fmt.Sprintf("this home's node runs, as process %d: what it does slows this down", pid))
	}
	b, simulated, err := t.measure(c.Context, key, device, limit)
	if err != nil {
		return err
	}
	v := benchView{Node: key.ID(), Simulated: simulated, Speed: b.Value.Speed(params), Bench: b.Value, Signed: b.Raw()}
	if !simulated && !c.Bool("dry-run") {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return err
		}
		if err := provider.StoreBench(filepath.Join(base, node.BenchFile), b); err != nil {
			return err
		}
	}
	return t.printBench(c, v, params)
}

// benchPlace is the folder where the node of a home keeps its bench, and what the home's
// mesh measures by; a home that has none yet will have a mesh of its own.
func benchPlace(ctx context.Context, dir string) (string, record.Params, error) {
	h := health{ctx: ctx, home: dir}
	m, base, err := h.which()
	if errors.Is(err, fs.ErrNotExist) {
		return base, record.DefaultParams(), nil
	}
	return base, m.Value.Params, err
}

// measure draws a bar while a worker measures, and says whether the device is simulated.
func (t terminal) measure(ctx context.Context, key identity.Key, device string, limit time.Duration) (record.Signed[record.Bench], bool, error) {
	pool := sandbox.NewPool(sandbox.Config{Log: slog.New(slog.DiscardHandler), Device: device})
	scr := newScreen(t)
	defer scr.close()
	b, err := provider.Measure(ctx, pool, key, limit, func(m frame.Measured) {
		scr.at("bench", uint64(m.Done), uint64(m.Total), m.Name)
	})
	return b, b.Value.Backend == "simulated", err
}

func (t terminal) printBench(c *cli.Context, v benchView, p record.Params) error {
	if done, err := t.encode(c, v); done {
		return err
	}
	if c.String("output") == "name" {
		_, err := fmt.Fprintln(t.out, v.Speed)
		return err
	}
	of := func(n, all uint64) string { return fmt.Sprintf("%d ‰", record.MulDiv(n, 1000, all)) }
	b := v.Bench
	err := list(t, c, []figure{
		{"products, binary32", fmt.Sprintf("%.1f GFLOP/s", float64(b.FLOPS)/1e9), of(b.FLOPS, p.FLOPS)},
		{"device memory, read", size(b.Bandwidth) + "/s", of(b.Bandwidth, p.Bandwidth)},
		{"tokens, 1.1e9 weights in 8 bits", fmt.Sprintf("%.1f tokens/s", float64(b.Tokens)/1000), ""},
		{"host to device", size(b.Write) + "/s", ""},
		{"device to host", size(b.Read) + "/s", ""},
		{"speed in adverts", "", fmt.Sprintf("%d ‰", v.Speed)},
	}, []column[figure]{
		{head: "measured", cell: func(f figure) string { return f.name }},
		{head: "rate", cell: func(f figure) string { return f.rate }},
		{head: "of the reference GPU", cell: func(f figure) string { return f.share }},
	})
	fmt.Fprintf(t.err, "%s, in %s\n", clean(b.Hardware), span(b.Took))
	if v.Simulated {
		fmt.Fprintf(t.err, "%s is simulated: these figures are the processor's, and its adverts name the model's own speed\n", clean(b.Model))
	}
	return err
}
