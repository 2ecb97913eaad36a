package cpu

import (
	"math"

	"idlemesh/gpu/kernel"
)

const (
	// depth is how many steps of a sum over k are chained before the chain's sum is
	// added to the total: part of the kernel table's arithmetic.
	depth = 384
	// tile is how many columns are summed at once, which hides the latency of the
	// chains; it does not show in results.
	tile = 4
	// tall is how many rows share a packed panel of B.
	tall = 64
)

// A matrix is a view of elements at row·down + column·right.
type matrix struct {
	v           []float32
	half        []uint16 // the elements, if they are BF16
	down, right int
}

// part returns rows × columns from r, c on, of an own copy in binary32 if they are BF16.
func (m matrix) part(r, c, rows, columns int) matrix {
	at := r*m.down + c*m.right
	if m.half == nil {
		return matrix{v: m.v[at:], down: m.down, right: m.right}
	}
	p := matrix{v: make([]float32, rows*columns), down: columns, right: 1}
	if m.right != 1 { // as it lies, one column after another
		p.down, p.right = 1, rows
	}
	for i := range rows {
		for j := range columns {
			p.v[i*p.down+j*p.right] = math.Float32frombits(uint32(m.half[at+i*m.down+j*m.right]) << 16)
		}
	}
	return p
}

func (o *call) matrix(w []uint32, t kernel.DType, cols int, ld uint32, trans bool) matrix {
	m := matrix{down: cols, right: 1}
	if t == kernel.BF16 {
		m.half = halves(w)
	} else {
		m.v = floats(w)
	}
	if ld != 0 {
		m.down = int(ld)
	}
	if trans {
		m.down, m.right = 1, m.down
	}
	return m
}

// A product is one matrix of a gemm.
type product struct {
	m, n, k     int
	a, b, dst   matrix
	bias        []float32
	alpha, beta float32
	act         uint16
}

func (o *call) gemm() {
	c := o.c
	m, n, k := int(c.M), int(c.N), int(c.K)
	ta, tb := c.Flags&kernel.TransA != 0, c.Flags&kernel.TransB != 0
	p := product{m: m, n: n, k: k, bias: floats(o.d), act: c.Flags & (kernel.ReLU | kernel.GELU)}
	p.a = o.matrix(o.a, c.A.Type, pick(ta, m, k), c.Params[0], ta)
	p.b = o.matrix(o.b, c.B.Type, pick(tb, k, n), c.Params[1], tb)
	p.dst = o.matrix(o.dst, kernel.F32, n, c.Params[2], false)
	p.alpha, p.beta = math.Float32frombits(c.Params[6]), math.Float32frombits(c.Params[7])
	if c.Params[6] == 0 {
		p.alpha = 1
	}
	o.multiply(p, int(max(c.L, 1)))
}

// multiply computes l products.
func (o *call) multiply(p product, l int) {
	o.p = p
	m, n, k := p.m, p.n, p.k
	switch {
	case m == 1:
		broad := o.columnsAtOnce(&p)
		o.grid = grid{across: pieces(n, broad), broad: broad, down: 1, high: 1}
		o.blocks(o.grid.across*l, (*call).columns)
	case o.vectors:
		o.grid = o.tasks(m, n, k, l)
		o.blocks(o.grid.down*o.grid.across*l, (*call).task)
	default:
		high := rowsAtOnce(p)
		o.grid = grid{across: 1, broad: n, down: pieces(m, high), high: high}
		o.blocks(o.grid.down*l, (*call).rowBand)
	}
}

// A grid cuts matrices into parts of high rows and broad columns.
type grid struct{ down, across, high, broad int }

