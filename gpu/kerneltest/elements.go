package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

// known has what each function of unary is, in binary64.
var known = map[kernel.Function]func(v, p, q float64) float64{
	kernel.Neg:         func(v, _, _ float64) float64 { return -v },
	kernel.Abs:         func(v, _, _ float64) float64 { return math.Abs(v) },
	kernel.Square:      func(v, _, _ float64) float64 { return v * v },
	kernel.Sqrt:        func(v, _, _ float64) float64 { return math.Sqrt(v) },
	kernel.Reciprocal:  func(v, _, _ float64) float64 { return 1 / v },
	kernel.Exp:         func(v, _, _ float64) float64 { return math.Exp(v) },
	kernel.Log:         func(v, _, _ float64) float64 { return math.Log(v) },
	kernel.Sin:         func(v, _, _ float64) float64 { return inReach(v, math.Sin(v)) },
	kernel.Cos:         func(v, _, _ float64) float64 { return inReach(v, math.Cos(v)) },
	kernel.Tanh:        func(v, _, _ float64) float64 { return math.Tanh(v) },
	kernel.Sigmoid:     func(v, _, _ float64) float64 { return sigmoid(v) },
	kernel.Erf:         func(v, _, _ float64) float64 { return math.Erf(v) },
	kernel.Rectify:     func(v, _, _ float64) float64 { return max(v, 0) },
	kernel.LeakyReLU:   func(v, p, _ float64) float64 { return max(v, 0) + p*min(v, 0) },
	kernel.ELU:         func(v, p, _ float64) float64 { return max(v, 0) + p*math.Expm1(min(v, 0)) },
	kernel.Softplus:    func(v, _, _ float64) float64 { return max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) },
	kernel.SwishOf:     func(v, _, _ float64) float64 { return v * sigmoid(v) },
	kernel.GELUOf:      func(v, _, _ float64) float64 { return activate(kernel.GELU, v) },
	kernel.HardSigmoid: func(v, p, q float64) float64 { return max(0, min(1, p*v+q)) },
	kernel.HardSwish:   func(v, p, q float64) float64 { return v * max(0, min(1, p*v+q)) },
	kernel.Clip:        func(v, p, q float64) float64 { return max(p, min(q, v)) },
	kernel.Floor:       func(v, _, _ float64) float64 { return math.Floor(v) },
	kernel.Ceil:        func(v, _, _ float64) float64 { return math.Ceil(v) },
	kernel.Round:       func(v, _, _ float64) float64 { return math.RoundToEven(v) },
	kernel.Sign: func(v, _, _ float64) float64 {
		if v > 0 || v < 0 {
			return math.Copysign(1, v)
		}
		return v
	},
}

// inReach is NaN where angles are too large to turn by.
func inReach(v, y float64) float64 {
	if !(math.Abs(v) <= 1<<20) {
		return math.NaN()
	}
	return y
}

func functions() []trial {
	var all []trial
	for f := range kernel.Function(len(known)) {
		f++
		p, q := 0.25, 0.5
		if f == kernel.Clip {
			p, q = -0.5, 0.75
		}
		for _, s := range [][2]int{{1, 1}, {3, 7}, {2, 500}} {
			n := s[0] * s[1]
			wide := numbers(102, n)
			for i := range wide {
				wide[i] = float64(float32(wide[i] * 30))
			}
			for name, a := range map[string][]float64{"": numbers(101, n), " wide": wide, " special": special(103, n)} {
				c := kernel.Command{Op: kernel.Unary, M: uint32(s[0]), N: uint32(s[1]), Params: [10]uint32{f, f32(p), f32(q)}}
				tr := trial{name: fmt.Sprint(f, s, name), c: c, in: [4][]uint32{make([]uint32, n), words(a)}}
				for _, v := range a {
					y := known[f](v, p, q)
					if f == kernel.LeakyReLU && math.IsInf(v, 1) || f == kernel.ELU && math.IsInf(v, 1) {
						y = v
					}
					if f == kernel.GELUOf && math.IsInf(v, 0) || f == kernel.SwishOf && math.IsInf(v, -1) || f == kernel.HardSwish && math.IsInf(v, -1) {
						y = math.NaN() // 0·Inf
						if v > 0 {
							y = v
						}
					}
					tr.want = append(tr.want, number{y, max(math.Abs(y), slack(f, v))})
				}
				all = append(all, tr)
			}
		}
	}
	return all
}

// slack is what errors are measured by where the result itself may be near zero.
func slack(f kernel.Function, v float64) float64 {
	switch f {
	case kernel.Sin, kernel.Cos, kernel.Erf, kernel.HardSigmoid:
		return 1
	case kernel.ELU, kernel.Log, kernel.Softplus:
		return 0.25
	case kernel.SwishOf, kernel.GELUOf, kernel.HardSwish:
		return min(math.Abs(v), 64)
	}
	return 0
}

