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
	inv := 1 / sqrt(dot(a, a)/float32(n)+o.param(0))
	if o.b == nil {
		for j, v := range a {
			dst[j] = canon(float32(inv * v))
		}
		return
	}
	w := floats(o.b)[:n]
	for j, v := range a {
		dst[j] = canon(float32(inv*v) * w[j])
	}
}

func (o *call) softmax(i int) {
	n := int(o.c.N)
	dst := frow(o.dst, i, n)
	copy(dst, frow(o.a, i, n))
	sum := exponentials(dst)
	for j, v := range dst {
		dst[j] = canon(v / sum)
	}
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

// spans calls do for pieces of the n elements of a kernel that works one by one.
func (o *call) spans(n, cost int, do func(lo, hi int)) {
	size := grain / cost
	o.blocks((n+size-1)/size, func(b int) { do(b*size, min(n, (b+1)*size)) })
}

func (o *call) pairwise(lo, hi int) {
	dst, a, b := floats(o.dst), floats(o.a), floats(o.b)
	at, wrap := lo, math.MaxInt
	if o.c.Flags&kernel.ByRow != 0 {
		wrap = int(o.c.N)
		at = lo % wrap
	}
	for i := lo; i < hi; i++ {
		if at == wrap {
			at = 0
		}
		if o.c.Op == kernel.Add {
			dst[i] = canon(a[i] + b[at])
		} else {
			dst[i] = canon(float32(a[i] * b[at]))
		}
		at++
	}
}

func (o *call) swiglu(lo, hi int) {
	dst, a, b := floats(o.dst), floats(o.a), floats(o.b)
	for i := lo; i < hi; i++ {
		dst[i] = canon(silu(a[i]) * b[i])
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
