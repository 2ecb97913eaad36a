package onnx

import (
	"math"
	"slices"

	"idlemesh/gpu/kernel"
)

// An operator computes a node; its first input is of numbers.
type operator func(x *machine, n node, in []*tensor) ([]*tensor, error)

// operators have counterparts among the kernels.
var operators = map[string]operator{
	"Neg": unary(kernel.Neg, "", 0, "", 0), "Abs": unary(kernel.Abs, "", 0, "", 0), "Sqrt": unary(kernel.Sqrt, "", 0, "", 0),
	"Reciprocal": unary(kernel.Reciprocal, "", 0, "", 0), "Exp": unary(kernel.Exp, "", 0, "", 0), "Log": unary(kernel.Log, "", 0, "", 0),
	"Sin": unary(kernel.Sin, "", 0, "", 0), "Cos": unary(kernel.Cos, "", 0, "", 0), "Tanh": unary(kernel.Tanh, "", 0, "", 0),
	"Sigmoid": unary(kernel.Sigmoid, "", 0, "", 0), "Erf": unary(kernel.Erf, "", 0, "", 0), "Relu": unary(kernel.Rectify, "", 0, "", 0),
	"LeakyRelu": unary(kernel.LeakyReLU, "alpha", 0.01, "", 0), "Elu": unary(kernel.ELU, "alpha", 1, "", 0),
	"Softplus": unary(kernel.Softplus, "", 0, "", 0), "HardSigmoid": unary(kernel.HardSigmoid, "alpha", 0.2, "beta", 0.5),
	"HardSwish": unary(kernel.HardSwish, "", 1./6, "", 0.5), "Floor": unary(kernel.Floor, "", 0, "", 0), "Ceil": unary(kernel.Ceil, "", 0, "", 0),
	"Round": unary(kernel.Round, "", 0, "", 0), "Sign": unary(kernel.Sign, "", 0, "", 0), "Clip": clip,
	"Add": binary2(kernel.Plus), "Sub": binary2(kernel.Minus), "Mul": binary2(kernel.Times), "Div": binary2(kernel.Over),
	"Min": binary2(kernel.Least), "Max": binary2(kernel.Most), "PRelu": binary2(kernel.PReLU), "Sum": binary2(kernel.Plus),
	"Softmax": along(kernel.Softmax), "LogSoftmax": along(kernel.LogSoftmax),
	"ReduceSum": reduce(0, kernel.SumOf, 0), "ReduceMean": reduce(0, kernel.MeanOf, 0), "ReduceMax": reduce(0, kernel.MaxOf, 0),
	"ReduceMin": reduce(0, kernel.MinOf, 0), "ReduceProd": reduce(0, kernel.ProductOf, 0), "ReduceL1": reduce(kernel.Abs, kernel.SumOf, 0),
	"ReduceL2": reduce(kernel.Square, kernel.SumOf, kernel.Sqrt), "ReduceSumSquare": reduce(kernel.Square, kernel.SumOf, 0),
	"ReduceLogSum": reduce(0, kernel.SumOf, kernel.Log), "ReduceLogSumExp": reduce(kernel.Exp, kernel.SumOf, kernel.Log),
	"GlobalAveragePool": global(kernel.MeanOf), "GlobalMaxPool": global(kernel.MaxOf),
	"Transpose": transpose, "Concat": concat, "Gather": gather, "ArgMax": argmax, "TopK": topk,
	"MatMul": matmul, "Gemm": gemm, "Conv": conv, "MaxPool": pool, "AveragePool": pool,
	"BatchNormalization": batchnorm, "LayerNormalization": layernorm,
}

func f32(v float32) uint32 { return math.Float32bits(v) }

func numbers(dims []int, words []uint32) *tensor {
	return &tensor{dims: dims, words: words, floats: true}
}

func one(t *tensor) []*tensor { return []*tensor{t} }

func u(n int) uint32 { return uint32(n) }

func (x *machine) apply(f kernel.Function, t *tensor, p, q float32) *tensor {
	n := t.size()
	out, _ := x.run(kernel.Command{Op: kernel.Unary, M: 1, N: u(n), Params: [10]uint32{f, f32(p), f32(q)}}, make([]uint32, n), t.words, nil, nil)
	return numbers(t.dims, out)
}

func unary(f kernel.Function, pName string, p float32, qName string, q float32) operator {
	return func(x *machine, n node, in []*tensor) ([]*tensor, error) {
		return one(x.apply(f, in[0], n.floatOr(pName, p), n.floatOr(qName, q))), nil
	}
}