func broadcasts() []trial {
	pair := map[kernel.Function]func(x, y float64) float64{
		kernel.Plus: func(x, y float64) float64 { return x + y }, kernel.Minus: func(x, y float64) float64 { return x - y },
		kernel.Times: func(x, y float64) float64 { return x * y }, kernel.Over: func(x, y float64) float64 { return x / y },
		kernel.Least: func(x, y float64) float64 { return min(x, y) }, kernel.Most: func(x, y float64) float64 { return max(x, y) },
		kernel.PReLU: func(x, y float64) float64 {
			if x < 0 {
				return x * y
			}
			return x
		},
	}
	var all []trial
	for f, do := range pair {
		for name, s := range map[string]struct{ dims, a, b [4]int }{
			"one":         {[4]int{1, 1, 1, 1}, [4]int{}, [4]int{}},
			"dense":       {[4]int{2, 3, 4, 5}, [4]int{60, 20, 5, 1}, [4]int{60, 20, 5, 1}},
			"long":        {[4]int{1, 1, 3, 700}, [4]int{0, 0, 700, 1}, [4]int{0, 0, 700, 1}},
			"row":         {[4]int{2, 3, 4, 5}, [4]int{60, 20, 5, 1}, [4]int{0, 0, 0, 1}},
			"channel":     {[4]int{2, 3, 4, 5}, [4]int{60, 20, 5, 1}, [4]int{0, 1, 0, 0}},
			"outer":       {[4]int{1, 1, 6, 7}, [4]int{0, 0, 1, 0}, [4]int{0, 0, 0, 1}},
			"strided":     {[4]int{1, 2, 3, 4}, [4]int{0, 50, 11, 3}, [4]int{0, 4, 8, 24}},
			"one for all": {[4]int{1, 1, 9, 9}, [4]int{0, 0, 9, 1}, [4]int{}},
		} {
			size := func(strides [4]int) int {
				n := 1
				for i, d := range s.dims {
					n += (d - 1) * strides[i]
				}
				return n
			}
			a, b := special(111, size(s.a)), numbers(112, size(s.b))
			c := kernel.Command{Op: kernel.Binary, M: uint32(s.dims[0]), N: uint32(s.dims[1]), K: uint32(s.dims[2]), L: uint32(s.dims[3])}
			c.Params[0] = f
			for i := range 4 {
				c.Params[1+i], c.Params[5+i] = uint32(s.a[i]), uint32(s.b[i])
			}
			n := s.dims[0] * s.dims[1] * s.dims[2] * s.dims[3]
			tr := trial{name: fmt.Sprint(f, " ", name), c: c, in: [4][]uint32{make([]uint32, n), words(a), words(b)}}
			for i := range n {
				at, rest := [2]int{}, i
				for d := 3; d >= 0; d-- {
					at[0], at[1], rest = at[0]+rest%s.dims[d]*s.a[d], at[1]+rest%s.dims[d]*s.b[d], rest/s.dims[d]
				}
				v := do(a[at[0]], b[at[1]])
				tr.want = append(tr.want, number{v, math.Abs(v)})
			}
			all = append(all, tr)
		}
	}
	return all
}

func reductions() []trial {
	var all []trial
	for f := kernel.SumOf; f <= kernel.SquaresOf; f++ {
		for _, s := range [][3]int{{1, 1, 1}, {3, 5, 1}, {2, 7, 3}, {1, 1000, 1}, {4, 33, 9}} {
			for name, a := range map[string][]float64{"": numbers(121, s[0]*s[1]*s[2]), " special": special(122, s[0]*s[1]*s[2])} {
				c := kernel.Command{Op: kernel.Reduce, M: uint32(s[0]), N: uint32(s[1]), K: uint32(s[2]), Params: [10]uint32{f}}
				tr := trial{name: fmt.Sprint(f, s, name), c: c, in: [4][]uint32{make([]uint32, s[0]*s[2]), words(a)}}
				for i := range s[0] * s[2] {
					tr.want = append(tr.want, reduced(f, a[i/s[2]*s[1]*s[2]+i%s[2]:], s[1], s[2]))
				}
				all = append(all, tr)
			}
		}
	}
	return all
}

func reduced(f kernel.Function, a []float64, n, step int) number {
	sum, size, product, most, least := 0.0, 0.0, 1.0, a[0], a[0]
	for i := range n {
		v := a[i*step]
		if f == kernel.SquaresOf {
			if v *= v; v > math.MaxFloat32 {
				v = math.Inf(1) // squares are binary32
			}
		}
		sum, size, product, most, least = sum+v, size+math.Abs(v), product*v, max(most, v), min(least, v)
	}
	switch f {
	case kernel.MeanOf:
		return number{sum / float64(n), size}
	case kernel.MaxOf:
		return number{most, 0}
	case kernel.MinOf:
		return number{least, 0}
	case kernel.ProductOf:
		return number{product, math.Abs(product) * float64(n)}
	}
	return number{sum, size}
}

