package kerneltest

import (
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

// optimizers change Dst and C in binary32, so what they leave in C is held by its bits.
func optimizers() []trial {
	var all []trial
	for _, s := range shapes {
		n := s[0] * s[1]
		w, g, state := numbers(211, n), numbers(212, n), numbers(213, 2*n)
		for i := range state[n:] {
			state[n+i] = math.Abs(state[n+i])
		}
		for _, decay := range []float64{0, 0.0625} {
			name := fmt.Sprint(s, decay)
			c := kernel.Command{Op: kernel.SGD, M: uint32(s[0]), N: uint32(s[1]), Params: [10]uint32{f32(0.125), 0, f32(decay)}}
			plain := trial{name: name, c: c, in: [4][]uint32{words(w), words(g)}}
			c.Params[1] = f32(0.5)
			moving := trial{name: name + " momentum", c: c, in: [4][]uint32{words(w), words(g), nil, words(state[:n])}}
			c = kernel.Command{Op: kernel.AdamW, M: uint32(s[0]), N: uint32(s[1])}
			c.Params = [10]uint32{f32(0.125), f32(0.5), f32(0.75), f32(0.25), f32(decay), f32(0.75), f32(0.5)}
			adam := trial{name: name, c: c, in: [4][]uint32{words(w), words(g), nil, words(state)}}
			adam.bits[3] = make([]uint32, 2*n)
			for i, x := range w {
				v := g[i]
				if decay != 0 {
					v = once(decay, x, v)
				}
				plain.want = append(plain.want, number{x - 0.125*v, math.Abs(x) + math.Abs(v)})
				v = once(0.5, state[i], v)
				moving.bits[3] = append(moving.bits[3], f32(v))
				moving.want = append(moving.want, number{x - 0.125*v, math.Abs(x) + math.Abs(v)})
				m, q := once(0.5, state[i], round(0.5*g[i])), once(0.75, state[n+i], round(0.25*round(g[i]*g[i])))
				adam.bits[3][i], adam.bits[3][n+i] = f32(m), f32(q)
				step := m / 0.75 / (math.Sqrt(q/0.5) + 0.25)
				adam.want = append(adam.want, number{x - 0.125*decay*x - 0.125*step, math.Abs(x) + math.Abs(step)})
			}
			all = append(all, plain, moving, adam)
		}
		for _, most := range []float64{0.5, 1000} {
			c := kernel.Command{Op: kernel.ClipNorm, M: uint32(s[0]), N: uint32(s[1]), Params: [10]uint32{f32(most)}}
			tr := trial{name: fmt.Sprint(s, most), c: c, in: [4][]uint32{make([]uint32, n), words(g), words([]float64{9})}}
			for _, v := range g {
				v *= min(1, most/3)
				tr.want = append(tr.want, number{v, math.Abs(v)})
			}
			all = append(all, tr)
		}
	}
	return all
}

func round(v float64) float64 { return float64(float32(v)) }

// once is x·y + z rounded once: the factors here are small fractions, so that binary64
// has the exact sum, or rounds it far from half ways.
func once(x, y, z float64) float64 { return round(x*y + z) }
