package cpu

import (
	"math"
	"slices"
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

func (o *call) score(dst, q, keys []float32, width int, scale float32) {
	if !o.vectors || len(q)%8 != 0 {
		score(dst, q, keys, width, scale)
		return
	}
	scores8(len(dst), &q[0], &keys[0], len(q), width, scale, &dst[0])
}

func (o *call) exponentials(v []float32) float32 {
	if !o.vectors {
		return exponentials(v)
	}
	none := float32(math.Inf(-1))
	n, rest := len(v)&^7, [8]float32{none, none, none, none, none, none, none, none}
	copy(rest[:], v[n:])
	most := rest
	if n > 0 {
		largest8(n, &v[0], &most[0])
	}
	m := max(slices.Max(most[:]), slices.Max(rest[:]))
	if m != m || m == none {
		return exponentials(v)
	}
	var s, last [lanes]float32
	if n > 0 {
		exp8(n, &v[0], m, &s[0])
	}
	if n < len(v) {
		exp8(8, &rest[0], m, &last[0])
		for j := range copy(v[n:], rest[:]) {
			s[(n+j)%lanes] += last[j]
		}
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