// part returns the product that block i of a grid belongs to, and its corner in it.
func (o *call) part(i int) (p product, r0, r1, c0, c1 int) {
	g := o.grid
	p = o.p
	if b := i / (g.down * g.across); b > 0 {
		p = p.batch(o.c, b)
	}
	r0, c0 = i/g.across%g.down*g.high, i%g.across*g.broad
	r1, c1 = min(p.m, r0+g.high), min(p.n, c0+g.broad)
	if p.a.half == nil && p.b.half == nil {
		return p, r0, r1, c0, c1
	}
	p.m, p.n = r1-r0, c1-c0
	p.a, p.b, p.dst = p.a.part(r0, 0, p.m, p.k), p.b.part(0, c0, p.k, p.n), p.dst.part(r0, c0, p.m, p.n)
	if len(p.bias) > 0 {
		p.bias = p.bias[c0:]
	}
	return p, 0, p.m, 0, p.n
}

// pieces returns how many of the given size make up n.
func pieces(n, size int) int { return (n + size - 1) / size }

// columns computes some columns of a matrix of one row, which is what a model that
// writes one token after another asks for.
func (o *call) columns(i int) {
	p, _, _, lo, hi := o.part(i)
	if !o.vectors || !o.vectorRow(&p, lo, hi) {
		p.band(o.stop, 0, 1, lo, hi)
	}
}

func (o *call) rowBand(i int) {
	p, r0, r1, c0, c1 := o.part(i)
	p.band(o.stop, r0, r1, c0, c1)
}

// columnsAtOnce returns how many columns of a single row one thread takes: those that
// lie side by side are many, because memory likes long pieces.
func (o *call) columnsAtOnce(p *product) int {
	least := 64
	if p.b.right == 1 {
		least = min(2048, max(64, p.n/(4*o.threads)/64*64))
	}
	return max(least, grain/p.k/64*64)
}

// rowsAtOnce returns how many rows one thread takes: as many as share a panel well,
// or all if that is little work.
func rowsAtOnce(p product) int {
	if float64(p.m)*float64(p.n)*float64(p.k) <= grain {
		return min(p.m, tall)
	}
	return max(8, min(tall, p.m/4))
}

// A scratch is what one block needs besides its operands.
type scratch struct {
	a, b, sums []float32
	image      []float32
	wide       []int16
	edge       [96]float32
	zero       [16]float32
}

// borrow returns a scratch, to be put back.
func (o *call) borrow() *scratch {
	s, _ := o.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	return s
}

// room returns n elements, those of v where it has as many.
func room(v []float32, n int) []float32 {
	if cap(v) < n {
		return make([]float32, n)
	}
	return v[:n]
}

// from is the matrix that begins at elements later.
func (m matrix) from(at int) matrix {
	if m.half != nil {
		m.half = m.half[at:]
	} else {
		m.v = m.v[at:]
	}
	return m
}

// batch returns the i-th product of the batch.
func (p product) batch(c *kernel.Command, i int) product {
	p.a = p.a.from(i * int(c.Params[3]))
	p.b = p.b.from(i * int(c.Params[4]))
	p.dst = p.dst.from(i * int(c.BatchStride()))
	return p
}

// band computes rows r0 to r1, at most tall of them, of columns c0 to c1.
func (p *product) band(stop <-chan struct{}, r0, r1, c0, c1 int) {
	var panel [depth * tile]float64
	var acc [tall][tile]float32
	for j := c0; j < c1; j += tile {
		if stopped(stop) {
			return
		}
		w := min(tile, c1-j)
		clear(acc[:r1-r0])
		for k0 := 0; k0 < p.k; k0 += depth {
			k1 := min(p.k, k0+depth)
			if r1-r0 == 1 && p.b.down == 1 && w == tile {
				p.direct(&acc[0], r0, j, k0, k1)
				continue
			}
			p.pack(&panel, k0, k1, j, w)
			for i := r0; i < r1; i++ {
				chain(&acc[i-r0], p.a.v[i*p.a.down+k0*p.a.right:], p.a.right, panel[:(k1-k0)*tile])
			}
		}
		for i := r0; i < r1; i++ {
			p.store(i, j, acc[i-r0][:w])
		}
	}
}

