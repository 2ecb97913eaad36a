package cpu

import "idlemesh/gpu/kernel"

// attentionBack computes what one head of the cache, and the heads that read it, are
// given.
func (o *call) attentionBack(kv int) {
	c := o.c
	heads, dim := int(c.N), int(c.K)
	group, width, rows := heads/int(c.L), int(c.L)*dim, int(c.Params[1])
	queries := int(c.M) * heads * dim
	keys, values := floats(o.a)[queries+kv*dim:], floats(o.a)[queries+rows*width+kv*dim:]
	dKeys, dValues := floats(o.dst)[queries+kv*dim:], floats(o.dst)[queries+rows*width+kv*dim:]
	for t := range rows {
		clear(dKeys[t*width:][:dim])
		clear(dValues[t*width:][:dim])
	}
	s := o.borrow()
	defer o.scratch.Put(s)
	s.a, s.b = room(s.a, rows), room(s.b, rows)
	scale := o.scaled()
	for h := range group {
		for i := range int(c.M) {
			if stopped(o.stop) {
				return
			}
			at := (i*heads + kv*group + h) * dim
			q, dy, dq := floats(o.a)[at:][:dim], floats(o.b)[at:][:dim], floats(o.dst)[at:][:dim]
			p := o.chances(s, q, keys, width, i)
			d := s.b[:len(p)]
			o.scores(d, dy, values, width, 1)
			along := o.dot(p, d)
			clear(dq)
			for t, w := range p {
				ds := float32(scale * float32(w*float32(d[t]-along)))
				o.fuse(dq, keys[t*width:][:dim], ds)
				o.fuse(dKeys[t*width:][:dim], q, ds)
				o.fuse(dValues[t*width:][:dim], dy, w)
			}
			canonAll(dq)
		}
	}
	for t := range rows {
		canonAll(dKeys[t*width:][:dim])
		canonAll(dValues[t*width:][:dim])
	}
}

func fuse(v, x []float32, by float32) {
	for j := range v {
		v[j] = fma(by, x[j], v[j])
	}
}

func canonAll(v []float32) {
	for j, x := range v {
		v[j] = canon(x)
	}
}

// scaled is the scale of an attention.
func (o *call) scaled() float32 {
	if o.c.Params[2] == 0 {
		return 1 / sqrt(float32(o.c.K))
	}
	return o.param(2)
}

// chances returns how token i weighs the rows it sees, in the first scratch of s.
func (o *call) chances(s *scratch, q, keys []float32, width, i int) []float32 {
	seen := int(o.c.Params[1])
	if o.c.Flags&kernel.Causal != 0 {
		seen = int(o.c.Params[0]) + i + 1
	}
	p := s.a[:seen]
	o.scores(p, q, keys, width, o.scaled())
	o.divide(p, o.exponentials(p))
	return p
}

// conv2dBackData computes one channel of one image.
func (o *call) conv2dBackData(i int) {
	c, w := o.c, o.c.Window()
	groups, n, k := int(max(c.L, 1)), int(c.N), int(c.K)
	channels, filters := k/groups, n/groups
	image, channel := i/k, i%k
	group := channel / channels
	places, taps := w.OutHigh*w.OutWide, w.Kernel[0]*w.Kernel[1]
	dst := frow(o.dst, i, w.High*w.Wide)
	clear(dst)
	// A weight meets an element at one place at most, so each element is given its sum in
	// the order of filters and weights.
	for f := group * filters; f < (group+1)*filters; f++ {
		dy := floats(o.a)[(image*n+f)*places:][:places]
		weights := floats(o.b)[(f*channels+channel%channels)*taps:][:taps]
		for tap, weight := range weights {
			if stopped(o.stop) {
				return
			}
			top, left := tap/w.Kernel[1]*w.Dilation[0]-w.Pad[0], tap%w.Kernel[1]*w.Dilation[1]-w.Pad[1]
			for place, g := range dy {
				y, x := place/w.OutWide*w.Stride[0]+top, place%w.OutWide*w.Stride[1]+left
				if y >= 0 && y < w.High && x >= 0 && x < w.Wide {
					dst[y*w.Wide+x] = fma(g, weight, dst[y*w.Wide+x])
				}
			}
		}
	}
	canonAll(dst)
}

// conv2dBackFilter computes one channel of one filter.
func (o *call) conv2dBackFilter(i int) {
	c, w := o.c, o.c.Window()
	groups, n, k := int(max(c.L, 1)), int(c.N), int(c.K)
	channels := k / groups
	filter := i / channels
	channel := filter/(n/groups)*channels + i%channels
	places, taps := w.OutHigh*w.OutWide, w.Kernel[0]*w.Kernel[1]
	dst := frow(o.dst, i, taps)
	for tap := range dst {
		if stopped(o.stop) {
			return
		}
		dy, dx := tap/w.Kernel[1]*w.Dilation[0]-w.Pad[0], tap%w.Kernel[1]*w.Dilation[1]-w.Pad[1]
		sum := float32(0)
		for image := range int(c.M) {
			plane := floats(o.a)[(image*k+channel)*w.High*w.Wide:]
			for place, g := range floats(o.b)[(image*n+filter)*places:][:places] {
				y, x := place/w.OutWide*w.Stride[0]+dy, place%w.OutWide*w.Stride[1]+dx
				if y >= 0 && y < w.High && x >= 0 && x < w.Wide {
					sum = fma(g, plane[y*w.Wide+x], sum)
				}
			}
		}
		dst[tap] = canon(sum)
	}
}
