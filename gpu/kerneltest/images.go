package kerneltest

import (
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

func two(h, w int) uint32 { return uint32(h | w<<16) }

// A shape is of a convolution or of pooling.
type shape struct {
	m, n, k, groups, high, wide, outHigh, outWide  int
	kernelH, kernelW, strideH, strideW, padH, padW int
	dilation                                       int
}

func (s shape) params() [10]uint32 {
	return [10]uint32{uint32(s.high), uint32(s.wide), uint32(s.outHigh), uint32(s.outWide), two(s.kernelH, s.kernelW),
		two(s.strideH, s.strideW), two(s.padH, s.padW), two(s.dilation, s.dilation)}
}

// meets calls do for each place of an image's plane that the window at y, x covers.
func (s shape) meets(y, x int, do func(ky, kx, at int)) {
	d := max(1, s.dilation)
	for ky := range s.kernelH {
		for kx := range s.kernelW {
			py, px := y*s.strideH-s.padH+ky*d, x*s.strideW-s.padW+kx*d
			if py >= 0 && py < s.high && px >= 0 && px < s.wide {
				do(ky, kx, py*s.wide+px)
			}
		}
	}
}

var shapesOfImages = []shape{
	{1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0},
	{2, 3, 4, 0, 5, 6, 3, 4, 3, 3, 1, 1, 0, 0, 1},
	{1, 4, 2, 0, 7, 5, 7, 5, 3, 3, 1, 1, 1, 1, 0},
	{2, 4, 4, 2, 9, 9, 4, 5, 3, 2, 2, 2, 1, 1, 1},
	{1, 3, 3, 3, 8, 8, 6, 6, 2, 2, 1, 1, 1, 1, 3},
	{1, 20, 40, 0, 14, 13, 12, 11, 3, 3, 1, 1, 0, 0, 1},
}

func images() []trial {
	var all []trial
	for i, s := range shapesOfImages {
		for _, act := range []uint16{0, kernel.ReLU, kernel.SiLU} {
			all = append(all, convolve(fmt.Sprint(i, " act ", act), s, act))
		}
		for _, f := range []kernel.Function{kernel.MeanOf, kernel.MaxOf, kernel.MeanPadded} {
			all = append(all, pool(fmt.Sprint(i, " f ", f), s, f))
		}
	}
	return all
}

func convolve(name string, s shape, act uint16) trial {
	groups := max(s.groups, 1)
	channels, filters := s.k/groups, s.n/groups
	plane, weights := s.high*s.wide, channels*s.kernelH*s.kernelW
	a, b, bias := numbers(141, s.m*s.k*plane), numbers(142, s.n*weights), numbers(143, s.n)
	c := kernel.Command{Op: kernel.Conv2D, Flags: act, M: uint32(s.m), N: uint32(s.n), K: uint32(s.k), L: uint32(s.groups), Params: s.params()}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, s.m*s.n*s.outHigh*s.outWide), words(a), words(b), words(bias)}}
	for i := range s.m * s.n {
		image, filter := i/s.n, i%s.n
		for place := range s.outHigh * s.outWide {
			sum, size := bias[filter], math.Abs(bias[filter])
			for ch := range channels {
				from := (image*s.k + filter/filters*channels + ch) * plane
				s.meets(place/s.outWide, place%s.outWide, func(ky, kx, at int) {
					p := a[from+at] * b[filter*weights+(ch*s.kernelH+ky)*s.kernelW+kx]
					sum, size = sum+p, size+math.Abs(p)
				})
			}
			tr.want = append(tr.want, number{activate(act, sum), size})
		}
	}
	return tr
}

