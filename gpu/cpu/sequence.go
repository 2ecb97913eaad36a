package cpu

import (
	"idlemesh/gpu/kernel"
)

func (o *call) getRows(i int) {
	n, id := int(o.c.N), ints(o.b)[i]
	dst := row(o.dst, i, n)
	if id >= 0 && uint32(id) < o.c.K && o.c.A.Type == kernel.Q8 {
		words := kernel.Q8.BlockWords()
		expand(floats(dst), row(o.a, int(id), n/kernel.Block*words))
		return
	}
	if id >= 0 && uint32(id) < o.c.K {
		copy(dst, row(o.a, int(id), n))
		return
	}
	for j := range dst {
		dst[j] = 0x7fc00000
	}
}

func (o *call) kvAppend() {
	at := int(o.c.Params[0]) * int(o.c.N)
	n := int(o.c.M) * int(o.c.N)
	copy(o.dst[at:], o.a[:n])
	copy(o.d[at:], o.b[:n])
}

// rope turns all heads of a token at once: they share the angles.
func (o *call) rope(i int) {
	c := o.c
	heads, dim, turned := int(c.N), int(c.K), int(c.L)
	if turned == 0 {
		turned = dim
	}
	freq := floats(o.b)[:turned/2]
	near, far := 2, 1
	if c.Flags&kernel.Halves != 0 {
		near, far = 1, turned/2
	}
	dst, a := row(o.dst, i, heads*dim), row(o.a, i, heads*dim)
	copy(dst, a)
	out := floats(dst)
	for p, f := range freq {
		sin, cos := sincos(float64(float64(uint64(c.Params[0])+uint64(i)) * float64(f)))
		if c.Flags&kernel.Back != 0 {
			sin = -sin
		}
		for at := p * near; at < len(out); at += dim {
			x, y := out[at], out[at+far]
			out[at] = canon(fma(x, cos, -float32(y*sin)))
			out[at+far] = canon(fma(x, sin, float32(y*cos)))
		}
	}
}

// attention computes one head of one token.
func (o *call) attention(i int) {
	c := o.c
	heads, dim := int(c.N), int(c.K)
	group, width := heads/int(c.L), int(c.L)*dim
	scale := o.scaled()
	keys, values := floats(o.b), floats(o.d)
	seen := int(c.Params[1])
	if c.Flags&kernel.Causal != 0 {
		seen = int(c.Params[0]) + i/heads + 1
	}
	q, at := frow(o.a, i, dim), i%heads/group*dim
	s := o.borrow()
	defer o.scratch.Put(s)
	s.a = room(s.a, seen)
	e := s.a
	o.scores(e, q, keys[at:], width, scale)
	sum := o.exponentials(e)
	dst := frow(o.dst, i, dim)
	o.weigh(dst, e, values[at:], width)
	o.divide(dst, sum)
}

// scores sets e to scale times the lane sums of q and each key.
func scores(e, q, keys []float32, width int, scale float32) {
	for t := range e {
		e[t] = float32(scale * dot(q, keys[t*width:][:len(q)]))
	}
}

// weigh sets dst to the sum over rows of weight times value, in chains of depth.
func weigh(dst, weight, values []float32, width int) {
	part := make([]float32, len(dst))
	clear(dst)
	for t, w := range weight {
		v := values[t*width:][:len(part)]
		for j := range part {
			part[j] = fma(w, v[j], part[j])
		}
		if t%depth == depth-1 || t == len(weight)-1 {
			for j := range part {
				dst[j] += part[j]
			}
			clear(part)
		}
	}
}
