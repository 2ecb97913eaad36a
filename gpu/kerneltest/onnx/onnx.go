package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"idlemesh/gpu/kernel"
	"idlemesh/gpu/kerneltest"
)

// Dir is where Debian's package puts the cases.
const Dir = "/usr/share/libonnx-testdata/data"

// A skip is why a case has no counterpart: kernels do not claim what it asks for.
type skip string

func (s skip) Error() string { return string(s) }

// Run runs every case whose operators have counterparts on d, and returns a table of
// them.
func Run(t *testing.T, d kerneltest.Device, dir string) string {
	passed, left := map[string]int{}, map[string][]string{}
	cases, _ := filepath.Glob(filepath.Join(dir, "*", "test_*"))
	for _, c := range cases {
		name := filepath.Base(c)
		t.Run(name, func(t *testing.T) {
			op, err := run(t, d, c)
			var s skip
			switch {
			case errors.As(err, &s) && op != "":
				left[op] = append(left[op], fmt.Sprintf("%s (%s)", strings.TrimPrefix(name, "test_"), s))
			case errors.As(err, &s):
			case err != nil:
				t.Error(op, err)
			default:
				passed[op]++
			}
		})
	}
	var b strings.Builder
	all := 0
	for op := range left {
		passed[op] += 0
	}
	for _, op := range slices.Sorted(maps.Keys(passed)) {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", op, passed[op], strings.Join(left[op], ", "))
		all += passed[op]
	}
	fmt.Fprintf(&b, "| all | %d | |\n", all)
	return b.String()
}

// run runs one case and returns its operator, if that has a counterpart.
func run(t *testing.T, d kerneltest.Device, dir string) (op string, err error) {
	m, in, want, err := readCase(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errFile) {
		return "", skip("no tensors")
	}
	if err != nil {
		return "", err
	}
	for _, n := range m.nodes {
		if views[n.op] {
			continue
		}
		if operators[n.op] == nil {
			return "", skip("no kernel")
		}
		if op == "" {
			op = n.op
		}
	}
	if op == "" {
		return "", skip("no kernel")
	}
	x := &machine{t: t, d: d}
	for _, n := range m.nodes {
		if err := x.step(n, in); err != nil {
			return op, err
		}
	}
	for i, name := range m.outputs {
		if got := in[name]; got != nil {
			if err := compare(got, want[i]); err != nil {
				return op, fmt.Errorf("output %s: %w", name, err)
			}
		} else if i == 0 {
			return op, skip("no result")
		}
	}
	return op, nil
}

// compare allows what ONNX's own runner does, less two digits.
func compare(got, want *tensor) error {
	if want == nil || got.floats != want.floats {
		return skip("another type")
	}
	if got.size() != want.size() {
		return fmt.Errorf("shape %v, want %v", got.dims, want.dims)
	}
	for i, w := range want.words {
		g, w := float64(math.Float32frombits(got.words[i])), float64(math.Float32frombits(w))
		if !(math.Abs(g-w) <= 2e-6+1e-5*math.Abs(w)) && g != w && !(g != g && w != w) {
			return fmt.Errorf("element %d is %v, want %v", i, g, w)
		}
	}
	if !slices.Equal(got.ints, want.ints) {
		return fmt.Errorf("integers %v, want %v", got.ints, want.ints)
	}
	return nil
}

// step computes one node into values.
func (x *machine) step(n node, values map[string]*tensor) error {
	var in []*tensor
	for _, name := range n.in {
		v := values[name]
		if v == nil && name != "" {
			return skip("another type")
		}
		in = append(in, v)
	}
	if views[n.op] {
		return view(n, in, values)
	}
	if len(in) == 0 || in[0] == nil || !in[0].floats || in[0].size() == 0 {
		return skip("another type")
	}
	out, err := operators[n.op](x, n, in)
	for i, o := range out {
		if i < len(n.out) {
			values[n.out[i]] = o
		}
	}
	return err
}

// A machine runs commands.
type machine struct {
	t *testing.T
	d kerneltest.Device
}

// run launches a command on the operands given, nil where unused, and returns what Dst
// and C hold afterwards.
func (x *machine) run(c kernel.Command, dst, a, b, third []uint32) (first, last []uint32) {
	x.t.Helper()
	sizes := map[kernel.Buffer]uint64{}
	ops := []*kernel.Operand{&c.Dst, &c.A, &c.B, &c.C}
	for i, w := range [][]uint32{dst, a, b, third} {
		if w == nil {
			continue
		}
		h, err := x.d.Alloc(uint64(4 * len(w)))
		if err != nil {
			x.t.Fatal(err)
		}
		p, _ := binary.Append(nil, binary.LittleEndian, w)
		if err := x.d.Write(h, 0, p); err != nil {
			x.t.Fatal(err)
		}
		ops[i].Buffer, sizes[h] = h, uint64(4*len(w))
	}
	if _, err := kernel.Check(&c, func(b kernel.Buffer) uint64 { return sizes[b] }); err != nil {
		x.t.Fatal(err)
	}
	if err := x.d.Launch(nil, []kernel.Command{c}); err != nil {
		x.t.Fatal(err)
	}
	read := func(o kernel.Operand, n int) []uint32 {
		p, w := make([]byte, 4*n), make([]uint32, n)
		if err := x.d.Read(o.Buffer, 0, p); err != nil {
			x.t.Fatal(err)
		}
		binary.Decode(p, binary.LittleEndian, w)
		return w
	}
	first = read(c.Dst, len(dst))
	if third != nil {
		last = read(c.C, len(third))
	}
	return first, last
}

// views change shapes alone.
var views = map[string]bool{"Constant": true, "Identity": true, "Reshape": true, "Flatten": true, "Squeeze": true, "Unsqueeze": true}

func view(n node, in []*tensor, values map[string]*tensor) error {
	if n.op == "Constant" {
		if n.attrs["value"].t == nil {
			return skip("another type")
		}
		values[n.out[0]] = n.attrs["value"].t
		return nil
	}
	if len(in) == 0 || in[0] == nil {
		return skip("another type")
	}
	v := *in[0]
	switch n.op {
	case "Reshape":
		v.dims = reshaped(v.dims, in[1].ints)
	case "Flatten":
		axis := n.intOr("axis", 1)
		if axis < 0 {
			axis += len(v.dims)
		}
		v.dims = []int{count(v.dims[:axis]), count(v.dims[axis:])}
	case "Squeeze", "Unsqueeze":
		return skip("shapes by axes")
	}
	values[n.out[0]] = &v
	return nil
}

func reshaped(old, want []int) []int {
	dims, known, open := slices.Clone(want), 1, -1
	for i, d := range dims {
		if d == 0 {
			dims[i] = old[i]
		}
		if d < 0 {
			open = i
		} else {
			known *= dims[i]
		}
	}
	if open >= 0 {
		dims[open] = count(old) / max(known, 1)
	}
	return dims
}

func count(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

func (n *node) intOr(name string, or int) int {
	if a, ok := n.attrs[name]; ok {
		return a.i
	}
	return or
}

func (n *node) floatOr(name string, or float32) float32 {
	if a, ok := n.attrs[name]; ok {
		return a.f
	}
	return or
}
