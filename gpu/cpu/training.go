package cpu

import (
	"idlemesh/gpu/kernel"
)

func (o *call) train(m, n int) {
	c := o.c
	switch c.Op {
	case kernel.Conv2DBackData:
		w := c.Window()
		o.rows(m*int(c.K), w.OutHigh*w.OutWide*w.Kernel[0]*w.Kernel[1]*n, (*call).conv2dBackData)
	case kernel.Conv2DBackFilter:
		w := c.Window()
		o.rows(n*int(c.K)/int(max(c.L, 1)), m*w.OutHigh*w.OutWide*w.Kernel[0]*w.Kernel[1], (*call).conv2dBackFilter)
	case kernel.RMSNormBack, kernel.LayerNormBack:
		o.normBack(m, n)
	case kernel.SoftmaxBack:
		o.rows(m, 4*n, (*call).softmaxBack)
	case kernel.CrossEntropy:
		o.rows(m, 20*n, (*call).xent)
	case kernel.CrossEntropyBack:
		o.rows(m, 20*n, (*call).xentBack)
	case kernel.UnaryBack:
		o.spans(m*n, 40, (*call).unaryBack)
	case kernel.SwiGLUBack:
		o.spans(m*n, 40, (*call).swigluBack)
	case kernel.GetRowsBack:
		o.spans(n, min(m, grain), (*call).getRowsBack)
	case kernel.AttentionBack:
		o.rows(int(c.L), grain, (*call).attentionBack)
	case kernel.SGD:
		o.spans(m*n, 8, (*call).sgd)
	case kernel.AdamW:
		o.spans(m*n, 30, (*call).adamw)
	case kernel.ClipNorm:
		o.spans(m*n, 2, (*call).clipNorm)
	}
}

// normBack computes the gradients of rows, then those of the weights, which need what
// the rows were scaled by.
func (o *call) normBack(m, n int) {
	s := o.borrow()
	defer o.scratch.Put(s)
	s.image = room(s.image, 2*m)
	o.stats = s.image
	o.rows(m, 12*n, (*call).normRowBack)
	o.spans(n, min(4*m, grain), (*call).normWeightsBack)
}

func (o *call) normRowBack(i int) {
	n := int(o.c.N)
	dst, a, dy := frow(o.dst, i, n), frow(o.a, i, n), frow(o.d, i, n)
	s := o.borrow()
	defer o.scratch.Put(s)
	s.a, s.b = room(s.a, n), room(s.b, n)
	h, g := s.a, s.b
	mean, layer := float32(0), o.c.Op == kernel.LayerNormBack
	if layer {
		mean = total(a) / float32(n)
	}
	for j, v := range a {
		h[j] = v - mean
	}
	inv := 1 / sqrt(o.dot(h, h)/float32(n)+o.param(0))
	o.stats[2*i], o.stats[2*i+1] = inv, mean
	for j, v := range h {
		h[j], g[j] = float32(inv*v), dy[j]
		if o.b != nil {
			g[j] = float32(g[j] * floats(o.b)[j])
		}
	}
	along := o.dot(g, h) / float32(n)
	if layer {
		mean = total(g) / float32(n)
	}
	for j, v := range g {
		dst[j] = canon(float32(inv * float32((v-mean)-float32(h[j]*along))))
	}
}

func (o *call) normWeightsBack(lo, hi int) {
	m, n := int(o.c.M), int(o.c.N)
	a, dy, dst := floats(o.a), floats(o.d), floats(o.dst)
	for j := lo; j < hi; j++ {
		var w, b float32
		for i := range m {
			v := dy[i*n+j]
			w = fma(v, float32(o.stats[2*i]*float32(a[i*n+j]-o.stats[2*i+1])), w)
			b += v
		}
		dst[m*n+j] = canon(w)
		if o.c.Op == kernel.LayerNormBack {
			dst[(m+1)*n+j] = canon(b)
		}
	}
}

func (o *call) softmaxBack(i int) {
	n := int(o.c.N)
	dst, y, dy := frow(o.dst, i, n), frow(o.a, i, n), frow(o.b, i, n)
	along := o.dot(y, dy)
	for j, v := range dy {
		dst[j] = canon(float32(y[j] * float32(v-along)))
	}
}

// class returns that of row i, false if it has none.
func (o *call) class(i int) (int, bool) {
	t := ints(o.b)[i]
	return int(t), t >= 0 && uint32(t) < o.c.N
}

func (o *call) xent(i int) {
	n := int(o.c.N)
	dst := floats(o.dst)[i:]
	t, ok := o.class(i)
	if !ok {
		dst[0] = 0
		return
	}
	a := frow(o.a, i, n)
	s := o.borrow()
	defer o.scratch.Put(s)
	s.a = room(s.a, n)
	copy(s.a, a)
	dst[0] = canon(float32(peak(a)+log(o.exponentials(s.a))) - a[t])
}

func (o *call) xentBack(i int) {
	n := int(o.c.N)
	dst := frow(o.dst, i, n)
	t, ok := o.class(i)
	if !ok {
		clear(dst)
		return
	}
	scale := o.param(0)
	if o.c.Params[0] == 0 {
		scale = 1
	}
	copy(dst, frow(o.a, i, n))
	o.divide(dst, o.exponentials(dst))
	dst[t]--
	for j, v := range dst {
		dst[j] = canon(float32(scale * v))
	}
}

