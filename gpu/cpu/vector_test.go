package cpu

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"idlemesh/gpu/kernel"
)

// TestVectorsMakeTheSameBits runs random commands in plain Go and with the vector
// kernels, on different numbers of threads.
func TestVectorsMakeTheSameBits(t *testing.T) {
	if !hasVectors() {
		t.Skip("this processor has no AVX2 and FMA, or there are no kernels for it")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, draw := range map[string]func(r *rand.Rand) kernel.Command{
		"gemm": func(r *rand.Rand) kernel.Command { return randomGemm(r, 70) },
		"gemv": func(r *rand.Rand) kernel.Command { return randomGemm(r, 1) },
		"rows": randomRows,
		"training": func(r *rand.Rand) kernel.Command {
			if r.IntN(2) == 0 {
				c := kernel.Command{Op: kernel.AdamW, M: 1 + r.Uint32N(3), N: 1 + r.Uint32N(100)}
				c.C.Buffer = 4
				for i := range 7 {
					c.Params[i] = math.Float32bits(0.1 + 0.8*r.Float32())
				}
				return c
			}
			c := kernel.Command{Op: kernel.AttentionBack, Flags: kernel.Causal, M: 1 + r.Uint32N(4), N: 4, K: 1 + r.Uint32N(40), L: 2}
			c.Params[0] = r.Uint32N(30)
			c.Params[1] = c.Params[0] + c.M + r.Uint32N(2)
			return c
		},
		"bytes": func(r *rand.Rand) kernel.Command {
			c := kernel.Command{M: 1 + r.Uint32N(3), N: 1 + r.Uint32N(90), K: 32 * (1 + r.Uint32N(40))}
			switch r.IntN(4) {
			case 3:
				c = kernel.Command{Op: kernel.Quantize, M: c.M, N: c.K, Dst: kernel.Operand{Type: kernel.Q8}}
			case 0:
				c.Op, c.A.Type, c.B.Type = kernel.GemmQ8, kernel.Q8, kernel.Q8
			case 1:
				c.Op, c.A.Type, c.B.Type = kernel.GemmQ4, kernel.Q8, kernel.Q4
			case 2:
				c.Op, c.A.Type, c.B.Type, c.K = kernel.GemmI8, kernel.I8, kernel.I8, 4*(1+r.Uint32N(100))
			}
			return c
		},
		"attention": func(r *rand.Rand) kernel.Command {
			c := kernel.Command{Op: kernel.Attention, M: 1 + r.Uint32N(3), N: 4, K: 1 + r.Uint32N(80), L: 2}
			c.Flags = kernel.Causal * uint16(r.IntN(2))
			c.Params[0] = r.Uint32N(r.Uint32N(500) + 1)
			c.Params[1] = c.Params[0] + c.M
			c.C.Buffer = 4
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(len(name))))
			for i := range 60 {
				c := draw(r)
				special := i%5 == 0
				in := [4][]float32{}
				for j, n := range words(&c) {
					in[j] = numbers(r, n, special)
				}
				want := compute(t, c, in, false)
				runtime.GOMAXPROCS(1 + r.IntN(3))
				if got := compute(t, c, in, true); !slices.Equal(got, want) {
					at := 0
					for got[at] == want[at] {
						at++
					}
					t.Fatalf("case %d, %+v: word %d is %#x, want %#x", i, c, at, got[at], want[at])
				}
			}
		})
	}
}

func randomGemm(r *rand.Rand, rows int) kernel.Command {
	size := func(most int) uint32 { return uint32(1 + r.IntN(1+r.IntN(most))) }
	c := kernel.Command{Op: kernel.Gemm, M: size(rows), N: size(150), K: size(900), L: size(3)}
	if rows > 1 && r.IntN(20) == 0 {
		c.M = 400
	}
	c.Flags = uint16(r.IntN(4))
	if r.IntN(3) == 0 {
		c.Flags |= []uint16{kernel.ReLU, kernel.GELU, kernel.SiLU}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		c.C.Buffer = 4
	}
	if r.IntN(3) == 0 {
		c.Params[6] = math.Float32bits(0.7)
	}
	if r.IntN(3) == 0 {
		c.Params[7] = math.Float32bits(-1.3)
	}
	if r.IntN(3) == 0 {
		for i := range 3 {
			c.Params[i] = max(c.M, c.N, c.K) + uint32(r.IntN(9))
		}
	}
	return c
}

