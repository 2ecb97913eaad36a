package cpu

import (
	"math"

	"idlemesh/gpu/kernel"
)

// gemmBytes computes products of small integers: their columns are shared out.
func (o *call) gemmBytes() {
	c := o.c
	m, n, k := int(c.M), int(c.N), int(c.K)
	p := product{m: m, n: n, k: k, alpha: 1, beta: o.param(0), act: c.Flags & (kernel.ReLU | kernel.GELU), bias: floats(o.d)}
	p.dst = matrix{v: floats(o.dst), down: n, right: 1}
	o.p = p
	broad := max(64, 2*grain/k/64*64) // several a word
	o.grid = grid{across: pieces(n, broad), broad: broad, down: 1, high: m}
	o.blocks(o.grid.across, (*call).byteColumns)
}

// byteColumns computes some columns, one row of A after another.
func (o *call) byteColumns(i int) {
	lo := i * o.grid.broad
	hi := min(o.p.n, lo+o.grid.broad)
	s := o.borrow()
	defer o.scratch.Put(s)
	if o.c.Op == kernel.GemmI8 {
		for r := 0; r < o.p.m && !stopped(o.stop); r++ {
			o.intRow(s, r, lo, hi)
		}
		return
	}
	t := o.c.B.Type
	words := o.p.k / kernel.Block * t.BlockWords()
	s.sums = room(s.sums, hi-lo)
	for r := 0; r < o.p.m && !stopped(o.stop); r++ {
		a := row(o.a, r, o.p.k/kernel.Block*kernel.Q8.BlockWords())
		o.blockRow(s, a, o.b[lo*words:hi*words], t)
		o.keep(&o.p, r, lo, s.sums)
	}
}

// blockRow sets the sums of s to a row of A times rows of B.
func blockRow(sums []float32, a, b []uint32, t kernel.DType) {
	const wa = 9
	wb := t.BlockWords()
	blocks := len(a) / wa
	for j := range sums {
		var lane [8]float32
		for k := range blocks {
			x, y := a[k*wa:][:wa], b[(j*blocks+k)*wb:][:wb]
			d := blockDot(x[1:], y[1:], t)
			scale := float32(math.Float32frombits(x[0]) * math.Float32frombits(y[0]))
			for l := range lane {
				lane[l] = fma(scale, float32(d[l]), lane[l])
			}
		}
		for w := 4; w > 0; w /= 2 {
			for l := range w {
				lane[l] += lane[l+w]
			}
		}
		sums[j] = lane[0]
	}
}

func blockDot(a, b []uint32, t kernel.DType) (d [8]int32) {
	x := bytes(a)
	y := bytes(b)
	for e := range kernel.Block {
		v := int32(int8(y[e%len(y)]))
		if t == kernel.Q4 {
			v = int32(y[e%16]>>(e/16*4)&15) - 8
		}
		d[e%16/2] += int32(int8(x[e])) * v
	}
	return d
}

// intRow computes columns lo to hi of row r of a gemm of integers.
func (o *call) intRow(s *scratch, r, lo, hi int) {
	k := o.p.k
	a, b, dst := bytes(o.a)[r*k:][:k], bytes(o.b), ints(o.dst)[r*o.p.n:]
	done := o.intColumns(s, a, b[lo*k:hi*k], dst[lo:hi])
	for j := lo; j < hi; j++ {
		sum := int32(0)
		if done > 0 {
			sum = dst[j]
		}
		for e, v := range b[j*k:][done:k] {
			sum += int32(int8(a[done+e])) * int32(int8(v))
		}
		dst[j] = sum
	}
}

// expand sets dst to what rows of Q8 stand for.
func expand(dst []float32, blocks []uint32) {
	for len(dst) > 0 {
		scale := math.Float32frombits(blocks[0])
		for e, v := range bytes(blocks[1:9]) {
			dst[e] = canon(float32(scale * float32(int8(v))))
		}
		dst, blocks = dst[kernel.Block:], blocks[9:]
	}
}

// quantize makes blocks lo to hi.
func (o *call) quantize(lo, hi int) {
	for lo < hi {
		if lo += o.quickBlocks(lo, hi); lo < hi {
			o.quantizeBlock(lo)
			lo++
		}
	}
}

func (o *call) quantizeBlock(i int) {
	t, most := o.c.Dst.Type, float32(127)
	if t == kernel.Q4 {
		most = 7
	}
	v, dst := frow(o.a, i, kernel.Block), row(o.dst, i, t.BlockWords())
	clear(dst)
	q := bytes(dst[1:])
	m := float32(0)
	for _, x := range v {
		if a := float32(math.Abs(float64(x))); a > m || a != a {
			m = a
		}
		if m != m {
			break
		}
	}
	scale := m / most
	if scale > 0 && !math.IsInf(float64(m), 0) {
		for e, x := range v {
			r := math.RoundToEven(float64(x / scale))
			n := int8(min(max(r, -float64(most)), float64(most)))
			if t == kernel.Q4 {
				q[e%16] |= byte(n+8) << (e / 16 * 4)
			} else {
				q[e] = byte(n)
			}
		}
	} else {
		if t == kernel.Q4 {
			for e := range q {
				q[e] = 0x88
			}
		}
		if scale != 0 {
			scale = math.Float32frombits(0x7fc00000)
		}
	}
	dst[0] = math.Float32bits(scale)
}
