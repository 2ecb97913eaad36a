package kerneltest

import (
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

func training() []trial {
	var all []trial
	for _, s := range shapes {
		m, n := s[0], s[1]
		a, dy, w := numbers(171, m*n), numbers(172, m*n), numbers(173, n)
		for name, w := range map[string][]float64{"": w, " bare": nil} {
			all = append(all, normBack(fmt.Sprint(s, name), kernel.RMSNormBack, m, n, a, w, dy), normBack(fmt.Sprint(s, name), kernel.LayerNormBack, m, n, a, w, dy))
		}
		all = append(all, softmaxBack(fmt.Sprint(s), m, n, a, dy), swigluBack(fmt.Sprint(s), m, n, a, numbers(174, m*n), dy))
		for name, a := range map[string][]float64{"": a, " special": special(175, m*n)} {
			all = append(all, entropy(fmt.Sprint(s, name), m, n, a)...)
		}
		for f := kernel.Neg; f <= kernel.GELUOf; f++ {
			all = append(all, unaryBack(fmt.Sprint(f, s), f, m, n, a, dy))
		}
	}
	for i, s := range shapesOfImages {
		all = append(all, convolveBack(fmt.Sprint(i), s)...)
	}
	for _, s := range [][6]int{{1, 1, 1, 1, 0, 1}, {3, 4, 8, 2, 0, 3}, {2, 6, 5, 3, 7, 9}, {4, 2, 33, 1, 20, 30}} {
		all = append(all, attentionBack(fmt.Sprint(s), kernel.Causal, s, 0))
		s[4] = 0
		all = append(all, attentionBack(fmt.Sprint(s, " all"), 0, s, 0.4))
	}
	back := rope("back", kernel.Back, 3, 4, 8, 0, 5)
	for i := range back.want { // turned back, all is where it was
		back.want[i].v = math.NaN()
	}
	return append(all, turnedBack(back), scatter("several", 5, 3, []int{4, 0, 4, 9, -1, 4}), scatter("one", 1, 1, []int{0}))
}

// turnedBack holds that rope with Back undoes rope.
func turnedBack(tr trial) trial {
	forth := rope("", 0, 3, 4, 8, 0, 5)
	turned := make([]float64, len(forth.want))
	for i, w := range forth.want {
		turned[i] = w.v
	}
	a := floatsOf(forth.in[1])
	tr.in[1] = words(turned)
	for i := range tr.want {
		tr.want[i].v, tr.want[i].size = a[i], 4
	}
	return tr
}

func floatsOf(w []uint32) []float64 { return decode(w, len(w), kernel.F32) }

func normBack(name string, op kernel.Op, m, n int, a, w, dy []float64) trial {
	c := kernel.Command{Op: op, M: uint32(m), N: uint32(n), Params: [10]uint32{f32(1e-2)}}
	tr := trial{name: name, c: c, in: [4][]uint32{nil, words(a), nil, words(dy)}}
	if w != nil {
		tr.in[2] = words(w)
	}
	extra := make([]number, 2*n)
	for i := range m {
		x, g := a[i*n:(i+1)*n], make([]float64, n)
		mean, square, sum, along := 0.0, 0.0, 0.0, 0.0
		for _, v := range x {
			if op == kernel.LayerNormBack {
				mean += v / float64(n)
			}
		}
		for _, v := range x {
			square += (v - mean) * (v - mean) / float64(n)
		}
		inv := 1 / math.Sqrt(square+1e-2)
		for j, v := range x {
			h := inv * (v - mean)
			g[j] = dy[i*n+j]
			extra[j] = number{extra[j].v + g[j]*h, extra[j].size + math.Abs(g[j])*inv*4}
			extra[n+j] = number{extra[n+j].v + g[j], extra[n+j].size + math.Abs(g[j])}
			if w != nil {
				g[j] *= w[j]
			}
			sum, along = sum+g[j]/float64(n), along+g[j]*h/float64(n)
		}
		if op == kernel.RMSNormBack {
			sum = 0
		}
		for j, v := range x {
			h := inv * (v - mean)
			tr.want = append(tr.want, number{inv * (g[j] - sum - h*along), inv * 20})
		}
	}
	tr.want = append(tr.want, extra[:n]...)
	if op == kernel.LayerNormBack {
		tr.want = append(tr.want, extra[n:]...)
	}
	tr.in[0] = make([]uint32, len(tr.want))
	return tr
}

func softmaxBack(name string, m, n int, a, dy []float64) trial {
	tr := trial{name: name, c: kernel.Command{Op: kernel.SoftmaxBack, M: uint32(m), N: uint32(n)}}
	tr.in = [4][]uint32{make([]uint32, m*n), nil, words(dy)}
	var y []float64
	for i := range m {
		p, along := soft(a[i*n:(i+1)*n]), 0.0
		y = append(y, p...)
		for j, v := range p {
			along += v * dy[i*n+j]
		}
		for j, v := range p {
			tr.want = append(tr.want, number{v * (dy[i*n+j] - along), 4 * v * float64(1+len(p)/100)})
		}
	}
	tr.in[1] = words(y)
	return tr
}

func swigluBack(name string, m, n int, a, b, dy []float64) trial {
	tr := trial{name: name, c: kernel.Command{Op: kernel.SwiGLUBack, M: uint32(m), N: uint32(n)}}
	tr.in = [4][]uint32{make([]uint32, 2*m*n), words(a), words(b), words(dy)}
	tr.want = make([]number, 2*m*n)
	for i, v := range a {
		s := sigmoid(v)
		gate, up := dy[i]*b[i]*s*(1+v*(1-s)), dy[i]*v*s
		tr.want[i], tr.want[m*n+i] = number{gate, math.Abs(dy[i]*b[i]) * (1 + math.Abs(v))}, number{up, math.Abs(up)}
	}
	return tr
}

// entropy is the loss of rows, some of them left out, and its gradient.
func entropy(name string, m, n int, a []float64) []trial {
	classes := make([]int, m)
	for i := range classes {
		classes[i] = i*7%(n+1) - i%2
	}
	c := kernel.Command{Op: kernel.CrossEntropy, M: uint32(m), N: uint32(n), B: kernel.Operand{Type: kernel.I32}}
	loss := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m), words(a), indices(classes)}}
	c.Op, c.Params[0] = kernel.CrossEntropyBack, f32(0.5)
	back := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*n), words(a), indices(classes)}}
	for i, t := range classes {
		row := a[i*n : (i+1)*n]
		if t < 0 || t >= n {
			loss.want = append(loss.want, number{})
			back.want = append(back.want, make([]number, n)...)
			continue
		}
		top, sum := math.Inf(-1), 0.0
		for _, v := range row {
			top = max(top, v)
		}
		for _, v := range row {
			if v == top {
				sum++
			} else {
				sum += math.Exp(v - top)
			}
		}
		v := top + math.Log(sum) - row[t]
		loss.want = append(loss.want, number{v, math.Abs(top) + math.Abs(row[t]) + 8})
		for j, p := range soft(row) {
			if j == t {
				p--
			}
			back.want = append(back.want, number{p / 2, 1})
		}
	}
	return []trial{loss, back}
}