func clip(x *machine, n node, in []*tensor) ([]*tensor, error) {
	bounds := [2]float32{n.floatOr("min", float32(math.Inf(-1))), n.floatOr("max", float32(math.Inf(1)))}
	for i := 1; i < min(len(in), 3); i++ {
		if in[i] != nil {
			bounds[i-1] = math.Float32frombits(in[i].words[0])
		}
	}
	return one(x.apply(kernel.Clip, in[0], bounds[0], bounds[1])), nil
}

func binary2(f kernel.Function) operator {
	return func(x *machine, n node, in []*tensor) ([]*tensor, error) {
		out := in[0]
		for _, t := range in[1:] {
			var err error
			if out, err = x.pair(f, out, t); err != nil {
				return nil, err
			}
		}
		return one(out), nil
	}
}

func (x *machine) pair(f kernel.Function, a, b *tensor) (*tensor, error) {
	rank := max(len(a.dims), len(b.dims))
	if rank > 4 || !b.floats {
		return nil, skip("above four axes")
	}
	dims := make([]int, rank)
	c := kernel.Command{Op: kernel.Binary, Params: [10]uint32{f}}
	size := []*uint32{&c.M, &c.N, &c.K, &c.L}
	for i := range size {
		*size[i] = 1
	}
	for side, t := range []*tensor{a, b} {
		stride := 1
		for i := range t.dims {
			at := len(t.dims) - 1 - i
			d, axis := t.dims[at], 3-i
			if before := int(*size[axis]); d != 1 && before != 1 && d != before {
				return nil, skip("shapes of an older version")
			}
			if d > 1 {
				c.Params[1+4*side+axis] = u(stride)
			}
			dims[rank-1-i] = max(dims[rank-1-i], d)
			*size[axis] = u(max(int(*size[axis]), d))
			stride *= d
		}
	}
	out, _ := x.run(c, make([]uint32, count(dims)), a.words, b.words, nil)
	return numbers(dims, out), nil
}

// around splits shape at an axis: what is before, it, what is behind.
func around(dims []int, axis int) (m, n, k int) {
	return count(dims[:axis]), dims[axis], count(dims[axis+1:])
}

// swap brings the last two of three axes into the other order.
func (x *machine) swap(words []uint32, m, n, k int) []uint32 {
	out, _ := x.run(kernel.Command{Op: kernel.Transpose, M: 1, N: u(m), K: u(n), L: u(k), Params: [10]uint32{0x2310}}, make([]uint32, len(words)), words, nil, nil)
	return out
}

func axisOf(n node, or, rank int) int {
	axis := n.intOr("axis", or)
	if axis < 0 {
		axis += rank
	}
	return axis
}

func along(op kernel.Op) operator {
	return func(x *machine, n node, in []*tensor) ([]*tensor, error) {
		t := in[0]
		m, size, k := around(t.dims, axisOf(n, -1, len(t.dims)))
		words := t.words
		if k > 1 {
			words = x.swap(words, m, size, k)
		}
		words, _ = x.run(kernel.Command{Op: op, M: u(m * k), N: u(size)}, make([]uint32, len(words)), words, nil, nil)
		if k > 1 {
			words = x.swap(words, m, k, size)
		}
		return one(numbers(t.dims, words)), nil
	}
}

// reduce is f over axes, between functions of one operand, 0 for none.
func reduce(before, f, after kernel.Function) operator {
	return func(x *machine, n node, in []*tensor) ([]*tensor, error) {
		t := in[0]
		axes := n.attrs["axes"].ints
		if len(in) > 1 && in[1] != nil {
			axes = in[1].ints
		}
		if len(axes) == 0 && n.intOr("noop_with_empty_axes", 0) != 0 {
			return one(t), nil
		}
		if before != 0 {
			t = x.apply(before, t, 0, 0)
		}
		gone := make([]bool, len(t.dims))
		for i := range gone {
			gone[i] = len(axes) == 0 || slices.Contains(axes, i) || slices.Contains(axes, i-len(gone))
		}
		dims, keep := slices.Clone(t.dims), []int{}
		words := t.words
		for i, g := range gone {
			if g {
				m, size, k := around(dims, i)
				words, _ = x.run(kernel.Command{Op: kernel.Reduce, M: u(m), N: u(size), K: u(k), Params: [10]uint32{f}}, make([]uint32, m*k), words, nil, nil)
				dims[i] = 1
			}
			if !g || n.intOr("keepdims", 1) != 0 {
				keep = append(keep, dims[i])
			}
		}
		t = numbers(keep, words)
		if after != 0 {
			t = x.apply(after, t, 0, 0)
		}
		return one(t), nil
	}
}

