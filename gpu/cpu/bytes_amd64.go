package cpu

import (
	"math"

	"idlemesh/gpu/kernel"
)

func (o *call) blockRow(s *scratch, a, b []uint32, t kernel.DType) {
	if !o.vectors {
		blockRow(s.sums, a, b, t)
		return
	}
	blocks := len(a) / 9
	s.a = room(s.a, blocks)
	s.widen(blocks * kernel.Block)
	for k := range blocks {
		s.a[k] = math.Float32frombits(a[k*9])
		for e, v := range bytes(a[k*9+1:][:8]) {
			s.wide[k*kernel.Block+e] = int16(int8(v))
		}
	}
	if t == kernel.Q4 {
		dotQ4(len(s.sums), blocks, &s.wide[0], &s.a[0], &b[0], &s.sums[0])
	} else {
		dotQ8(len(s.sums), blocks, &s.wide[0], &s.a[0], &b[0], &s.sums[0])
	}
}

func (s *scratch) widen(n int) {
	if cap(s.wide) < n {
		s.wide = make([]int16, n)
	}
	s.wide = s.wide[:n]
}

// intColumns sums the first elements of a times each of b, and returns how many it did.
func (o *call) intColumns(s *scratch, a, b []byte, dst []int32) int {
	n := len(a) &^ 15
	if !o.vectors || n == 0 {
		return 0
	}
	s.widen(n)
	for e := range n {
		s.wide[e] = int16(int8(a[e]))
	}
	dotI8(len(dst), n, &s.wide[0], &b[0], len(a), &dst[0])
	return n
}

func (o *call) keep(p *product, i, j int, sums []float32) {
	if o.vectors {
		p.keep(i, j, sums)
	} else {
		p.store(i, j, sums)
	}
}

// quickBlocks makes blocks from lo on, and returns how many: they end before one that
// needs more care.
func (o *call) quickBlocks(lo, hi int) int {
	if !o.vectors || o.c.Dst.Type != kernel.Q8 {
		return 0
	}
	n := hi - lo
	return n - quantQ8(n, &floats(o.a)[lo*kernel.Block], &o.dst[lo*kernel.Q8.BlockWords()])
}
