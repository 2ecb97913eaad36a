package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"idlemesh/gpu/kernel"
)

// smallIntegers are the kernels of Q8, Q4 and I8.
func smallIntegers() []trial {
	var all []trial
	for i, s := range [][3]int{{1, 1, 32}, {1, 7, 64}, {1, 130, 288}, {3, 5, 1024}, {9, 33, 96}} {
		for _, t := range []kernel.DType{kernel.Q8, kernel.Q4} {
			for name, change := range map[string]func(c *kernel.Command){
				"":      func(*kernel.Command) {},
				" beta": func(c *kernel.Command) { c.Params[0] = f32(0.5) },
				" silu": func(c *kernel.Command) { c.Flags = kernel.SiLU },
			} {
				c := kernel.Command{M: uint32(s[0]), N: uint32(s[1]), K: uint32(s[2])}
				change(&c)
				all = append(all, blockProduct(fmt.Sprint(s, name), c, t, uint64(10*i)))
			}
		}
	}
	for _, s := range [][3]int{{1, 1, 4}, {2, 3, 16}, {5, 7, 100}, {1, 9, 4096}} {
		all = append(all, intProduct(s[0], s[1], s[2]))
	}
	for _, t := range []kernel.DType{kernel.Q8, kernel.Q4} {
		for _, s := range [][2]int{{1, 32}, {3, 96}, {2, 1024}} {
			n := s[0] * s[1]
			tiny := make([]float64, n)
			tiny[0], tiny[1] = 0x1p-149, -0x1p-145
			for name, a := range map[string][]float64{"": numbers(91, n), " special": special(92, n), " zero": make([]float64, n), " tiny": tiny} {
				c := kernel.Command{Op: kernel.Quantize, M: uint32(s[0]), N: uint32(s[1]), Dst: kernel.Operand{Type: t}}
				tr := trial{name: fmt.Sprint(t, s, name), c: c, in: [4][]uint32{make([]uint32, n/kernel.Block*t.BlockWords()), words(a)}}
				for b := 0; b < n; b += kernel.Block {
					tr.bits[0] = append(tr.bits[0], quantized(a[b:b+kernel.Block], t)...)
				}
				all = append(all, tr)
			}
		}
	}
	table, _ := packed(95, 6*64, kernel.Q8)
	c := kernel.Command{Op: kernel.GetRows, M: 3, N: 64, K: 6, A: kernel.Operand{Type: kernel.Q8}, B: kernel.Operand{Type: kernel.I32}}
	tr := trial{name: "blocks", c: c, in: [4][]uint32{make([]uint32, 3*64), table, indices([]int{5, 0, 6})}}
	for _, id := range []int{5, 0} {
		for e := range 64 {
			tr.bits[0] = append(tr.bits[0], f32(element(table, id*64+e, kernel.Q8)))
		}
	}
	for range 64 {
		tr.bits[0] = append(tr.bits[0], 0x7fc00000)
	}
	return append(all, tr)
}

// packed returns n random elements in blocks, among them all that a byte can hold.
func packed(seed uint64, n int, t kernel.DType) (w []uint32, values []float64) {
	r := rand.New(rand.NewPCG(seed, 8))
	for range n / kernel.Block {
		w = append(w, f32(r.NormFloat64()))
		for range t.BlockWords() - 1 {
			w = append(w, r.Uint32())
		}
	}
	for i := range n {
		values = append(values, element(w, i, t))
	}
	return w, values
}

// element is what element i of blocks stands for.
func element(w []uint32, i int, t kernel.DType) float64 {
	b := w[i/kernel.Block*t.BlockWords():]
	p, _ := binary.Append(nil, binary.LittleEndian, b[1:t.BlockWords()])
	scale, e := float64(math.Float32frombits(b[0])), i%kernel.Block
	if t == kernel.Q8 {
		return scale * float64(int8(p[e]))
	}
	if e < 16 {
		return scale * (float64(p[e]&15) - 8)
	}
	return scale * (float64(p[e-16]>>4) - 8)
}

func blockProduct(name string, c kernel.Command, t kernel.DType, seed uint64) trial {
	m, n, k := int(c.M), int(c.N), int(c.K)
	c.Op, c.A.Type, c.B.Type = kernel.GemmQ8, kernel.Q8, t
	if t == kernel.Q4 {
		c.Op = kernel.GemmQ4
	}
	aw, a := packed(seed+1, m*k, kernel.Q8)
	bw, b := packed(seed+2, n*k, t)
	dst, bias := numbers(seed+3, m*n), numbers(seed+4, n)
	beta := float64(math.Float32frombits(c.Params[0]))
	tr := trial{name: name, c: c, in: [4][]uint32{words(dst), aw, bw, words(bias)}}
	for i := range m {
		for j := range n {
			sum, size := 0.0, 0.0
			for x := range k {
				p := a[i*k+x] * b[j*k+x]
				sum, size = sum+p, size+math.Abs(p)
			}
			v := sum + beta*dst[i*n+j] + bias[j]
			tr.want = append(tr.want, number{activate(c.Flags, v), size + math.Abs(beta*dst[i*n+j]) + math.Abs(bias[j])})
		}
	}
	return tr
}

func intProduct(m, n, k int) trial {
	r := rand.New(rand.NewPCG(uint64(k), 8))
	random := func(n int) ([]byte, []uint32) {
		p, w := make([]byte, n), make([]uint32, n/4)
		for i := range p {
			p[i] = byte(r.Uint32())
			if r.IntN(3) > 0 {
				p[i] = 0x80 // the largest products
			}
		}
		binary.Decode(p, binary.LittleEndian, w)
		return p, w
	}
	a, aw := random(m * k)
	b, bw := random(n * k)
	c := kernel.Command{Op: kernel.GemmI8, M: uint32(m), N: uint32(n), K: uint32(k)}
	c.Dst.Type, c.A.Type, c.B.Type = kernel.I32, kernel.I8, kernel.I8
	tr := trial{name: fmt.Sprint(m, n, k), c: c, in: [4][]uint32{make([]uint32, m*n), aw, bw}}
	for i := range m {
		for j := range n {
			sum := 0
			for x := range k {
				sum += int(int8(a[i*k+x])) * int(int8(b[j*k+x]))
			}
			tr.bits[0] = append(tr.bits[0], uint32(int32(sum)))
		}
	}
	return tr
}

// quantized is a block of Q8 or Q4.
func quantized(v []float64, t kernel.DType) []uint32 {
	limit, m := map[kernel.DType]float64{kernel.Q8: 127, kernel.Q4: 7}[t], 0.0
	for _, x := range v {
		m = max(m, math.Abs(x)) // NaN wins
	}
	scale := float64(float32(m) / float32(limit))
	p := make([]byte, 4*(t.BlockWords()-1))
	for e, x := range v {
		q := 0.0
		if scale > 0 && !math.IsInf(scale, 0) {
			q = max(-limit, min(limit, math.RoundToEven(float64(float32(x)/float32(scale)))))
		}
		if t == kernel.Q8 {
			p[e] = byte(int8(q))
		} else {
			p[e%16] |= byte(q+8) << (e / 16 * 4)
		}
	}
	w := make([]uint32, t.BlockWords()-1)
	binary.Decode(p, binary.LittleEndian, w)
	if math.IsNaN(scale) || math.IsInf(scale, 0) {
		return append([]uint32{0x7fc00000}, w...)
	}
	return append([]uint32{f32(scale)}, w...)
}