func global(f kernel.Function) operator {
	return func(x *machine, _ node, in []*tensor) ([]*tensor, error) {
		d := in[0].dims
		m, n := d[0]*d[1], count(d[2:])
		out, _ := x.run(kernel.Command{Op: kernel.Reduce, M: u(m), N: u(n), K: 1, Params: [10]uint32{f}}, make([]uint32, m), in[0].words, nil, nil)
		dims := []int{d[0], d[1]}
		for range d[2:] {
			dims = append(dims, 1)
		}
		return one(numbers(dims, out)), nil
	}
}

func transpose(x *machine, n node, in []*tensor) ([]*tensor, error) {
	t, perm := in[0], n.attrs["perm"].ints
	rank := len(t.dims)
	if rank > 4 {
		return nil, skip("above four axes")
	}
	if perm == nil {
		for i := range rank {
			perm = append(perm, rank-1-i)
		}
	}
	pad := 4 - rank
	from, axes := [4]uint32{1, 1, 1, 1}, uint32(0)
	dims := make([]int, rank)
	for i := range 4 {
		axis := i
		if i >= pad {
			from[i], axis = u(t.dims[i-pad]), perm[i-pad]+pad
			dims[i-pad] = t.dims[perm[i-pad]]
		}
		axes |= u(axis) << (4 * i)
	}
	c := kernel.Command{Op: kernel.Transpose, M: from[0], N: from[1], K: from[2], L: from[3], Params: [10]uint32{axes}}
	out, _ := x.run(c, make([]uint32, t.size()), t.words, nil, nil)
	return one(numbers(dims, out)), nil
}

// concat is a copy with a leading dimension for each input.
func concat(x *machine, n node, in []*tensor) ([]*tensor, error) {
	axis := axisOf(n, 1, len(in[0].dims))
	dims := slices.Clone(in[0].dims)
	dims[axis] = 0
	for _, t := range in {
		dims[axis] += t.dims[axis]
	}
	m, width := count(dims[:axis]), count(dims[axis:])
	out, at := make([]uint32, m*width), 0
	for _, t := range in {
		size := count(t.dims[axis:])
		rest := out[at:]
		got, _ := x.run(kernel.Command{Op: kernel.Copy, M: u(m), N: u(size), Params: [10]uint32{0, u(width)}}, slices.Clone(rest), t.words, nil, nil)
		copy(rest, got)
		at += size
	}
	return one(numbers(dims, out)), nil
}

func gather(x *machine, n node, in []*tensor) ([]*tensor, error) {
	t, ids := in[0], in[1]
	if axisOf(n, 0, len(t.dims)) != 0 {
		return nil, skip("not the first axis")
	}
	rows, width := t.dims[0], count(t.dims[1:])
	var which []uint32
	for _, id := range ids.ints {
		if id < 0 {
			id += rows
		}
		which = append(which, u(id))
	}
	c := kernel.Command{Op: kernel.GetRows, M: u(len(which)), N: u(width), K: u(rows), B: kernel.Operand{Type: kernel.I32}}
	out, _ := x.run(c, make([]uint32, len(which)*width), t.words, which, nil)
	return one(numbers(append(slices.Clone(ids.dims), t.dims[1:]...), out)), nil
}

func argmax(x *machine, n node, in []*tensor) ([]*tensor, error) {
	t := in[0]
	if n.intOr("select_last_index", 0) != 0 {
		return nil, skip("the last of equals")
	}
	axis := axisOf(n, 0, len(t.dims))
	m, size, k := around(t.dims, axis)
	words := t.words
	if k > 1 {
		words = x.swap(words, m, size, k)
	}
	c := kernel.Command{Op: kernel.ArgMax, M: u(m * k), N: u(size), Dst: kernel.Operand{Type: kernel.I32}}
	words, _ = x.run(c, make([]uint32, m*k), words, nil, nil)
	out := &tensor{}
	for _, w := range words {
		out.ints = append(out.ints, int(w))
	}
	out.dims = append(slices.Clone(t.dims[:axis]), t.dims[axis+1:]...)
	return one(out), nil
}

func topk(x *machine, n node, in []*tensor) ([]*tensor, error) {
	t := in[0]
	axis := axisOf(n, -1, len(t.dims))
	if len(in) < 2 || axis != len(t.dims)-1 || n.intOr("largest", 1) == 0 {
		return nil, skip("the smallest, or not the last axis")
	}
	m, size, _ := around(t.dims, axis)
	k := in[1].ints[0]
	c := kernel.Command{Op: kernel.TopK, M: u(m), N: u(size), K: u(k), C: kernel.Operand{Type: kernel.I32}}
	values, ids := x.run(c, make([]uint32, m*k), t.words, nil, make([]uint32, m*k))
	dims := append(slices.Clone(t.dims[:axis]), k)
	which := &tensor{dims: dims}
	for _, w := range ids {
		which.ints = append(which.ints, int(w))
	}
	return []*tensor{numbers(dims, values), which}, nil
}
