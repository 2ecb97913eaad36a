package cpu

import (
	"golang.org/x/sys/cpu"

	"idlemesh/gpu/kernel"
)

//go:generate go run -C asm . -out ../vector_amd64.s -stubs ../vector_amd64.go -pkg cpu

// hasVectors says whether this processor runs the kernels of vector_amd64.s. They take
// the steps of the plain Go for several sums at once, and so make the same bits.
func hasVectors() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

const (
	// low rows of wide columns are summed in registers.
	low, wide = 6, 16
	// packedRows of A stay in the second cache while a panel of B is in the first.
	packedRows = 32 * low
	// A task takes at most taskColumns of a product, so that what it packs of B stays
	// in the last cache.
	taskRows, taskColumns = 8 * packedRows, 1024
)

// tasks cuts l products of several rows. A task packs what it needs of both matrices,
// so it is worth most if it is large and high; but there are to be several for each
// thread, which may be slowed down by others.
func (o *call) tasks(m, n, k, l int) grid {
	down, across := pieces(m, taskRows), pieces(n, taskColumns)
	if work := float64(m) * float64(n) * float64(k); work > 4*grain {
		want := o.threads
		if work > 1<<27 {
			want *= 2
		}
		for down*across*l < want && (m/down > 2*packedRows || n/across > 4*wide) {
			if n/across > 256 || m/down <= packedRows {
				across *= 2
			} else {
				down *= 2
			}
		}
		if o.threads > 1 && down*across*l%o.threads != 0 && m/down > low {
			down = pieces(down, o.threads) * o.threads
		}
	}
	g := grid{high: pieces(pieces(m, down), low) * low, broad: pieces(pieces(n, across), wide) * wide}
	g.down, g.across = pieces(m, g.high), pieces(n, g.broad)
	return g
}

// task computes one part. The sums grow in Dst itself, unless what is there is still to
// be read.
func (o *call) task(i int) {
	p, r0, r1, c0, c1 := o.part(i)
	s := o.borrow()
	defer o.scratch.Put(s)
	sums := matrix{v: p.dst.v[r0*p.dst.down+c0:], down: p.dst.down, right: 1}
	if p.beta != 0 {
		s.sums = room(s.sums, (r1-r0)*(c1-c0))
		sums = matrix{v: s.sums, down: c1 - c0, right: 1}
	}
	steps := min(p.k, depth)
	s.a = room(s.a, pieces(min(r1-r0, packedRows), low)*low*steps)
	s.b = room(s.b, pieces(c1-c0, wide)*wide*steps)
	for k0 := 0; k0 < p.k; k0 += depth {
		steps = min(depth, p.k-k0)
		packColumns(s.b, p.b, k0, steps, c0, c1)
		for r := r0; r < r1; r += packedRows {
			if stopped(o.stop) {
				return
			}
			high := min(packedRows, r1-r)
			packRows(s.a, p.a, r, r+high, k0, steps)
			s.panels(matrix{v: sums.v[(r-r0)*sums.down:], down: sums.down, right: 1}, high, c1-c0, steps, k0 == 0)
		}
	}
	if p.plain() {
		return
	}
	for i := range r1 - r0 {
		p.keep(r0+i, c0, sums.v[i*sums.down:][:c1-c0])
	}
}

// plain says that the sums are the result.
func (p *product) plain() bool { return p.alpha == 1 && p.beta == 0 && len(p.bias) == 0 && p.act == 0 }

// panels adds the chains of the packed steps to rows × columns of sums, or to zero.
func (s *scratch) panels(sums matrix, rows, columns, steps int, first bool) {
	for j := 0; j < columns; j += wide {
		b := &s.b[j*steps]
		for i := 0; i < rows; i += low {
			a, c := &s.a[i*steps], sums.v[i*sums.down+j:]
			if rows-i < low || columns-j < wide {
				s.corner(steps, a, b, matrix{v: c, down: sums.down, right: 1}, min(low, rows-i), min(wide, columns-j), first)
			} else if first {
				gemm6x16(steps, a, b, &s.zero[0], 0, &c[0], sums.down)
			} else {
				gemm6x16(steps, a, b, &c[0], sums.down, &c[0], sums.down)
			}
		}
	}
}

// corner does less than low × wide.
func (s *scratch) corner(steps int, a, b *float32, sums matrix, h, w int, first bool) {
	clear(s.edge[:])
	for x := range h {
		if !first {
			copy(s.edge[x*wide:][:w], sums.v[x*sums.down:])
		}
	}
	gemm6x16(steps, a, b, &s.edge[0], wide, &s.edge[0], wide)
	for x := range h {
		copy(sums.v[x*sums.down:], s.edge[x*wide:][:w])
	}
}

// packColumns lays out each wide columns of b step by step, and zeros where they end.
func packColumns(to []float32, b matrix, k0, steps, c0, c1 int) {
	for j := c0; j < c1; j += wide {
		panel := to[(j-c0)*steps:][:wide*steps]
		from, done := b.v[k0*b.down+j*b.right:], 0
		switch w := min(wide, c1-j); {
		case w < wide:
			packEdge(panel, from, wide, w, b.down, b.right)
			continue
		case b.right == 1:
			move16(steps, &from[0], b.down, &panel[0])
			done = steps
		case steps >= 4:
			done = steps &^ 3
			pack16(done, &from[0], b.right, &panel[0])
		}
		if done < steps {
			packEdge(panel[done*wide:], from[done*b.down:], wide, wide, b.down, b.right)
		}
	}
}