// pack lays columns j to j+w of B's rows k0 to k1 side by side.
func (p *product) pack(panel *[depth * tile]float64, k0, k1, j, w int) {
	for x := range tile {
		if x >= w {
			for k := range k1 - k0 {
				panel[k*tile+x] = 0
			}
			continue
		}
		at := k0*p.b.down + (j+x)*p.b.right
		for k := range k1 - k0 {
			panel[k*tile+x] = float64(p.b.v[at])
			at += p.b.down
		}
	}
}

// chain adds to acc the sums over a packed panel of one row of A, whose elements are
// step apart. It is fma written out for four chains at once.
func chain(acc *[tile]float32, a []float32, step int, panel []float64) {
	var s0, s1, s2, s3 float64
	at := 0
	for ; len(panel) >= tile; panel = panel[tile:] {
		x, q := float64(a[at]), (*[tile]float64)(panel)
		p0, p1, p2, p3 := x*q[0], x*q[1], x*q[2], x*q[3]
		t0, t1, t2, t3 := p0+s0, p1+s1, p2+s2, p3+s3
		if doubtful(t0) || doubtful(t1) || doubtful(t2) || doubtful(t3) {
			s0, s1, s2, s3 = float64(odd(p0, s0)), float64(odd(p1, s1)), float64(odd(p2, s2)), float64(odd(p3, s3))
		} else {
			s0, s1, s2, s3 = float64(float32(t0)), float64(float32(t1)), float64(float32(t2)), float64(float32(t3))
		}
		at += step
	}
	acc[0] += float32(s0)
	acc[1] += float32(s1)
	acc[2] += float32(s2)
	acc[3] += float32(s3)
}

// direct is chain on four unpacked columns of B that each lie in one piece: packing
// would not pay for a single row.
func (p *product) direct(acc *[tile]float32, i, j, k0, k1 int) {
	n := k1 - k0
	a, step := p.a.v[i*p.a.down+k0*p.a.right:], p.a.right
	at := j*p.b.right + k0
	b0, b1 := p.b.v[at:][:n], p.b.v[at+p.b.right:][:n]
	b2, b3 := p.b.v[at+2*p.b.right:][:n], p.b.v[at+3*p.b.right:][:n]
	var s0, s1, s2, s3 float64
	for k := range n {
		x := float64(a[k*step])
		p0, p1, p2, p3 := x*float64(b0[k]), x*float64(b1[k]), x*float64(b2[k]), x*float64(b3[k])
		t0, t1, t2, t3 := p0+s0, p1+s1, p2+s2, p3+s3
		if doubtful(t0) || doubtful(t1) || doubtful(t2) || doubtful(t3) {
			s0, s1, s2, s3 = float64(odd(p0, s0)), float64(odd(p1, s1)), float64(odd(p2, s2)), float64(odd(p3, s3))
		} else {
			s0, s1, s2, s3 = float64(float32(t0)), float64(float32(t1)), float64(float32(t2)), float64(float32(t3))
		}
	}
	acc[0] += float32(s0)
	acc[1] += float32(s1)
	acc[2] += float32(s2)
	acc[3] += float32(s3)
}

// store finishes the sums of row i from column j on and writes them.
func (p *product) store(i, j int, sums []float32) {
	dst := p.dst.v[i*p.dst.down+j:][:len(sums)]
	for x, v := range sums {
		if p.alpha != 1 {
			v = float32(p.alpha * v)
		}
		if p.beta != 0 {
			v = fma(p.beta, dst[x], v)
		}
		if len(p.bias) != 0 {
			v += p.bias[j+x]
		}
		dst[x] = canon(activate(p.act, v))
	}
}

func activate(act uint16, v float32) float32 {
	switch act {
	case kernel.ReLU:
		if v > 0 || v != v {
			return v
		}
		return 0
	case kernel.GELU:
		return gelu(v)
	case kernel.SiLU:
		return silu(v)
	}
	return v
}

func pick(yes bool, a, b int) int {
	if yes {
		return a
	}
	return b
}
