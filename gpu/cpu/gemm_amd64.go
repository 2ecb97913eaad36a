package cpu

import (
	"runtime"

	"golang.org/x/sys/cpu"
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
	// A task takes at most taskRows and taskColumns of a product.
	taskRows, taskColumns = 2 * packedRows, 1024
)

// A scratch is where one task packs its operands.
type scratch struct {
	a, b []float32
	edge [low * wide]float32
}

// vectorGemm computes l products of several rows, false if it cannot.
func (o *call) vectorGemm(p product, l int) bool {
	if !o.vectors {
		return false
	}
	down, across := pieces(p.m, taskRows), pieces(p.n, taskColumns)
	threads := runtime.GOMAXPROCS(0)
	if float64(p.m)*float64(p.n)*float64(p.k) > 4*grain && down*across*l%threads != 0 {
		down = pieces(down, threads) * threads
	}
	high, broad := pieces(pieces(p.m, down), low)*low, pieces(pieces(p.n, across), wide)*wide
	down, across = pieces(p.m, high), pieces(p.n, broad)
	o.blocks(down*across*l, func(i int) {
		q := p.batch(o.c, i/(down*across))
		r0, c0 := i/across%down*high, i%across*broad
		s, _ := o.scratch.Get().(*scratch)
		if s == nil {
			s = new(scratch)
		}
		q.task(o.stop, s, r0, min(p.m, r0+high), c0, min(p.n, c0+broad))
		o.scratch.Put(s)
	})
	return true
}

// pieces returns how many of the given size make up n.
func pieces(n, size int) int { return (n + size - 1) / size }

// task computes rows r0 to r1 of columns c0 to c1. The sums grow in Dst itself, unless
// what is there is still to be read.
func (p *product) task(stop <-chan struct{}, s *scratch, r0, r1, c0, c1 int) {
	sums := matrix{p.dst.v[r0*p.dst.down+c0:], p.dst.down, 1}
	if p.beta != 0 {
		sums = matrix{make([]float32, (r1-r0)*(c1-c0)), c1 - c0, 1}
	}
	for i := range r1 - r0 {
		clear(sums.v[i*sums.down:][:c1-c0])
	}
	steps := min(p.k, depth)
	s.a = room(s.a, pieces(min(r1-r0, packedRows), low)*low*steps)
	s.b = room(s.b, pieces(c1-c0, wide)*wide*steps)
	for k0 := 0; k0 < p.k; k0 += depth {
		steps = min(depth, p.k-k0)
		packColumns(s.b, p.b, k0, steps, c0, c1)
		for r := r0; r < r1; r += packedRows {
			if stopped(stop) {
				return
			}
			high := min(packedRows, r1-r)
			packRows(s.a, p.a, r, r+high, k0, steps)
			s.panels(matrix{sums.v[(r-r0)*sums.down:], sums.down, 1}, high, c1-c0, steps)
		}
	}
	for i := range r1 - r0 {
		p.keep(r0+i, c0, sums.v[i*sums.down:][:c1-c0])
	}
}

func room(v []float32, n int) []float32 {
	if cap(v) < n {
		return make([]float32, n)
	}
	return v[:n]
}

// panels adds the chains of the packed steps to rows × columns of sums.
func (s *scratch) panels(sums matrix, rows, columns, steps int) {
	for j := 0; j < columns; j += wide {
		b := &s.b[j*steps]
		for i := 0; i < rows; i += low {
			a, c := &s.a[i*steps], sums.v[i*sums.down+j:]
			if rows-i >= low && columns-j >= wide {
				gemm6x16(steps, a, b, &c[0], sums.down)
				continue
			}
			h, w := min(low, rows-i), min(wide, columns-j)
			for x := range h {
				copy(s.edge[x*wide:][:w], c[x*sums.down:])
			}
			gemm6x16(steps, a, b, &s.edge[0], wide)
			for x := range h {
				copy(c[x*sums.down:], s.edge[x*wide:][:w])
			}
		}
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
			for ; done < steps; done++ {
				*(*[wide]float32)(panel[done*wide:]) = *(*[wide]float32)(from[done*b.down:])
			}
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
			pack6(panel, from, a.down, steps)
		}
	}
}

// pack6 packs low rows that each lie in one piece.
func pack6(panel, from []float32, down, steps int) {
	a0, a1, a2 := from[:steps], from[down:][:steps], from[2*down:][:steps]
	a3, a4, a5 := from[3*down:][:steps], from[4*down:][:steps], from[5*down:][:steps]
	for k := range a0 {
		*(*[low]float32)(panel[k*low:]) = [low]float32{a0[k], a1[k], a2[k], a3[k], a4[k], a5[k]}
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
func (p *product) vectorRow(stop <-chan struct{}, c0, c1 int) bool {
	var size int
	switch {
	case p.b.down == 1 && p.n >= wide:
		size = wide
	case p.b.right == 1 && p.n >= 64:
		size = 64
	case p.b.right == 1 && p.n >= 8:
		size = 8
	default:
		return false
	}
	for j := c0; j < c1; j += size {
		if stopped(stop) {
			break
		}
		// The last columns share their registers with some that are done.
		var sums [64]float32
		from := min(j, c1-size)
		p.row(&sums, from, size)
		p.keep(0, j, sums[j-from:size])
	}
	return true
}

// row sums size columns from j on.
func (p *product) row(sums *[64]float32, j, size int) {
	var x [depth]float32
	for k0 := 0; k0 < p.k; k0 += depth {
		steps := min(depth, p.k-k0)
		from := p.a.v[k0*p.a.right:]
		if p.a.right != 1 || steps%4 != 0 {
			for k := range steps {
				x[k] = from[k*p.a.right]
			}
			clear(x[steps:min(depth, steps+3)])
			from = x[:]
		}
		b := &p.b.v[k0*p.b.down+j*p.b.right]
		switch {
		case size == wide:
			across16(steps, &from[0], b, p.b.right, &sums[0])
		case size == 64:
			down64(steps, &from[0], b, p.b.down, &sums[0])
		default:
			down8(steps, &from[0], b, p.b.down, &sums[0])
		}
	}
}

// keep is store, quickly where sums are all there is.
func (p *product) keep(i, j int, sums []float32) {
	n := 0
	if p.alpha == 1 && p.beta == 0 && len(p.bias) == 0 && p.act == 0 && len(sums) >= 8 {
		n = len(sums) &^ 7
		canon8(n, &p.dst.v[i*p.dst.down+j], &sums[0])
	}
	if n < len(sums) {
		p.store(i, j+n, sums[n:])
	}
}