func (o *call) unaryBack(lo, hi int) {
	dst, a, dy := floats(o.dst), floats(o.a), floats(o.b)
	f, p := o.c.Params[0], o.param(1)
	for i := lo; i < hi; i++ {
		dst[i] = canon(float32(dy[i] * slope(f, a[i], p)))
	}
}

// slope is the derivative of f at v.
func slope(f kernel.Function, v, p float32) float32 {
	switch f {
	case kernel.Neg:
		return -1
	case kernel.Abs:
		return sign(v)
	case kernel.Square:
		return 2 * v
	case kernel.Sqrt:
		return 0.5 / sqrt(v)
	case kernel.Reciprocal:
		return -1 / float32(v*v)
	case kernel.Exp:
		return exp(v)
	case kernel.Log:
		return 1 / v
	case kernel.Sin:
		_, c := sincos(float64(v))
		return c
	case kernel.Cos:
		s, _ := sincos(float64(v))
		return -s
	case kernel.Tanh:
		t := tanh(v)
		return 1 - float32(t*t)
	case kernel.Erf:
		return float32(0x1.20dd76p+0 * exp(-float32(v*v)))
	}
	return bend(f, v, p)
}

// bend is slope of the activations.
func bend(f kernel.Function, v, p float32) float32 {
	s := sigmoid(v)
	switch f {
	case kernel.Sigmoid:
		return float32(s * float32(1-s))
	case kernel.Softplus:
		return s
	case kernel.SwishOf:
		return float32(s * fma(v, 1-s, 1))
	case kernel.GELUOf:
		u := float32(0x1.6e4e26p-5 * v)
		s = sigmoid(float32(0x1.988454p+0 * fma(u, float32(v*v), v)))
		du := float32(0x1.988454p+0 * fma(float32(3*u), v, 1))
		return float32(s * fma(float32(v*du), 1-s, 1))
	}
	switch {
	case v > 0:
		return 1
	case v != v:
		return v
	case f == kernel.LeakyReLU:
		return p
	case f == kernel.ELU:
		return float32(p * exp(v))
	}
	return 0
}

func (o *call) swigluBack(lo, hi int) {
	n := int(o.c.M) * int(o.c.N)
	dst, a, b, dy := floats(o.dst), floats(o.a), floats(o.b), floats(o.d)
	for i := lo; i < hi; i++ {
		s := sigmoid(a[i])
		dst[i] = canon(float32(float32(dy[i]*b[i]) * float32(s*fma(a[i], 1-s, 1))))
		dst[n+i] = canon(float32(dy[i] * float32(a[i]*s)))
	}
}

// getRowsBack adds columns lo to hi of all rows.
func (o *call) getRowsBack(lo, hi int) {
	n := int(o.c.N)
	a, dst := floats(o.a), floats(o.dst)
	for i, id := range ints(o.b)[:o.c.M] {
		if id < 0 || uint32(id) >= o.c.K {
			continue
		}
		to := dst[int(id)*n:][:n]
		for j := lo; j < hi; j++ {
			to[j] = canon(to[j] + a[i*n+j])
		}
	}
}

func (o *call) sgd(lo, hi int) {
	w, grad := floats(o.dst), floats(o.a)
	rate, mu, decay := o.param(0), o.param(1), o.param(2)
	for i := lo; i < hi; i++ {
		g := grad[i]
		if decay != 0 {
			g = fma(decay, w[i], g)
		}
		if o.d != nil {
			v := floats(o.d)
			g = canon(fma(mu, v[i], g))
			v[i] = g
		}
		w[i] = canon(fma(-rate, g, w[i]))
	}
}

func (o *call) adamw(lo, hi int) {
	n := int(o.c.M) * int(o.c.N)
	w, grad, m, v := floats(o.dst), floats(o.a), floats(o.d), floats(o.d)[n:]
	rate, b1, b2, eps, decay := o.param(0), o.param(1), o.param(2), o.param(3), o.param(4)
	c1, c2 := o.param(5), o.param(6)
	shrink := -float32(rate * decay)
	lo += o.quickAdam(w[lo:hi], grad[lo:], m[lo:], v[lo:], shrink)
	for i := lo; i < hi; i++ {
		g := grad[i]
		m[i] = canon(fma(b1, m[i], float32((1-b1)*g)))
		v[i] = canon(fma(b2, v[i], float32((1-b2)*float32(g*g))))
		step := float32(m[i]/c1) / float32(sqrt(float32(v[i]/c2))+eps)
		w[i] = canon(fma(-rate, step, fma(shrink, w[i], w[i])))
	}
}

func (o *call) clipNorm(lo, hi int) {
	n, most, scale := sqrt(floats(o.b)[0]), o.param(0), float32(1)
	if n > most || n != n {
		scale = most / n
	}
	dst, a := floats(o.dst), floats(o.a)
	for i := lo; i < hi; i++ {
		dst[i] = canon(float32(a[i] * scale))
	}
}
