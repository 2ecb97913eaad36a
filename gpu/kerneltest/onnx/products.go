package onnx

import (
	"slices"

	"idlemesh/gpu/kernel"
)

func matmul(x *machine, _ node, in []*tensor) ([]*tensor, error) {
	a, b := in[0], in[1]
	if len(a.dims) < 2 || len(b.dims) < 2 {
		return nil, skip("vectors")
	}
	ra, rb := len(a.dims), len(b.dims)
	m, k, n := a.dims[ra-2], a.dims[ra-1], b.dims[rb-1]
	l := count(a.dims[:ra-2])
	if rb > 2 && !slices.Equal(a.dims[:ra-2], b.dims[:rb-2]) {
		return nil, skip("other batches")
	}
	c := kernel.Command{Op: kernel.Gemm, M: u(m), N: u(n), K: u(k), L: u(l)}
	if l > 1 {
		c.Params[3] = u(m * k)
		if rb > 2 {
			c.Params[4] = u(k * n)
		}
	}
	out, _ := x.run(c, make([]uint32, l*m*n), a.words, b.words, nil)
	return one(numbers(append(slices.Clone(a.dims[:ra-1]), n), out)), nil
}

func gemm(x *machine, n node, in []*tensor) ([]*tensor, error) {
	a, b := in[0], in[1]
	ta, tb := n.intOr("transA", 0), n.intOr("transB", 0)
	m, k, cols := a.dims[ta], a.dims[1-ta], b.dims[1-tb]
	c := kernel.Command{Op: kernel.Gemm, Flags: uint16(ta*kernel.TransA | tb*kernel.TransB), M: u(m), N: u(cols), K: u(k)}
	c.Params[6] = f32(n.floatOr("alpha", 1))
	dst := make([]uint32, m*cols)
	if len(in) > 2 && in[2] != nil {
		// What is added is spread over Dst, which beta then takes in.
		sum, err := x.pair(kernel.Plus, numbers([]int{m, cols}, dst), in[2])
		if err != nil {
			return nil, err
		}
		dst, c.Params[7] = sum.words, f32(n.floatOr("beta", 1))
	}
	out, _ := x.run(c, dst, a.words, b.words, nil)
	return one(numbers([]int{m, cols}, out)), nil
}

// window lays a kernel over images as the attributes say.
func window(n node, dims, size []int) (w kernel.Window, p [10]uint32, err error) {
	if len(dims) < 3 || len(dims) > 4 {
		return w, p, skip("not one or two axes")
	}
	last := func(name string, or int) [2]int {
		v := n.attrs[name].ints
		out := [2]int{or, or}
		if len(dims) == 3 {
			out[0] = 1
			v = append([]int{1}, v...)
		}
		if len(v) == 2 {
			out = [2]int(v)
		}
		return out
	}
	image, kern := dims[2:], size
	if len(dims) == 3 {
		image, kern = []int{1, dims[2]}, []int{1, size[0]}
	}
	pads := n.attrs["pads"].ints
	if len(dims) == 3 && len(pads) == 2 {
		pads = []int{0, pads[0], 0, pads[1]}
	}
	if pads == nil {
		pads = []int{0, 0, 0, 0}
	}
	stride, dilation := last("strides", 1), last("dilations", 1)
	var out, front [2]int
	for i := range 2 {
		reach := (kern[i]-1)*dilation[i] + 1
		total := pads[i] + pads[i+2]
		front[i] = pads[i]
		switch auto := n.attrs["auto_pad"].s; auto {
		case "SAME_UPPER", "SAME_LOWER":
			out[i] = (image[i] + stride[i] - 1) / stride[i]
			total = max(0, (out[i]-1)*stride[i]+reach-image[i])
			if front[i] = total / 2; auto == "SAME_LOWER" {
				front[i] = (total + 1) / 2
			}
		default:
			free := image[i] + total - reach
			out[i] = free/stride[i] + 1
			if n.intOr("ceil_mode", 0) != 0 {
				out[i] = (free+stride[i]-1)/stride[i] + 1
			}
		}
	}
	w = kernel.Window{High: image[0], Wide: image[1], OutHigh: out[0], OutWide: out[1]}
	two := func(v [2]int) uint32 { return u(v[0] | v[1]<<16) }
	return w, [10]uint32{u(image[0]), u(image[1]), u(out[0]), u(out[1]), two([2]int(kern)), two(stride), two(front), two(dilation)}, nil
}

func imageDims(dims []int, channels int, w kernel.Window) []int {
	if len(dims) == 3 {
		return []int{dims[0], channels, w.OutWide}
	}
	return []int{dims[0], channels, w.OutHigh, w.OutWide}
}

func conv(x *machine, n node, in []*tensor) ([]*tensor, error) {
	a, b := in[0], in[1]
	w, p, err := window(n, a.dims, b.dims[2:])
	if err != nil {
		return nil, err
	}
	c := kernel.Command{Op: kernel.Conv2D, M: u(a.dims[0]), K: u(a.dims[1]), N: u(b.dims[0]), L: u(n.intOr("group", 1)), Params: p}
	var bias []uint32
	if len(in) > 2 && in[2] != nil {
		bias = in[2].words
	}
	dims := imageDims(a.dims, b.dims[0], w)
	out, _ := x.run(c, make([]uint32, count(dims)), a.words, b.words, bias)
	return one(numbers(dims, out)), nil
}

func pool(x *machine, n node, in []*tensor) ([]*tensor, error) {
	a := in[0]
	w, p, err := window(n, a.dims, n.attrs["kernel_shape"].ints)
	if err != nil {
		return nil, err
	}
	p[8] = kernel.MaxOf
	if n.op == "AveragePool" {
		p[8] = kernel.MeanOf
		if n.intOr("count_include_pad", 0) != 0 {
			p[8] = kernel.MeanPadded
		}
	}
	dims := imageDims(a.dims, a.dims[1], w)
	out, _ := x.run(kernel.Command{Op: kernel.Pool2D, M: u(a.dims[0] * a.dims[1]), Params: p}, make([]uint32, count(dims)), a.words, nil, nil)
	return one(numbers(dims, out)), nil
}

func batchnorm(x *machine, n node, in []*tensor) ([]*tensor, error) {
	a := in[0]
	if n.intOr("training_mode", 0) != 0 || len(in) < 5 || len(a.dims) < 2 {
		return nil, skip("training mode")
	}
	var params []uint32
	for _, t := range in[1:5] {
		params = append(params, t.words...)
	}
	c := kernel.Command{Op: kernel.BatchNorm, M: u(a.dims[0]), N: u(a.dims[1]), K: u(count(a.dims[2:]))}
	c.Params[0] = f32(n.floatOr("epsilon", 1e-5))
	out, _ := x.run(c, make([]uint32, a.size()), a.words, params, nil)
	return one(numbers(a.dims, out)), nil
}

func layernorm(x *machine, n node, in []*tensor) ([]*tensor, error) {
	a := in[0]
	axis := axisOf(n, -1, len(a.dims))
	c := kernel.Command{Op: kernel.LayerNorm, M: u(count(a.dims[:axis])), N: u(count(a.dims[axis:]))}
	c.Params[0] = f32(n.floatOr("epsilon", 1e-5))
	var scale, bias []uint32
	if len(in) > 1 && in[1] != nil {
		scale = in[1].words
	}
	if len(in) > 2 && in[2] != nil {
		bias = in[2].words
	}
	out, _ := x.run(c, make([]uint32, a.size()), a.words, scale, bias)
	return one(numbers(a.dims, out)), nil
}
