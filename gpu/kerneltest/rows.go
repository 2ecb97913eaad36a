package kerneltest

import (
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

var shapes = [][2]int{{1, 1}, {1, 5}, {3, 7}, {2, 16}, {4, 33}, {5, 1000}, {300, 3}}

func rows() []trial {
	var all []trial
	for _, s := range shapes {
		m, n := s[0], s[1]
		for name, a := range map[string][]float64{"": numbers(11, m*n), " special": special(12, m*n)} {
			name = fmt.Sprint(s, name)
			all = append(all, norm(name, m, n, a, nil), norm(name+" weighted", m, n, a, numbers(13, n)), softmax(name, m, n, a))
		}
	}
	return all
}

func norm(name string, m, n int, a, weight []float64) trial {
	c := kernel.Command{Op: kernel.RMSNorm, M: uint32(m), N: uint32(n), Params: [10]uint32{f32(1e-5)}}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*n), words(a)}}
	if weight != nil {
		tr.in[2] = words(weight)
	}
	for i := range m {
		row := a[i*n : (i+1)*n]
		sum := 0.0
		for _, v := range row {
			sum += v * v
		}
		if sum > math.MaxFloat32 { // squares are binary32
			sum = math.Inf(1)
		}
		for j, v := range row {
			w := 1.0
			if weight != nil {
				w = weight[j]
			}
			y := v / math.Sqrt(sum/float64(n)+1e-5) * w
			tr.want = append(tr.want, number{y, math.Abs(y)})
		}
	}
	return tr
}

func softmax(name string, m, n int, a []float64) trial {
	c := kernel.Command{Op: kernel.Softmax, M: uint32(m), N: uint32(n)}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*n), words(a)}}
	for i := range m {
		for _, p := range soft(a[i*n : (i+1)*n]) {
			tr.want = append(tr.want, number{p, 1})
		}
	}
	return tr
}

func soft(row []float64) []float64 {
	top := math.Inf(-1)
	for _, v := range row {
		top = max(top, v) // NaN wins
	}
	e, sum := make([]float64, len(row)), 0.0
	for i, v := range row {
		e[i] = math.Exp(v - top)
		if v == top {
			e[i] = 1
		}
		sum += e[i]
	}
	for i := range e {
		e[i] /= sum
	}
	return e
}

func elements() []trial {
	var all []trial
	for _, s := range shapes {
		m, n := s[0], s[1]
		for name, a := range map[string][]float64{"": numbers(21, m*n), " special": special(22, m*n)} {
			name = fmt.Sprint(s, name)
			b := numbers(23, m*n)
			for _, op := range []kernel.Op{kernel.Add, kernel.Mul} {
				all = append(all, pairwise(name, op, 0, s, a, b), pairwise(name+" by row", op, kernel.ByRow, s, a, b[:n]))
			}
			all = append(all, pairwise(name, kernel.SwiGLU, 0, s, a, b))
		}
	}
	return all
}

func pairwise(name string, op kernel.Op, flags uint16, s [2]int, a, b []float64) trial {
	c := kernel.Command{Op: op, Flags: flags, M: uint32(s[0]), N: uint32(s[1])}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, len(a)), words(a), words(b)}}
	for i, x := range a {
		y := b[i%len(b)]
		var v float64
		switch op {
		case kernel.Add:
			v = x + y
		case kernel.Mul:
			v = x * y
		case kernel.SwiGLU:
			v = x * sigmoid(x) * y
		}
		tr.want = append(tr.want, number{v, math.Abs(v)})
	}
	return tr
}