func pool(name string, s shape, f kernel.Function) trial {
	a := numbers(151, s.m*s.high*s.wide)
	if len(a) > 100 {
		a[7], a[90] = math.NaN(), math.Inf(1)
	}
	c := kernel.Command{Op: kernel.Pool2D, M: uint32(s.m), Params: s.params()}
	c.Params[8] = f
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, s.m*s.outHigh*s.outWide), words(a)}}
	for i := range s.m * s.outHigh * s.outWide {
		plane := a[i/(s.outHigh*s.outWide)*s.high*s.wide:]
		sum, size, most, n := 0.0, 0.0, math.Inf(-1), 0
		s.meets(i/s.outWide%s.outHigh, i%s.outWide, func(_, _, at int) {
			sum, size, most, n = sum+plane[at], size+math.Abs(plane[at]), max(most, plane[at]), n+1
		})
		switch f {
		case kernel.MaxOf:
			tr.want = append(tr.want, number{most, 0})
		case kernel.MeanOf:
			tr.want = append(tr.want, number{sum / float64(n), size})
		default:
			tr.want = append(tr.want, number{sum / float64(s.kernelH*s.kernelW), size})
		}
	}
	return tr
}

func norms() []trial {
	var all []trial
	for _, s := range shapes {
		m, n := s[0], s[1]
		a, b, bias := numbers(161, m*n), numbers(162, n), numbers(163, n)
		for i := range 4 {
			all = append(all, layernorm(fmt.Sprint(s, i), m, n, a, b[:n*(i&1)], bias[:n*(i>>1)]))
		}
		for name, a := range map[string][]float64{"": a, " special": special(164, m*n)} {
			all = append(all, logSoftmax(fmt.Sprint(s, name), m, n, a))
		}
	}
	const m, n, k = 2, 3, 10
	a, p := special(165, m*n*k), numbers(166, 4*n)
	for i := 3 * n; i < 4*n; i++ {
		p[i] = math.Abs(p[i])
	}
	c := kernel.Command{Op: kernel.BatchNorm, M: m, N: n, K: k, Params: [10]uint32{f32(1e-5)}}
	tr := trial{name: "channels", c: c, in: [4][]uint32{make([]uint32, m*n*k), words(a), words(p)}}
	for i, v := range a {
		ch := i / k % n
		y := (v-p[2*n+ch])*p[ch]/math.Sqrt(p[3*n+ch]+1e-5) + p[n+ch]
		tr.want = append(tr.want, number{y, math.Abs(y) + 4})
	}
	return append(all, tr)
}

func layernorm(name string, m, n int, a, b, bias []float64) trial {
	c := kernel.Command{Op: kernel.LayerNorm, M: uint32(m), N: uint32(n), Params: [10]uint32{f32(1e-5)}}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*n), words(a)}}
	if len(b) > 0 {
		tr.in[2] = words(b)
	}
	if len(bias) > 0 {
		tr.in[3] = words(bias)
	}
	for i := range m {
		row := a[i*n : (i+1)*n]
		mean, square := 0.0, 0.0
		for _, v := range row {
			mean += v / float64(n)
		}
		for _, v := range row {
			square += (v - mean) * (v - mean) / float64(n)
		}
		for j, v := range row {
			y, size := (v-mean)/math.Sqrt(square+1e-5), 4/math.Sqrt(square+1e-5)
			if len(b) > 0 {
				y, size = y*b[j], size*math.Abs(b[j])
			}
			if len(bias) > 0 {
				y, size = y+bias[j], size+math.Abs(bias[j])
			}
			tr.want = append(tr.want, number{y, size})
		}
	}
	return tr
}

func logSoftmax(name string, m, n int, a []float64) trial {
	c := kernel.Command{Op: kernel.LogSoftmax, M: uint32(m), N: uint32(n)}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*n), words(a)}}
	for i := range m {
		row := a[i*n : (i+1)*n]
		top, sum := math.Inf(-1), 0.0
		for _, v := range row {
			top = max(top, v)
		}
		for _, v := range row {
			if v == top {
				sum++
			} else {
				sum += math.Exp(v - top)
			}
		}
		for _, v := range row {
			d := v - top
			if v == top {
				d = 0
			}
			tr.want = append(tr.want, number{d - math.Log(sum), max(1, math.Abs(d))})
		}
	}
	return tr
}