// unaryBack holds derivatives to differences of what known has.
func unaryBack(name string, f kernel.Function, m, n int, a, dy []float64) trial {
	const h, p = 1e-5, 0.25
	a = append([]float64{}, a...)
	for i, v := range a {
		if f == kernel.Sqrt || f == kernel.Log || f == kernel.Reciprocal || math.Abs(v) < 0.01 {
			a[i] = float64(float32(math.Abs(v) + 0.5))
		}
	}
	c := kernel.Command{Op: kernel.UnaryBack, M: uint32(m), N: uint32(n), Params: [10]uint32{f, f32(p)}}
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, m*n), words(a), words(dy)}}
	for i, v := range a {
		d := (known[f](v+h, p, 0) - known[f](v-h, p, 0)) / (2 * h)
		tr.want = append(tr.want, number{d * dy[i], math.Abs(dy[i]) * (1 + math.Abs(d))})
	}
	return tr
}

func convolveBack(name string, s shape) []trial {
	groups := max(s.groups, 1)
	channels, filters := s.k/groups, s.n/groups
	plane, taps, places := s.high*s.wide, s.kernelH*s.kernelW, s.outHigh*s.outWide
	a, b, dy := numbers(181, s.m*s.k*plane), numbers(182, s.n*channels*taps), numbers(183, s.m*s.n*places)
	c := kernel.Command{Op: kernel.Conv2DBackData, M: uint32(s.m), N: uint32(s.n), K: uint32(s.k), L: uint32(s.groups), Params: s.params()}
	data := trial{name: name, c: c, in: [4][]uint32{make([]uint32, len(a)), words(dy), words(b)}, want: make([]number, len(a))}
	c.Op = kernel.Conv2DBackFilter
	filter := trial{name: name, c: c, in: [4][]uint32{make([]uint32, len(b)), words(a), words(dy)}, want: make([]number, len(b))}
	gather := func(n *number, v float64) { n.v, n.size = n.v+v, n.size+math.Abs(v) }
	for i := range s.m * s.n {
		image, f := i/s.n, i%s.n
		for place := range places {
			for ch := range channels {
				from := (image*s.k + f/filters*channels + ch) * plane
				s.meets(place/s.outWide, place%s.outWide, func(ky, kx, at int) {
					w, g := (f*channels+ch)*taps+ky*s.kernelW+kx, dy[i*places+place]
					gather(&data.want[from+at], g*b[w])
					gather(&filter.want[w], g*a[from+at])
				})
			}
		}
	}
	return []trial{data, filter}
}

