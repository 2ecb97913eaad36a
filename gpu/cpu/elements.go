package cpu

import (
	"math"

	"idlemesh/gpu/kernel"
)

func (o *call) unary(lo, hi int) {
	dst, a := floats(o.dst)[lo:hi], floats(o.a)[lo:hi]
	f, p, q := o.c.Params[0], o.param(1), o.param(2)
	n := o.quickly(f, dst, a)
	for i, v := range a[n:] {
		dst[n+i] = canon(apply(f, v, p, q))
	}
}

func apply(f kernel.Function, v, p, q float32) float32 {
	switch f {
	case kernel.Neg:
		return -v
	case kernel.Abs:
		return float32(math.Abs(float64(v)))
	case kernel.Square:
		return float32(v * v)
	case kernel.Sqrt:
		return sqrt(v)
	case kernel.Reciprocal:
		return 1 / v
	case kernel.LeakyReLU:
		if v < 0 {
			return float32(p * v)
		}
		return v
	case kernel.Rectify:
		return activate(kernel.ReLU, v)
	case kernel.HardSigmoid:
		return bounded(float32(p*v)+q, 0, 1)
	case kernel.HardSwish:
		return float32(v * bounded(float32(p*v)+q, 0, 1))
	case kernel.Clip:
		return bounded(v, p, q)
	case kernel.Floor:
		return float32(math.Floor(float64(v)))
	case kernel.Ceil:
		return float32(math.Ceil(float64(v)))
	case kernel.Round:
		return float32(math.RoundToEven(float64(v)))
	case kernel.Sign:
		return sign(v)
	}
	return transcend(f, v, p)
}

// transcend has the functions that only processors agree on.
func transcend(f kernel.Function, v, p float32) float32 {
	switch f {
	case kernel.Exp:
		return exp(v)
	case kernel.Log:
		return log(v)
	case kernel.Sin:
		s, _ := sincos(float64(v))
		return s
	case kernel.Cos:
		_, c := sincos(float64(v))
		return c
	case kernel.Tanh:
		return tanh(v)
	case kernel.Sigmoid:
		return sigmoid(v)
	case kernel.Erf:
		return erf(v)
	case kernel.ELU:
		if v < 0 {
			return float32(p * (exp(v) - 1))
		}
		return v
	case kernel.Softplus:
		return activate(kernel.ReLU, v) + log(1+exp(-float32(math.Abs(float64(v)))))
	case kernel.SwishOf:
		return silu(v)
	}
	return gelu(v)
}

func bounded(v, lo, hi float32) float32 {
	switch {
	case v < lo:
		return lo
	case v > hi:
		return hi
	}
	return v
}

func sign(v float32) float32 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return v // a zero, or NaN
}

// larger and smaller return NaN if one is, and the first of equals.
func larger(x, y float32) float32 {
	if y > x || y != y {
		return y
	}
	return x
}

func smaller(x, y float32) float32 {
	if y < x || y != y {
		return y
	}
	return x
}

// binary computes one run of the last axis.
func (o *call) binary(i int) {
	c := o.c
	p := &c.Params
	k, n, l := int(c.K), int(c.N), int(c.L)
	at := func(s int) int { return i/k/n*int(p[s]) + i/k%n*int(p[s+1]) + i%k*int(p[s+2]) }
	dst, a, b := frow(o.dst, i, l), floats(o.a)[at(1):], floats(o.b)[at(5):]
	sa, sb := int(p[4]), int(p[8])
	if sa == 1 && sb == 1 && p[0] == kernel.Plus {
		o.add(dst, a[:l], b)
		return
	}
	if sa == 1 && sb == 1 && p[0] == kernel.Times {
		o.mul(dst, a[:l], b)
		return
	}
	for j := range dst {
		dst[j] = canon(combine(p[0], a[j*sa], b[j*sb]))
	}
}

func combine(f kernel.Function, x, y float32) float32 {
	switch f {
	case kernel.Plus:
		return x + y
	case kernel.Minus:
		return x - y
	case kernel.Times:
		return float32(x * y)
	case kernel.Over:
		return x / y
	case kernel.Least:
		return smaller(x, y)
	case kernel.Most:
		return larger(x, y)
	}
	if x < 0 {
		return float32(x * y)
	}
	return x
}

