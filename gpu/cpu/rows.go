package cpu

import (
	"math"

	"idlemesh/gpu/kernel"
)

// param reads a binary32 parameter.
func (o *call) param(i int) float32 { return math.Float32frombits(o.c.Params[i]) }

func (o *call) rmsnorm(i int) {
	n := int(o.c.N)
	dst, a := frow(o.dst, i, n), frow(o.a, i, n)
	inv := 1 / sqrt(o.dot(a, a)/float32(n)+o.param(0))
	var b []float32
	if o.b != nil {
		b = floats(o.b)[:n]
	}
	o.scale(dst, a, b, inv)
}

// scale sets dst to (by·a)·b, without b if there is none.
func scale(dst, a, b []float32, by float32) {
	for j, v := range a {
		v = float32(by * v)
		if b != nil {
			v = float32(v * b[j])
		}
		dst[j] = canon(v)
	}
}

func (o *call) layernorm(i int) {
	n := int(o.c.N)
	dst, a := frow(o.dst, i, n), frow(o.a, i, n)
	mean := total(a) / float32(n)
	for j, v := range a {
		dst[j] = v - mean
	}
	inv := 1 / sqrt(o.dot(dst, dst)/float32(n)+o.param(0))
	b, c := floats(o.b), floats(o.d)
	for j, v := range dst {
		v = float32(inv * v)
		switch {
		case o.b != nil && o.d != nil:
			v = fma(v, b[j], c[j])
		case o.b != nil:
			v = float32(v * b[j])
		case o.d != nil:
			v += c[j]
		}
		dst[j] = canon(v)
	}
}

func (o *call) logSoftmax(i int) {
	n := int(o.c.N)
	dst, a := frow(o.dst, i, n), frow(o.a, i, n)
	s := o.borrow()
	defer o.scratch.Put(s)
	s.a = room(s.a, n)
	copy(s.a, a)
	m := peak(a)
	sum := log(o.exponentials(s.a))
	for j, v := range a {
		if v == m {
			v = 0
		} else {
			v -= m
		}
		dst[j] = canon(v - sum)
	}
}

// peak returns the largest, or NaN if there is one.
func peak(v []float32) float32 {
	m := float32(math.Inf(-1))
	for _, x := range v {
		if x != x {
			return x
		}
		m = max(m, x)
	}
	return m
}

func divide(v []float32, by float32) {
	for j, x := range v {
		v[j] = canon(x / by)
	}
}

func (o *call) softmax(i int) {
	n := int(o.c.N)
	dst := frow(o.dst, i, n)
	copy(dst, frow(o.a, i, n))
	o.divide(dst, o.exponentials(dst))
}

// exponentials replaces v by exp(v - largest) and returns the lane sum, which is not
// a number if an element is not.
func exponentials(v []float32) float32 {
	m := float32(math.Inf(-1))
	for _, x := range v {
		if x > m || x != x {
			m = x
		}
		if x != x {
			break
		}
	}
	for j, x := range v {
		if x == m {
			v[j] = 1
		} else {
			v[j] = exp(x - m)
		}
	}
	return total(v)
}

func (o *call) pairwise(lo, hi int) {
	dst, a, b := floats(o.dst), floats(o.a), floats(o.b)
	do := (*call).add
	if o.c.Op == kernel.Mul {
		do = (*call).mul
	}
	if o.c.Flags&kernel.ByRow == 0 {
		do(o, dst[lo:hi], a[lo:hi], b[lo:hi])
		return
	}
	for n := int(o.c.N); lo < hi; {
		at := lo % n
		end := min(hi, lo+n-at)
		do(o, dst[lo:end], a[lo:end], b[at:])
		lo = end
	}
}

func add(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = canon(v + b[i])
	}
}

func mul(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = canon(float32(v * b[i]))
	}
}

func (o *call) swiglu(lo, hi int) {
	o.swish(floats(o.dst)[lo:hi], floats(o.a)[lo:hi], floats(o.b)[lo:hi])
}

func swish(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = canon(silu(v) * b[i])
	}
}

func (o *call) fill(lo, hi int) {
	for i := lo; i < hi; i++ {
		o.dst[i] = o.c.Params[0]
	}
}

func (o *call) copy(i int) {
	n := int(o.c.N)
	src, dst := n, n
	if o.c.Params[0] != 0 {
		src = int(o.c.Params[0])
	}
	if o.c.Params[1] != 0 {
		dst = int(o.c.Params[1])
	}
	copy(o.dst[i*dst:][:n], o.a[i*src:][:n])
}