func attentionBack(name string, flags uint16, s [6]int, scale float64) trial {
	m, heads, dim, kvHeads, pos, rows := s[0], s[1], s[2], s[3], s[4], s[5]
	c := kernel.Command{Op: kernel.AttentionBack, Flags: flags, M: uint32(m), N: uint32(heads), K: uint32(dim), L: uint32(kvHeads)}
	c.Params = [10]uint32{uint32(pos), uint32(rows), f32(scale)}
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(dim))
	}
	queries, width := m*heads*dim, kvHeads*dim
	a, dy := numbers(191, queries+2*rows*width), numbers(192, queries)
	tr := trial{name: name, c: c, in: [4][]uint32{make([]uint32, len(a)), words(a), words(dy)}, want: make([]number, len(a))}
	gather := func(i int, v float64) {
		tr.want[i].v, tr.want[i].size = tr.want[i].v+v, tr.want[i].size+4*math.Abs(v)+0.1
	}
	for h := range m * heads {
		seen := rows
		if flags&kernel.Causal != 0 {
			seen = pos + h/heads + 1
		}
		key := queries + h%heads/(heads/kvHeads)*dim
		value := key + rows*width
		score, d, along := make([]float64, seen), make([]float64, seen), 0.0
		for t := range seen {
			for j := range dim {
				score[t] += scale * a[h*dim+j] * a[key+t*width+j]
				d[t] += dy[h*dim+j] * a[value+t*width+j]
			}
		}
		p := soft(score)
		for t, w := range p {
			along += w * d[t]
		}
		for t, w := range p {
			ds := scale * w * (d[t] - along)
			for j := range dim {
				gather(h*dim+j, ds*a[key+t*width+j])
				gather(key+t*width+j, ds*a[h*dim+j])
				gather(value+t*width+j, w*dy[h*dim+j])
			}
		}
	}
	return tr
}

func scatter(name string, table, n int, ids []int) trial {
	c := kernel.Command{Op: kernel.GetRowsBack, M: uint32(len(ids)), N: uint32(n), K: uint32(table), B: kernel.Operand{Type: kernel.I32}}
	dst, a := numbers(201, table*n), numbers(202, len(ids)*n)
	tr := trial{name: name, c: c, in: [4][]uint32{words(dst), words(a), indices(ids)}}
	for _, v := range dst {
		tr.want = append(tr.want, number{v, math.Abs(v)})
	}
	for i, id := range ids {
		for j := range n {
			if id >= 0 && id < table {
				w := &tr.want[id*n+j]
				w.v, w.size = w.v+a[i*n+j], w.size+math.Abs(a[i*n+j])
			}
		}
	}
	return tr
}
