package cpu

import (
	"math"

	"idlemesh/gpu/kernel"
)

// unfolded bounds the elements of an image laid out for a product at once.
const unfolded = 1 << 20

// conv2d lays out places of an image as the columns of a matrix and multiplies filters
// by it, image by image and group by group.
func (o *call) conv2d() {
	c := o.c
	w, groups := c.Window(), int(max(c.L, 1))
	channels, filters := int(c.K)/groups, int(c.N)/groups
	depth, places := channels*w.Kernel[0]*w.Kernel[1], w.OutHigh*w.OutWide
	at := max(wideEnough, unfolded/depth)
	s := o.borrow()
	defer o.scratch.Put(s)
	s.image = room(s.image, depth*min(at, places))
	o.conv = convolution{w, s.image, depth, 0, 0}
	for i := range int(c.M) * groups {
		o.conv.from = i * channels * w.High * w.Wide
		for p := 0; p < places && !stopped(o.stop); p += at {
			n := min(at, places-p)
			o.conv.place = p
			o.conv.columns = s.image[:depth*n]
			o.rows(depth, n, (*call).unfold)
			g := i % groups
			o.multiply(product{m: filters, n: n, k: depth, alpha: 1,
				a: matrix{v: floats(o.b)[g*filters*depth:], down: depth, right: 1}, b: matrix{v: o.conv.columns, down: n, right: 1},
				dst: matrix{v: floats(o.dst)[i*filters*places+p:], down: places, right: 1}}, 1)
		}
	}
	if o.d != nil || c.Flags != 0 {
		o.rows(int(c.M)*int(c.N), 20*places, (*call).finish)
	}
}

const wideEnough = 64

// A convolution is what blocks of a conv2d share.
type convolution struct {
	kernel.Window
	columns            []float32
	depth, from, place int
}

// unfold lays out what weight i of a filter meets.
func (o *call) unfold(i int) {
	v := &o.conv
	kh, kw := v.Kernel[0], v.Kernel[1]
	channel, dy, dx := i/(kh*kw), i/kw%kh*v.Dilation[0]-v.Pad[0], i%kw*v.Dilation[1]-v.Pad[1]
	plane := floats(o.a)[v.from+channel*v.High*v.Wide:][:v.High*v.Wide]
	n := len(v.columns) / v.depth
	row := v.columns[i*n:][:n]
	for j := range row {
		p := v.place + j
		y, x := p/v.OutWide*v.Stride[0]+dy, p%v.OutWide*v.Stride[1]+dx
		row[j] = 0
		if y >= 0 && y < v.High && x >= 0 && x < v.Wide {
			row[j] = plane[y*v.Wide+x]
		}
	}
}

// finish adds the bias to an image of one filter, and activates it.
func (o *call) finish(i int) {
	n := int(o.c.Params[2]) * int(o.c.Params[3])
	act := o.c.Flags & (kernel.ReLU | kernel.GELU)
	bias := float32(0)
	if o.d != nil {
		bias = floats(o.d)[i%int(o.c.N)]
	}
	dst := frow(o.dst, i, n)
	for j, v := range dst {
		if o.d != nil {
			v += bias
		}
		dst[j] = canon(activate(act, v))
	}
}

// pool2d computes row i of all images.
func (o *call) pool2d(i int) {
	w, f := o.c.Window(), o.c.Params[8]
	image := frow(o.a, i/w.OutHigh, w.High*w.Wide)
	dst := frow(o.dst, i, w.OutWide)
	top := i%w.OutHigh*w.Stride[0] - w.Pad[0]
	y0, y1 := taps(top, w.Dilation[0], w.Kernel[0], w.High)
	for x := range dst {
		left := x*w.Stride[1] - w.Pad[1]
		sum, most, inside := float32(0), float32(math.Inf(-1)), 0
		k0, k1 := taps(left, w.Dilation[1], w.Kernel[1], w.Wide)
		for ky := y0; ky < y1; ky++ {
			line := image[(top+ky*w.Dilation[0])*w.Wide:]
			for kx := k0; kx < k1; kx++ {
				v := line[left+kx*w.Dilation[1]]
				sum, most, inside = sum+v, larger(most, v), inside+1
			}
		}
		switch f {
		case kernel.MaxOf:
			dst[x] = canon(most)
		case kernel.MeanOf:
			dst[x] = canon(sum / float32(inside))
		default:
			dst[x] = canon(sum / float32(w.Kernel[0]*w.Kernel[1]))
		}
	}
}

// taps returns which of a kernel's places, from start on and step apart, lie in an image:
// a kernel may be far larger than that.
func taps(start, step, kernel, image int) (first, end int) {
	if start < 0 {
		first = pieces(-start, step)
	}
	return first, min(kernel, pieces(max(0, image-start), step))
}

func (o *call) batchnorm(i int) {
	n, k := int(o.c.N), int(o.c.K)
	p := floats(o.b)
	at := i % n
	factor := p[at] / sqrt(p[3*n+at]+o.param(0))
	mean, bias := p[2*n+at], p[n+at]
	dst := frow(o.dst, i, k)
	for j, v := range frow(o.a, i, k) {
		dst[j] = canon(fma(v-mean, factor, bias))
	}
}