// reduce computes one element.
func (o *call) reduce(i int) {
	n, k := int(o.c.N), int(o.c.K)
	a := floats(o.a)[i/k*n*k+i%k:]
	var s [lanes]float32
	r := a[0]
	product := float32(1)
	for j := range n {
		v := a[j*k]
		switch o.c.Params[0] {
		case kernel.SumOf, kernel.MeanOf:
			s[j%lanes] += v
		case kernel.SquaresOf:
			s[j%lanes] = fma(v, v, s[j%lanes])
		case kernel.MaxOf:
			r = larger(r, v)
		case kernel.MinOf:
			r = smaller(r, v)
		default:
			product = float32(product * v)
		}
	}
	switch o.c.Params[0] {
	case kernel.SumOf, kernel.SquaresOf:
		r = fold(&s)
	case kernel.MeanOf:
		r = fold(&s) / float32(n)
	case kernel.ProductOf:
		r = product
	}
	floats(o.dst)[i] = canon(r)
}

// transpose shares out the runs of Dst's last axis.
func (o *call) transpose() {
	c := o.c
	from := [4]int{int(c.M), int(c.N), int(c.K), int(c.L)}
	strides := [4]int{from[1] * from[2] * from[3], from[2] * from[3], from[3], 1}
	for i := range 4 {
		axis := c.Params[0] >> (4 * i) & 15
		o.axes.n[i], o.axes.stride[i] = from[axis], strides[axis]
	}
	n := &o.axes.n
	o.rows(n[0]*n[1]*n[2], 2*n[3], func(o *call, i int) {
		n, s := &o.axes.n, &o.axes.stride
		a := o.a[i/n[2]/n[1]*s[0]+i/n[2]%n[1]*s[1]+i%n[2]*s[2]:]
		dst := row(o.dst, i, n[3])
		for j := range dst {
			dst[j] = a[j*s[3]]
		}
	})
}

// axes are those of a transpose's Dst.
type axes struct{ n, stride [4]int }

// cast works on pieces that are whole words in every type.
func (o *call) cast() {
	n := int(o.c.M) * int(o.c.N)
	o.spans((n+3)/4, 8, func(o *call, lo, hi int) {
		n := int(o.c.M) * int(o.c.N)
		for i := 4 * lo; i < min(n, 4*hi); i++ {
			o.put(i, o.get(i))
		}
	})
}

// get returns an element of A. Binary64 holds those of every type.
func (o *call) get(i int) float64 {
	switch o.c.A.Type {
	case kernel.BF16:
		b := bytes(o.a)[2*i:]
		return float64(math.Float32frombits(uint32(b[0])<<16 | uint32(b[1])<<24))
	case kernel.I8:
		return float64(int8(bytes(o.a)[i]))
	case kernel.I32:
		return float64(ints(o.a)[i])
	}
	return float64(floats(o.a)[i])
}

func (o *call) put(i int, v float64) {
	switch o.c.Dst.Type {
	case kernel.BF16:
		w := math.Float32bits(canon(float32(v)))
		if v == v {
			w += 0x7fff + w>>16&1
		}
		b := bytes(o.dst)[2*i:]
		b[0], b[1] = byte(w>>16), byte(w>>24)
	case kernel.I8:
		bytes(o.dst)[i] = byte(int8(integer(v, math.MinInt8, math.MaxInt8)))
	case kernel.I32:
		ints(o.dst)[i] = int32(integer(v, math.MinInt32, math.MaxInt32))
	default:
		floats(o.dst)[i] = canon(float32(v))
	}
}

func integer(v, lo, hi float64) int64 {
	if v != v {
		return 0
	}
	return int64(min(max(v, lo), hi))
}

// random fills words 4·lo to 4·hi.
func (o *call) random(lo, hi int) {
	p := o.c.Params
	counter := uint64(p[2]) | uint64(p[3])<<32
	n := int(o.c.M) * int(o.c.N)
	for i := lo; i < hi; i++ {
		c := counter + uint64(i)
		w := philox([4]uint32{uint32(c), uint32(c >> 32)}, [2]uint32{p[0], p[1]})
		switch p[4] {
		case kernel.Uniform:
			for j, x := range w {
				w[j] = math.Float32bits(float32(x>>8) * 0x1p-24)
			}
		case kernel.Normal:
			for j := 0; j < 4; j += 2 {
				r := sqrt(-2 * log(float32(w[j]>>8+1)*0x1p-24))
				s, c := sincos(float64(w[j+1]>>8) * (6.283185307179586 * 0x1p-24))
				w[j], w[j+1] = math.Float32bits(float32(r*c)), math.Float32bits(float32(r*s))
			}
		}
		copy(o.dst[4*i:min(n, 4*i+4)], w[:])
	}
}