// packRows lays out each low rows of a step by step, and zeros where they end.
func packRows(to []float32, a matrix, r0, r1, k0, steps int) {
	for i := r0; i < r1; i += low {
		panel := to[(i-r0)*steps:][:low*steps]
		from := a.v[i*a.down+k0*a.right:]
		switch h := min(low, r1-i); {
		case h < low:
			packEdge(panel, from, low, h, a.right, a.down)
		case a.down == 1:
			for k := range steps {
				*(*[low]float32)(panel[k*low:]) = *(*[low]float32)(from[k*a.right:])
			}
		default:
			done := steps &^ 3
			if done > 0 {
				pack6x4(done, &from[0], a.down, &panel[0])
			}
			packEdge(panel[done*low:], from[min(done, len(from)):], low, low, a.right, a.down)
		}
	}
}

// packEdge packs n of size lines, which are right apart and go down by steps.
func packEdge(panel, from []float32, size, n, down, right int) {
	for k := range len(panel) / size {
		q := panel[k*size:][:size]
		for x := range q[:n] {
			q[x] = from[k*down+x*right]
		}
		clear(q[n:])
	}
}

// vectorRow computes columns c0 to c1 of the only row, false if there are too few.
func (o *call) vectorRow(p *product, c0, c1 int) bool {
	s := o.borrow()
	defer o.scratch.Put(s)
	switch {
	case p.b.down == 1 && p.n >= wide:
		p.rowAcross(o.stop, s, c0, c1)
	case p.b.right == 1 && p.n >= 8:
		p.rowDown(o.stop, s, c0, c1)
	default:
		return false
	}
	return true
}

// rowAcross sums columns that each lie in one piece, and rowDown such that lie side by
// side, where rows may be pages apart: so it goes through all columns for some rows,
// before it goes on.
func (p *product) rowAcross(stop <-chan struct{}, s *scratch, c0, c1 int) {
	for j := c0; j < c1 && !stopped(stop); j += wide {
		// The last columns share their registers with some that are done.
		sums, from := s.edge[:wide], min(j, c1-wide)
		clear(sums)
		for k0 := 0; k0 < p.k; k0 += depth {
			steps := min(depth, p.k-k0)
			across16(steps, p.factors(s, k0, steps), &p.b.v[k0+from*p.b.right], p.b.right, p.ahead(k0, from), &sums[0])
		}
		p.keep(0, j, sums[j-from:])
	}
}

func (p *product) rowDown(stop <-chan struct{}, s *scratch, c0, c1 int) {
	n := (c1 - c0) &^ 7
	s.sums = room(s.sums, n+8) // the last eight share columns with some before
	clear(s.sums)
	for k0 := 0; k0 < p.k && !stopped(stop); k0 += depth {
		steps := min(depth, p.k-k0)
		x := p.factors(s, k0, steps)
		b := p.b.v[k0*p.b.down:]
		j := 0
		for ; j+64 <= n; j += 64 {
			down64(steps, x, &b[c0+j], p.b.down, &s.sums[j])
		}
		for ; j < n; j += 8 {
			down8(steps, x, &b[c0+j], p.b.down, &s.sums[j])
		}
		if c0+n < c1 {
			down8(steps, x, &b[c1-8], p.b.down, &s.sums[n])
		}
	}
	p.keep(0, c0, s.sums[:n])
	if c0+n < c1 {
		p.keep(0, c0+n, s.sums[n+8-(c1-c0-n):])
	}
}

// factors returns steps elements of A from k0 on, and zeros up to a multiple of 4.
func (p *product) factors(s *scratch, k0, steps int) *float32 {
	from := p.a.v[k0*p.a.right:]
	if p.a.right == 1 && steps%4 == 0 {
		return &from[0]
	}
	s.a = room(s.a, depth)
	for k := range steps {
		s.a[k] = from[k*p.a.right]
	}
	clear(s.a[steps:min(depth, steps+3)])
	return &s.a[0]
}

// ahead returns what to fetch while columns j to j+wide are summed from k0 on: as many
// elements of the next columns, or of these where the next are far away or missing.
func (p *product) ahead(k0, j int) *float32 {
	at := k0 + j*p.b.right
	if next := at + wide*p.b.right + (wide-1)*min(k0, depth); p.k <= 4096 && next < len(p.b.v) {
		at = next
	}
	return &p.b.v[at]
}

// keep is store, eight at a time.
func (p *product) keep(i, j int, sums []float32) {
	n := len(sums) &^ 7
	if n > 0 {
		dst := p.dst.v[i*p.dst.down+j:]
		if p.alpha != 1 {
			times8(n, &sums[0], p.alpha)
		}
		if p.beta != 0 {
			fused8(n, &sums[0], &dst[0], p.beta)
		}
		if len(p.bias) != 0 {
			add8(n, &sums[0], &sums[0], &p.bias[j])
		}
		activations(p.act)(n, &dst[0], &sums[0])
	}
	if n < len(sums) {
		p.store(i, j+n, sums[n:])
	}
}

func activations(act uint16) func(n int, dst, src *float32) {
	switch act {
	case kernel.ReLU:
		return relu8
	case kernel.GELU:
		return gelu8
	case kernel.SiLU:
		return silu8
	}
	return canon8
}
