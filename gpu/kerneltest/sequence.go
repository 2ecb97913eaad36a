package kerneltest

import (
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

func sequences() []trial {
	all := []trial{
		rope("one pair", 0, 1, 1, 2, 0, 0), rope("heads", 0, 3, 4, 8, 0, 5), rope("halves", kernel.Halves, 3, 4, 8, 0, 5),
		rope("partly", 0, 2, 3, 10, 4, 77), rope("halves partly", kernel.Halves, 2, 3, 10, 6, 77), rope("far", 0, 2, 2, 64, 0, 100_000),
		lookup("one", 1, 1, 1, []int{0}), lookup("several", 5, 3, 4, []int{4, 0, 4, 1}), lookup("outside", 5, 2, 4, []int{5, -1, math.MinInt32, 2}),
		kv("empty", 1, 1, 1, 0), kv("middle", 2, 3, 7, 4), kv("end", 2, 3, 7, 5),
	}
	for _, s := range [][6]int{ // tokens, heads, elements, cache's heads, position, rows
		{1, 1, 1, 1, 0, 1}, {1, 8, 8, 4, 0, 1}, {1, 8, 8, 4, 30, 40}, {5, 4, 16, 4, 3, 8}, {3, 6, 5, 2, 400, 403}, {2, 2, 33, 1, 900, 1000},
	} {
		all = append(all, attention(fmt.Sprint(s), kernel.Causal, s, 0), attention(fmt.Sprint(s, " scaled"), kernel.Causal, s, 0.3))
		s[4] = 0
		all = append(all, attention(fmt.Sprint(s, " all"), 0, s, 0))
	}
	return all
}

func rope(name string, flags uint16, m, heads, dim, turned, pos int) trial {
	c := kernel.Command{Op: kernel.RoPE, Flags: flags, M: uint32(m), N: uint32(heads), K: uint32(dim), L: uint32(turned), Params: [10]uint32{uint32(pos)}}
	if turned == 0 {
		turned = dim
	}
	a, freq := numbers(31, m*heads*dim), make([]float64, turned/2)
	for i := range freq {
		freq[i] = float64(float32(math.Pow(10000, -2*float64(i)/float64(turned))))
	}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, len(a)), words(a), words(freq)}}
	for _, v := range a {
		tr.want = append(tr.want, number{v, 0})
	}
	for h := range m * heads {
		for p, f := range freq {
			x, y := h*dim+2*p, h*dim+2*p+1
			if flags&kernel.Halves != 0 {
				x, y = h*dim+p, h*dim+p+turned/2
			}
			sin, cos := math.Sincos(float64(pos+h/heads) * f)
			size := math.Abs(a[x]) + math.Abs(a[y])
			tr.want[x] = number{a[x]*cos - a[y]*sin, size}
			tr.want[y] = number{a[x]*sin + a[y]*cos, size}
		}
	}
	return tr
}

func lookup(name string, table, n, m int, ids []int) trial {
	c := kernel.Command{Op: kernel.GetRows, M: uint32(m), N: uint32(n), K: uint32(table), B: kernel.Operand{Type: kernel.I32}}
	a := words(special(41, table*n))
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*n), a, indices(ids)}}
	for _, id := range ids {
		for j := range n {
			v := uint32(0x7fc00000)
			if id >= 0 && id < table {
				v = a[id*n+j]
			}
			tr.bits[0] = append(tr.bits[0], v)
		}
	}
	return tr
}

func kv(name string, m, n, capacity, at int) trial {
	c := kernel.Command{Op: kernel.KVAppend, M: uint32(m), N: uint32(n), K: uint32(capacity), Params: [10]uint32{uint32(at)}}
	keys, values := words(numbers(51, capacity*n)), words(numbers(52, capacity*n))
	k, v := words(special(53, m*n)), words(numbers(54, m*n))
	tr := trial{name: name, c: c, in: [4][]uint32{keys, k, v, values}}
	tr.bits[0], tr.bits[3] = append([]uint32{}, keys...), append([]uint32{}, values...)
	copy(tr.bits[0][at*n:], k)
	copy(tr.bits[3][at*n:], v)
	return tr
}

func attention(name string, flags uint16, s [6]int, scale float64) trial {
	m, heads, dim, kvHeads, pos, rows := s[0], s[1], s[2], s[3], s[4], s[5]
	c := kernel.Command{Op: kernel.Attention, Flags: flags, M: uint32(m), N: uint32(heads), K: uint32(dim), L: uint32(kvHeads)}
	c.Params = [10]uint32{uint32(pos), uint32(rows), f32(scale)}
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(dim))
	}
	q, width := numbers(61, m*heads*dim), kvHeads*dim
	keys, values := numbers(62, rows*width), numbers(63, rows*width)
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, len(q)), words(q), words(keys), words(values)}}
	for h := range m * heads {
		seen := rows
		if flags&kernel.Causal != 0 {
			seen = pos + h/heads + 1
		}
		at, score := h%heads/(heads/kvHeads)*dim, make([]float64, seen)
		for t := range seen {
			for d := range dim {
				score[t] += scale * q[h*dim+d] * keys[t*width+at+d]
			}
		}
		for d := range dim {
			sum, size := 0.0, 0.0
			for t, p := range soft(score) {
				sum, size = sum+p*values[t*width+at+d], size+4*p*math.Abs(values[t*width+at+d])
			}
			tr.want = append(tr.want, number{sum, size})
		}
	}
	return tr
}