func randomRows(r *rand.Rand) kernel.Command {
	c := kernel.Command{Op: []kernel.Op{kernel.RMSNorm, kernel.Softmax, kernel.SwiGLU, kernel.LayerNorm, kernel.LogSoftmax, kernel.Unary, kernel.ArgMax}[r.IntN(7)], M: 1 + r.Uint32N(3), N: 1 + r.Uint32N(600)}
	if r.IntN(4) == 0 {
		c.N = 1 + r.Uint32N(70)
	}
	if c.Op == kernel.Unary {
		c.Params[0] = []uint32{kernel.Exp, kernel.Sigmoid, kernel.Rectify, kernel.SwishOf, kernel.GELUOf}[r.IntN(5)]
	}
	return c
}

// words returns how many words Dst, A, B and C of a random command have.
func words(c *kernel.Command) [4]int {
	m, n, k, l := int(c.M), int(c.N), int(c.K), int(max(c.L, 1))
	if c.Op == kernel.Attention {
		rows := int(c.Params[1])
		return [4]int{m * n * k, m * n * k, rows * l * k, rows * l * k}
	}
	switch c.Op {
	case kernel.AdamW:
		return [4]int{m * n, m * n, 0, 2 * m * n}
	case kernel.AttentionBack:
		all := m*n*k + 2*int(c.Params[1])*l*k
		return [4]int{all, all, m * n * k, 0}
	case kernel.Quantize:
		return [4]int{m * n / 32 * 9, m * n, 0, 0}
	case kernel.GemmI8:
		return [4]int{m * n, m * k / 4, n * k / 4, 0}
	case kernel.GemmQ8, kernel.GemmQ4:
		return [4]int{m * n, m * k / 32 * c.A.Type.BlockWords(), n * k / 32 * c.B.Type.BlockWords(), 0}
	}
	if c.Op != kernel.Gemm {
		return [4]int{m * n, m * n, m * n, 0}
	}
	most := max(m, n, k) + 9
	c.Params[3], c.Params[4] = uint32(most*max(m, k)), uint32(most*max(n, k))
	c.Params[5] = uint32(most * m)
	return [4]int{most * m * l, most * max(m, k) * l, most * max(n, k) * l, n}
}

// numbers returns numbers that round at every step, small and large or around one, with some that are none, infinite
// or very small.
func numbers(r *rand.Rand, n int, special bool) []float32 {
	v, wide := make([]float32, n), 1+r.IntN(12)
	for i := range v {
		v[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(wide)))
		if special && r.IntN(200) == 0 {
			v[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), -math.MaxFloat32, 0x1p-140, -0x1p-75, 0, float32(math.Copysign(0, -1))}[r.IntN(7)]
		}
	}
	return v
}

// compute runs a command on Dst, A, B and C, and returns the words of Dst.
func compute(t testing.TB, c kernel.Command, in [4][]float32, vectors bool) []uint32 {
	t.Helper()
	d := New(0)
	d.vectors = vectors
	for i, o := range []*kernel.Operand{&c.Dst, &c.A, &c.B, &c.C} {
		if i < 3 || o.Buffer != 0 {
			o.Buffer, _ = d.Alloc(uint64(4 * len(in[i])))
			copy(floats(d.bufs[o.Buffer]), in[i])
		}
	}
	if err := d.Launch(nil, []kernel.Command{c}); err != nil {
		t.Fatal(err)
	}
	return d.bufs[c.Dst.Buffer]
}