func layouts() []trial {
	var all []trial
	for axes, order := range map[uint32][4]int{0x3210: {0, 1, 2, 3}, 0x2310: {0, 1, 3, 2}, 0x0123: {3, 2, 1, 0}, 0x1302: {2, 0, 3, 1}} {
		for _, s := range [][4]int{{1, 1, 1, 1}, {2, 3, 4, 5}, {1, 1, 37, 21}} {
			a := words(special(131, s[0]*s[1]*s[2]*s[3]))
			c := kernel.Command{Op: kernel.Transpose, M: uint32(s[0]), N: uint32(s[1]), K: uint32(s[2]), L: uint32(s[3]), Params: [10]uint32{axes}}
			tr := trial{name: fmt.Sprint(order, s), c: c, in: [4][]uint32{make([]uint32, len(a)), a}}
			for i := range a {
				at, rest, stride := 0, i, [4]int{s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}
				for d := 3; d >= 0; d-- {
					n := s[order[d]]
					at, rest = at+rest%n*stride[order[d]], rest/n
				}
				tr.bits[0] = append(tr.bits[0], a[at])
			}
			all = append(all, tr)
		}
	}
	types := []kernel.DType{kernel.F32, kernel.BF16, kernel.I8, kernel.I32}
	values := []float64{0, 1, -1, 2.5, -2.75, 100, 127, -128, 1000, -70000, 0x1p31, -0x1p40, math.Inf(1), math.Inf(-1), math.NaN(), 1.00390625, 1.01171875, 0x1p-140, 3}
	for _, from := range types {
		for _, to := range types {
			for _, n := range []int{1, 7, len(values)} {
				a := encode(values[:n], from)
				c := kernel.Command{Op: kernel.Cast, M: 1, N: uint32(n), Dst: kernel.Operand{Type: to}, A: kernel.Operand{Type: from}}
				tr := trial{name: fmt.Sprint(from, to, n), c: c}
				tr.bits[0] = encode(decode(a, n, from), to)
				tr.in = [4][]uint32{make([]uint32, len(tr.bits[0])), a}
				all = append(all, tr)
			}
		}
	}
	return append(all, randoms()...)
}

// encode lays out values as elements of a type, with zeros to a whole word.
func encode(v []float64, t kernel.DType) []uint32 {
	var p []byte
	le := binary.LittleEndian
	for _, x := range v {
		switch t {
		case kernel.F32:
			p = le.AppendUint32(p, canonical(x))
		case kernel.BF16:
			w := canonical(x)
			if x == x {
				w += 0x7fff + w>>16&1
			}
			p = le.AppendUint16(p, uint16(w>>16))
		case kernel.I8:
			p = append(p, byte(int8(clamp(x, -128, 127))))
		default:
			p = le.AppendUint32(p, uint32(int32(clamp(x, math.MinInt32, math.MaxInt32))))
		}
	}
	p = append(p, make([]byte, (4-len(p)%4)%4)...)
	w := make([]uint32, len(p)/4)
	binary.Decode(p, le, w)
	return w
}

func canonical(x float64) uint32 {
	if x != x {
		return 0x7fc00000
	}
	return f32(x)
}

func clamp(x, lo, hi float64) int64 {
	if x != x {
		return 0
	}
	return int64(max(lo, min(hi, x)))
}

func decode(w []uint32, n int, t kernel.DType) []float64 {
	p, _ := binary.Append(nil, binary.LittleEndian, w)
	le := binary.LittleEndian
	v := make([]float64, n)
	for i := range v {
		switch t {
		case kernel.F32:
			v[i] = float64(math.Float32frombits(w[i]))
		case kernel.BF16:
			v[i] = float64(math.Float32frombits(uint32(le.Uint16(p[2*i:])) << 16))
		case kernel.I8:
			v[i] = float64(int8(p[i]))
		default:
			v[i] = float64(int32(w[i]))
		}
	}
	return v
}

func randoms() []trial {
	// The answer of Philox4x32-10 to counter and key of zero, from its authors' test vectors.
	first := []uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}
	bits := trial{name: "bits", c: kernel.Command{Op: kernel.Random, M: 1, N: 3, Params: [10]uint32{4: kernel.Bits}, Dst: kernel.Operand{Type: kernel.I32}}}
	bits.in[0], bits.bits[0] = make([]uint32, 3), first[:3]
	uniform := trial{name: "uniform", c: kernel.Command{Op: kernel.Random, M: 2, N: 2, Params: [10]uint32{4: kernel.Uniform}}}
	normal := trial{name: "normal", c: kernel.Command{Op: kernel.Random, M: 1, N: 4, Params: [10]uint32{4: kernel.Normal}}}
	for i, w := range first {
		uniform.want = append(uniform.want, number{float64(w>>8) / (1 << 24), 0})
		r := math.Sqrt(-2 * math.Log(float64(first[i&^1]>>8+1)/(1<<24)))
		a := 2 * math.Pi * float64(first[i|1]>>8) / (1 << 24)
		normal.want = append(normal.want, number{r * [2]float64{math.Cos(a), math.Sin(a)}[i%2], r})
	}
	uniform.in[0], normal.in[0] = make([]uint32, 4), make([]uint32, 4)
	return []trial{bits, uniform, normal}
}
