package gpu

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"idlemesh/gpu/kernel"
)

// A Step is one of those that Measure takes.
type Step struct {
	Done, Total int
	Name        string // of what is measured now
}

// A trial repeats one thing and says how much of it was done each time.
type trial struct {
	name  string
	setup func() error
	once  func() (uint64, error)
	into  *uint64 // how much a second
}

const (
	// fewest and most bound how often a trial is repeated.
	fewest, most = 3, 2000
	// copied is how many bytes a trial copies at once.
	copied = 16 << 20
)

// A bench is a device being measured.
type bench struct {
	s       *Session
	vram    uint64
	a, b, c kernel.Buffer
	host    []byte
	token   []kernel.Command
}

// Measure says how fast the device is, as a run has it: through a session, with its
// checks. It takes about limit in all, half as much again where the device is slow, and
// wants a device that does nothing else; each figure is the median of several trials.
// report, which may be nil, is told of each step before it begins.
func (d *Device) Measure(ctx context.Context, limit time.Duration, report func(Step)) (m kernel.Measured, err error) {
	x := &bench{s: d.Session(0, kernel.Reference{}), vram: d.whole, host: make([]byte, copied)}
	defer context.AfterFunc(ctx, func() { x.s.Close() })()
	defer x.s.Close()
	trials := x.trials(&m)
	for i, t := range trials {
		if report != nil {
			report(Step{Done: i, Total: len(trials), Name: t.name})
		}
		if *t.into, err = x.run(ctx, t, limit/time.Duration(len(trials))); err != nil {
			return m, fmt.Errorf("measure %s: %w", t.name, cmp.Or(ctx.Err(), err))
		}
	}
	return m, nil
}

func (x *bench) trials(m *kernel.Measured) []trial {
	return []trial{
		{"copies to the device", x.copies, x.write, &m.Write},
		{"copies from the device", nil, x.read, &m.Read},
		{"memory", x.matrix, x.gemv, &m.Bandwidth},
		{"products", x.square, x.gemm, &m.FLOPS},
		{"tokens", x.model, x.next, &m.Tokens},
	}
}

// run repeats a trial for as long as limit and returns its median rate.
func (x *bench) run(ctx context.Context, t trial, limit time.Duration) (uint64, error) {
	end := time.Now().Add(limit)
	if t.setup != nil {
		if err := t.setup(); err != nil {
			return 0, err
		}
	}
	var rates []float64
	for i := 0; i <= most; i++ {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		begin := time.Now()
		n, err := t.once()
		if err != nil {
			return 0, err
		}
		if i == 0 { // it warms up
			continue
		}
		rates = append(rates, float64(n)/max(time.Since(begin), 1).Seconds())
		if len(rates) >= fewest && time.Now().After(end) {
			break
		}
	}
	slices.Sort(rates)
	return uint64(rates[len(rates)/2]), nil
}

// renew frees the buffers and takes others.
func (x *bench) renew(sizes ...uint64) error {
	for i, b := range []*kernel.Buffer{&x.a, &x.b, &x.c} {
		if *b != 0 {
			if err := x.s.Free(*b); err != nil {
				return err
			}
			*b = 0
		}
		if i < len(sizes) {
			var err error
			if *b, err = x.s.Alloc(sizes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *bench) submit(cmds ...kernel.Command) error {
	ev, err := x.s.Submit(cmds)
	if err != nil {
		return err
	}
	return x.s.Wait(context.Background(), ev)
}

func (x *bench) copies() error { return x.renew(copied) }

func (x *bench) write() (uint64, error) { return copied, x.s.Write(x.a, 0, x.host) }

func (x *bench) read() (uint64, error) { return copied, x.s.Read(x.a, 0, x.host) }

// columns is how long the rows are of the matrix that memory is measured by.
const columns = 4096

// rows is how many of them there are: far more than a cache holds.
func (x *bench) rows() uint32 { return uint32(min(x.vram/4, 256<<20) / (4 * columns)) }

func (x *bench) matrix() error {
	n := uint64(x.rows())
	if n == 0 {
		return fmt.Errorf("%w: %d bytes are too few to measure by", ErrQuota, x.vram)
	}
	if err := x.renew(4*columns*n, 4*columns, 4*n); err != nil {
		return err
	}
	ones := kernel.Command{Op: kernel.Fill, M: x.rows(), N: columns, Dst: operand(x.a, 0), Params: [10]uint32{math.Float32bits(1)}}
	return x.submit(ones, noise(x.b, columns))
}

func (x *bench) gemv() (uint64, error) {
	n := x.rows()
	return 4 * columns * uint64(n), x.submit(kernel.Command{Op: kernel.Gemm, Flags: kernel.TransB, M: 1, N: n, K: columns,
		Dst: operand(x.c, 0), A: operand(x.b, 0), B: operand(x.a, 0)})
}

// side is that of the matrices whose product is measured: fifty milliseconds of a
// processor, a few of a card.
const side = 1536

func (x *bench) square() error {
	const size = 4 * side * side
	if err := x.renew(size, size, size); err != nil {
		return err
	}
	return x.submit(noise(x.a, side*side), noise(x.b, side*side))
}

func (x *bench) gemm() (uint64, error) {
	return 2 * side * side * side, x.submit(kernel.Command{Op: kernel.Gemm, M: side, N: side, K: side,
		Dst: operand(x.c, 0), A: operand(x.a, 0), B: operand(x.b, 0)})
}

func operand(b kernel.Buffer, off uint64) kernel.Operand {
	return kernel.Operand{Buffer: b, Offset: off}
}

// noise fills the first n words of b with numbers around zero.
func noise(b kernel.Buffer, n uint32) kernel.Command {
	return kernel.Command{Op: kernel.Random, M: 1, N: n, Dst: operand(b, 0), Params: [10]uint32{1, 2, 0, 0, kernel.Normal}}
}
