package kerneltest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"idlemesh/gpu/kernel"
)

func choices() []trial {
	var all []trial
	for _, s := range shapes {
		m, n := s[0], s[1]
		ties := numbers(72, m*n)
		for i, v := range ties {
			ties[i] = math.Round(v)
		}
		none := slices.Repeat([]float64{math.NaN()}, m*n)
		for name, a := range map[string][]float64{"": numbers(71, m*n), " ties": ties, " special": special(73, m*n), " none": none} {
			name = fmt.Sprint(s, name)
			all = append(all, argmax(name, m, n, a), sample(name+" cold", m, n, a, 0, 0, 0), topk(name+" all", m, n, n, a), topk(name, m, n, min(n, 3), a))
			if name != fmt.Sprint(s, " none") {
				all = append(all, sample(name+" warm", m, n, a, 0.8, 0, 0), sample(name+" top-k 1", m, n, a, 0.8, 1, 0), sample(name+" top-p", m, n, a, 1.3, 0, 0.6))
			}
		}
	}
	return all
}

// ranked returns the indices of row, largest first.
func ranked(row []float64) []int {
	ids := make([]int, len(row))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(x, y int) int { return cmp.Compare(row[y], row[x]) })
	return ids
}

func argmax(name string, m, n int, a []float64) trial {
	c := kernel.Command{Op: kernel.ArgMax, M: uint32(m), N: uint32(n), Dst: kernel.Operand{Type: kernel.I32}}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m), words(a)}}
	for i := range m {
		tr.bits[0] = append(tr.bits[0], uint32(ranked(a[i*n : (i+1)*n])[0]))
	}
	return tr
}

func topk(name string, m, n, k int, a []float64) trial {
	c := kernel.Command{Op: kernel.TopK, M: uint32(m), N: uint32(n), K: uint32(k), C: kernel.Operand{Type: kernel.I32}}
	w := words(a)
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*k), w, nil, make([]uint32, m*k)}}
	for i := range m {
		for _, id := range ranked(a[i*n : (i+1)*n])[:k] {
			tr.bits[0] = append(tr.bits[0], w[i*n+id])
			tr.bits[3] = append(tr.bits[3], uint32(id))
		}
	}
	return tr
}

// sample expects the index that the definition gives in binary64. Its seeds are such
// that no draw falls within rounding of a boundary.
func sample(name string, m, n int, a []float64, temperature float64, k int, topp float64) trial {
	c := kernel.Command{Op: kernel.Sample, M: uint32(m), N: uint32(n), K: uint32(k), Dst: kernel.Operand{Type: kernel.I32}}
	c.Params = [10]uint32{42, 43, 0xfffffffe, 5, f32(temperature), f32(topp)}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m), words(a)}}
	for i := range m {
		row := a[i*n : (i+1)*n]
		order := ranked(row)
		if temperature > 0 {
			counter := uint64(5)<<32 + 0xfffffffe + uint64(i)
			word := philox([4]uint32{uint32(counter), uint32(counter >> 32)}, [2]uint32{42, 43})
			tr.bits[0] = append(tr.bits[0], uint32(draw(row, order, temperature, k, topp, float64(word>>8)*0x1p-24)))
			continue
		}
		tr.bits[0] = append(tr.bits[0], uint32(order[0]))
	}
	return tr
}

func draw(row []float64, order []int, temperature float64, k int, topp, u float64) int {
	top := row[order[0]]
	weight := func(i int) float64 {
		switch {
		case row[i] == top:
			return 1
		case math.IsNaN(row[i]):
			return 0
		}
		return math.Exp((row[i] - top) / float64(float32(temperature)))
	}
	total := func(ids []int) (s float64) {
		for _, i := range ids {
			s += weight(i)
		}
		return s
	}
	if k > 0 {
		order = order[:k]
	}
	if topp > 0 {
		enough, n := topp*total(order), 1
		for total(order[:n]) < enough {
			n++
		}
		order = order[:n]
	}
	if k == 0 && topp == 0 {
		slices.Sort(order)
	}
	for n, i := range order {
		if total(order[:n+1]) > u*total(order) {
			return i
		}
	}
	return order[len(order)-1]
}

// philox returns the first word of Philox4x32-10.
func philox(x [4]uint32, key [2]uint32) uint32 {
	for range 10 {
		p, q := uint64(x[0])*0xD2511F53, uint64(x[2])*0xCD9E8D57
		x = [4]uint32{uint32(q>>32) ^ x[1] ^ key[0], uint32(q), uint32(p>>32) ^ x[3] ^ key[1], uint32(p)}
		key[0], key[1] = key[0]+0x9E3779B9, key[1]+0xBB67AE85
	}
	return x[0]
}

func memory() []trial {
	var all []trial
	for _, s := range shapes {
		m, n := s[0], s[1]
		for _, typ := range []kernel.DType{kernel.F32, kernel.I32} {
			c := kernel.Command{Op: kernel.Fill, M: uint32(m), N: uint32(n), Dst: kernel.Operand{Type: typ}, Params: [10]uint32{0xffc12345}}
			all = append(all, trial{name: fmt.Sprint(s, typ), c: c, in: [4][]uint32{make([]uint32, m*n)}, bits: [4][]uint32{slices.Repeat([]uint32{0xffc12345}, m*n)}})
			all = append(all, copied(fmt.Sprint(s, typ), m, n, n, n, typ), copied(fmt.Sprint(s, typ, " strided"), m, n, n+2, n+5, typ))
		}
	}
	return all
}

func copied(name string, m, n, from, to int, typ kernel.DType) trial {
	c := kernel.Command{Op: kernel.Copy, M: uint32(m), N: uint32(n), Dst: kernel.Operand{Type: typ}, A: kernel.Operand{Type: typ}}
	c.Params = [10]uint32{uint32(from), uint32(to)}
	a, dst := words(numbers(81, (m-1)*from+n)), words(numbers(82, (m-1)*to+n))
	copy(a, []uint32{0x7fa00001, 0xffffffff}) // bits that arithmetic would change
	tr := trial{name: name, c: c, in: [4][]uint32{dst, a}}
	tr.bits[0] = slices.Clone(dst)
	for i := range m {
		copy(tr.bits[0][i*to:i*to+n], a[i*from:])
	}
	return tr
}
