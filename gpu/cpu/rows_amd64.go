package cpu

import (
	"slices"

	"idlemesh/gpu/kernel"
)

// Each of these does what the function of the same name does in plain Go, and leaves
// the elements after the last eighth to it.

func (o *call) dot(a, b []float32) float32 {
	n := len(a) &^ 7
	if !o.vectors || n == 0 {
		return dot(a, b)
	}
	var s [lanes]float32
	dot16(n, &a[0], &b[0], &s[0])
	for j := n; j < len(a); j++ {
		s[j%lanes] = fma(a[j], b[j], s[j%lanes])
	}
	return fold(&s)
}

func (o *call) exponentials(v []float32) float32 {
	n := len(v) &^ 7
	if !o.vectors || n == 0 {
		return exponentials(v)
	}
	var most [8]float32
	largest8(n, &v[0], &most[0])
	m := max(slices.Max(most[:]), slices.Max(v[len(v)-8:]))
	if m != m {
		return exponentials(v)
	}
	var s [lanes]float32
	exp8(n, &v[0], m, &s[0])
	for j := n; j < len(v); j++ {
		if v[j] == m {
			v[j] = 1
		} else {
			v[j] = exp(v[j] - m)
		}
		s[j%lanes] += v[j]
	}
	return fold(&s)
}

func (o *call) divide(v []float32, by float32) {
	n := 0
	if o.vectors && len(v) >= 8 {
		n = len(v) &^ 7
		quotient8(n, &v[0], by)
	}
	divide(v[n:], by)
}

func (o *call) scale(dst, a, b []float32, by float32) {
	n := 0
	if o.vectors && len(a) >= 8 && b != nil {
		n = len(a) &^ 7
		scaled8(n, &dst[0], &a[0], &b[0], by)
		b = b[n:]
	}
	scale(dst[n:], a[n:], b, by)
}

func (o *call) swish(dst, a, b []float32) {
	n := 0
	if o.vectors && len(a) >= 8 {
		n = len(a) &^ 7
		swiglu8(n, &dst[0], &a[0], &b[0])
	}
	swish(dst[n:], a[n:], b[n:])
}

func (o *call) weigh(dst, weight, values []float32, width int) {
	n := 0
	if o.vectors {
		n = len(dst) &^ 7
		clear(dst[:n])
	}
	for t := 0; t < len(weight) && n > 0; t += depth {
		steps, at := min(depth, len(weight)-t), values[t*width:]
		j := 0
		for ; j+64 <= n; j += 64 {
			down64(steps, &weight[t], &at[j], width, &dst[j])
		}
		for ; j < n; j += 8 {
			down8(steps, &weight[t], &at[j], width, &dst[j])
		}
	}
	if n < len(dst) {
		weigh(dst[n:], weight, values[n:], width)
	}
}

func (o *call) add(dst, a, b []float32) {
	n := 0
	if o.vectors && len(a) >= 8 {
		n = len(a) &^ 7
		add8(n, &dst[0], &a[0], &b[0])
	}
	add(dst[n:], a[n:], b[n:])
}

func (o *call) mul(dst, a, b []float32) {
	n := 0
	if o.vectors && len(a) >= 8 {
		n = len(a) &^ 7
		mul8(n, &dst[0], &a[0], &b[0])
	}
	mul(dst[n:], a[n:], b[n:])
}

func (o *call) scores(e, q, keys []float32, width int, scale float32) {
	if !o.vectors || len(q)%8 != 0 {
		scores(e, q, keys, width, scale)
		return
	}
	scores8(len(e), len(q), &q[0], &keys[0], width, scale, &e[0])
}

// quickly applies f to all but the last few elements, where there is a way, and returns
// to how many.
func (o *call) quickly(f kernel.Function, dst, a []float32) int {
	n := len(a) &^ 7
	if !o.vectors || n == 0 {
		return 0
	}
	switch f {
	case kernel.Exp:
		expo8(n, &dst[0], &a[0])
	case kernel.Sigmoid:
		sigmoid8(n, &dst[0], &a[0])
	case kernel.Rectify:
		relu8(n, &dst[0], &a[0])
	case kernel.SwishOf:
		silu8(n, &dst[0], &a[0])
	case kernel.GELUOf:
		gelu8(n, &dst[0], &a[0])
	default:
		return 0
	}
	return n
}

func (o *call) largest(v []float32) int {
	n := len(v) &^ 7
	if !o.vectors || n == 0 {
		return largest(v)
	}
	var most [8]float32
	largest8(n, &v[0], &most[0])
	m := max(slices.Max(most[:]), slices.Max(v[len(v)-8:]))
	if m != m {
		return largest(v)
	}
	return slices.Index(v, m)
}

// fuse adds by·x to v, and quickAdam does steps of adamw and returns how many.
func (o *call) fuse(v, x []float32, by float32) {
	n := 0
	if o.vectors && len(v) >= 8 {
		n = len(v) &^ 7
		fused8(n, &v[0], &x[0], by)
	}
	fuse(v[n:], x[n:], by)
}

func (o *call) quickAdam(w, g, m, v []float32, shrink float32) int {
	n := len(w) &^ 7
	if !o.vectors || n == 0 {
		return 0
	}
	b1, b2 := o.param(1), o.param(2)
	adamw8(n, &w[0], &g[0], &m[0], &v[0], -o.param(0), b1, 1-b1, b2, 1-b2, o.param(3), o.param(5), o.param(6), shrink)
	return n
}
