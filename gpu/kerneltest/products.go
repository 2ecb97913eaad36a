package kerneltest

import (
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

func products() []trial {
	var all []trial
	for i, s := range [][4]int{
		{1, 1, 1, 1}, {1, 7, 3, 1}, {1, 64, 64, 1}, {1, 130, 400, 1}, {3, 5, 769, 1},
		{17, 9, 33, 1}, {70, 66, 40, 1}, {2, 3, 4, 5}, {65, 4, 384, 2}, {64, 64, 64, 1},
	} {
		for flags := range uint16(4) {
			c := kernel.Command{Op: kernel.Gemm, Flags: flags, M: uint32(s[0]), N: uint32(s[1]), K: uint32(s[2]), L: uint32(s[3])}
			all = append(all, product(fmt.Sprintf("%v,flags=%d", s, flags), c, uint64(i)))
		}
	}
	for types := range 4 {
		for flags := range uint16(4) {
			for _, s := range [][4]int{{1, 70, 33, 1}, {9, 20, 401, 1}, {3, 5, 7, 2}} {
				c := kernel.Command{Op: kernel.Gemm, Flags: flags, M: uint32(s[0]), N: uint32(s[1]), K: uint32(s[2]), L: uint32(s[3])}
				c.A.Type, c.B.Type = kernel.DType(types&1), kernel.DType(types>>1)
				if s[3] > 1 {
					c.Params = [10]uint32{0, 0, 0, 23, 39, 17, f32(2), f32(0.5)}
				}
				all = append(all, product(fmt.Sprintf("%v,flags=%d,types=%d", s, flags, types), c, 95))
			}
		}
	}
	base := kernel.Command{Op: kernel.Gemm, M: 5, N: 6, K: 7}
	for name, change := range map[string]func(c *kernel.Command){
		"relu":     func(c *kernel.Command) { c.Flags = kernel.ReLU },
		"gelu":     func(c *kernel.Command) { c.Flags = kernel.GELU },
		"silu":     func(c *kernel.Command) { c.Flags = kernel.SiLU | kernel.TransB },
		"alpha":    func(c *kernel.Command) { c.Params[6] = f32(-0.5) },
		"beta":     func(c *kernel.Command) { c.Params[7] = f32(2) },
		"leading":  func(c *kernel.Command) { c.Params[0], c.Params[1], c.Params[2] = 9, 8, 11 },
		"batch":    func(c *kernel.Command) { c.L, c.Params[3], c.Params[4], c.Params[5] = 3, 40, 50, 60 },
		"shared B": func(c *kernel.Command) { c.L, c.Params[3] = 2, 35 },
		"all": func(c *kernel.Command) {
			c.Flags, c.L = kernel.TransA|kernel.TransB|kernel.SiLU, 2
			c.Params = [10]uint32{6, 9, 7, 64, 54, 41, f32(1.5), f32(-1)}
		},
	} {
		c := base
		change(&c)
		all = append(all, product(name, c, 90))
	}
	return all
}

// product fills in operands, a bias among them, and what the gemm must give.
func product(name string, c kernel.Command, seed uint64) trial {
	d := descend(&c)
	a, b := numbers(seed+1, d.size(0)), numbers(seed+2, d.size(1))
	dst, bias := numbers(seed+3, d.size(2)), numbers(seed+4, d.n)
	tr := trial{name: name, c: c, in: [4][]uint32{words(dst), encode(a, c.A.Type), encode(b, c.B.Type), words(bias)}}
	a, b = decode(tr.in[1], len(a), c.A.Type), decode(tr.in[2], len(b), c.B.Type)
	for _, v := range dst {
		tr.want = append(tr.want, number{v, 0})
	}
	alpha, beta := 1.0, float64(math.Float32frombits(c.Params[7]))
	if c.Params[6] != 0 {
		alpha = float64(math.Float32frombits(c.Params[6]))
	}
	for l := range d.l {
		for i := range d.m {
			for j := range d.n {
				sum, size := 0.0, 0.0
				for k := range d.k {
					p := alpha * a[d.at(0, l, i, k)] * b[d.at(1, l, k, j)]
					sum, size = sum+p, size+math.Abs(p)
				}
				at := d.at(2, l, i, j)
				v := sum + beta*dst[at] + bias[j]
				tr.want[at] = number{activate(c.Flags, v), size + math.Abs(beta*dst[at]) + math.Abs(bias[j])}
			}
		}
	}
	return tr
}

func activate(flags uint16, v float64) float64 {
	switch flags & (kernel.ReLU | kernel.GELU) {
	case kernel.ReLU:
		return max(v, 0)
	case kernel.GELU:
		return 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
	case kernel.SiLU:
		return v * sigmoid(v)
	}
	return v
}

// dims are a gemm's sizes with the defaults filled in.
type dims struct {
	m, n, k, l        int
	down, right, next [3]int // of A, B, Dst
	rows, cols        [3]int
}

func descend(c *kernel.Command) dims {
	d := dims{m: int(c.M), n: int(c.N), k: int(c.K), l: max(1, int(c.L))}
	d.rows, d.cols = [3]int{d.m, d.k, d.m}, [3]int{d.k, d.n, d.n}
	for i, trans := range []bool{c.Flags&kernel.TransA != 0, c.Flags&kernel.TransB != 0, false} {
		d.right[i], d.next[i] = 1, int(c.Params[3+i])
		if trans {
			d.down[i], d.right[i] = 1, max(int(c.Params[i]), d.rows[i])
		} else {
			d.down[i] = max(int(c.Params[i]), d.cols[i])
		}
	}
	if d.next[2] == 0 {
		d.next[2] = d.m * d.down[2]
	}
	return d
}

func (d *dims) at(i, l, r, c int) int { return l*d.next[i] + r*d.down[i] + c*d.right[i] }

func (d *dims) size(i int) int { return d.at(i, d.l-1, d.rows[i]-1, d.cols[i]-1) + 1 }
