package gpu

import (
	"math"

	"idlemesh/gpu/kernel"
)

// The model that tokens are measured by has the shape of TinyLlama, of 1.1e9 weights in
// blocks of 8 bits. Its layers take turns with the weights of two, and the table of its
// vocabulary is whole, so that it fits into the memory of any device and into no cache.
const (
	dim, hidden, vocab = 2048, 5632, 32000
	heads, groups      = 32, 4
	layers, distinct   = 22, 2
	width              = dim / heads * groups // of a row of keys
	context0, cache    = 256, 512             // the position, and rows of the cache
)

// layout says where in the buffers of weights and of values something begins.
type layout struct{ end uint64 }

func (l *layout) take(bytes uint64) uint64 {
	off := l.end
	l.end += (bytes + 63) &^ 63
	return off
}

func inBlocks(words uint64) uint64 { return words / kernel.Block * uint64(4*kernel.Q8.BlockWords()) }

// A matrix is one of weights: where it is and what it multiplies.
type matrix struct {
	off     uint64
	out, in uint32
}

// model takes room for weights and values, fills the weights, and writes the commands of
// one token.
func (x *bench) model() error {
	var w, v layout
	put := func(out, in uint32) matrix { return matrix{w.take(inBlocks(uint64(out) * uint64(in))), out, in} }
	var sheets [distinct][7]matrix // q, k, v, o, w1, w3, w2
	for i := range sheets {
		sheets[i] = [7]matrix{put(dim, dim), put(width, dim), put(width, dim), put(dim, dim), put(hidden, dim), put(hidden, dim), put(dim, hidden)}
	}
	head := put(vocab, dim)
	t := token{x: x, keys: v.take(4 * cache * width), values: v.take(4 * cache * width), x0: v.take(4 * dim), xb: v.take(4 * dim),
		q: v.take(4 * dim), k: v.take(4 * width), v: v.take(4 * width), h: v.take(4 * hidden), h2: v.take(4 * hidden), scale: v.take(4 * dim),
		turns: v.take(4 * dim / heads / 2), packed: v.take(inBlocks(hidden)), logits: v.take(4 * vocab), choice: v.take(4)}
	const piece = 1 << 22 // words that are made and packed at once
	if err := x.renew(w.end, v.end, 4*piece); err != nil {
		return err
	}
	fill := []kernel.Command{noise(x.b, uint32(v.end/4)), noise(x.c, piece)}
	for off := uint64(0); off < w.end; off += inBlocks(piece) {
		n := min(piece, uint32((w.end-off)/uint64(4*kernel.Q8.BlockWords()))*kernel.Block)
		fill = append(fill, kernel.Command{Op: kernel.Quantize, M: 1, N: n, Dst: blocks(x.a, off), A: operand(x.c, 0)})
	}
	x.token = t.commands(sheets, head)
	return x.submit(fill...)
}

func blocks(b kernel.Buffer, off uint64) kernel.Operand {
	return kernel.Operand{Buffer: b, Type: kernel.Q8, Offset: off}
}

// next makes one token, counted in thousandths.
func (x *bench) next() (uint64, error) { return 1000, x.submit(x.token...) }

// A token is the commands of one, and where its values are.
type token struct {
	x                                                                          *bench
	cmds                                                                       []kernel.Command
	keys, values, x0, xb, q, k, v, h, h2, scale, turns, packed, logits, choice uint64
}

func (t *token) commands(sheets [distinct][7]matrix, head matrix) []kernel.Command {
	for l := range layers {
		s := sheets[l%distinct]
		t.attend(s)
		t.norm()
		t.linear(t.h, s[4], false)
		t.linear(t.h2, s[5], false)
		t.add(kernel.Command{Op: kernel.SwiGLU, M: 1, N: hidden, Dst: t.at(t.h), A: t.at(t.h), B: t.at(t.h2)})
		t.pack(t.h, hidden)
		t.linear(t.x0, s[6], true)
	}
	t.norm()
	t.linear(t.logits, head, false)
	t.add(kernel.Command{Op: kernel.ArgMax, M: 1, N: vocab, A: t.at(t.logits),
		Dst: kernel.Operand{Buffer: t.x.b, Type: kernel.I32, Offset: t.choice}})
	return t.cmds
}

func (t *token) attend(s [7]matrix) {
	t.norm()
	for i, dst := range []uint64{t.q, t.k, t.v} {
		t.linear(dst, s[i], false)
	}
	for _, r := range []struct {
		off uint64
		n   uint32
	}{{t.q, heads}, {t.k, groups}} {
		t.add(kernel.Command{Op: kernel.RoPE, M: 1, N: r.n, K: dim / heads, Dst: t.at(r.off), A: t.at(r.off), B: t.at(t.turns), Params: [10]uint32{context0}})
	}
	t.add(kernel.Command{Op: kernel.KVAppend, M: 1, N: width, K: cache, Dst: t.at(t.keys), A: t.at(t.k), B: t.at(t.v), C: t.at(t.values), Params: [10]uint32{context0}})
	t.add(kernel.Command{Op: kernel.Attention, Flags: kernel.Causal, M: 1, N: heads, K: dim / heads, L: groups, Dst: t.at(t.xb), A: t.at(t.q),
		B: t.at(t.keys), C: t.at(t.values), Params: [10]uint32{context0, context0 + 1}})
	t.pack(t.xb, dim)
	t.linear(t.x0, s[3], true)
}

// norm makes x ready for linear.
func (t *token) norm() {
	t.add(kernel.Command{Op: kernel.RMSNorm, M: 1, N: dim, Dst: t.at(t.xb), A: t.at(t.x0), B: t.at(t.scale), Params: [10]uint32{math.Float32bits(1e-5)}})
	t.pack(t.xb, dim)
}

func (t *token) pack(src uint64, n uint32) {
	t.add(kernel.Command{Op: kernel.Quantize, M: 1, N: n, Dst: blocks(t.x.b, t.packed), A: t.at(src)})
}

// linear multiplies what was packed last, into dst or on top of it.
func (t *token) linear(dst uint64, m matrix, onTop bool) {
	c := kernel.Command{Op: kernel.GemmQ8, M: 1, N: m.out, K: m.in, Dst: t.at(dst), A: blocks(t.x.b, t.packed), B: blocks(t.x.a, m.off)}
	if onTop {
		c.Params[0] = math.Float32bits(1)
	}
	t.add(c)
}

func (t *token) at(off uint64) kernel.Operand { return operand(t.x.b, off) }

func (t *token) add(c kernel.Command) { t.cmds = append(t.cmds, c) }
