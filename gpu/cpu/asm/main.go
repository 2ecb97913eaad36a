// Command asm writes the vector kernels of package cpu. It is a module of its own, so
// that what it needs is no dependency of the program.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	gemm()
	pack()
	packSix()
	move()
	across()
	down(8)
	down(1)
	plain()
	dot()
	largest()
	pairs()
	scores()
	bytes()
	adamw()
	e := newExponential()
	activations(e)
	softmax(e)
	quotient()
	scaled()
	swiglu(e)
	Generate()
}

const unroll = 4

func function(name, signature string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
}

// at is element i past base, for binary32.
func at(base reg.Register, i int) Mem { return Mem{Base: base, Disp: 4 * i} }

func zeros(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
		VXORPS(v[i], v[i], v[i])
	}
	return v
}

func finish() {
	VZEROUPPER()
	RET()
}

// loop runs body with steps 'by' at a time while k has as many, then step by step.
func loop(k reg.Register, by int, body func(steps int)) {
	Label("many")
	CMPQ(k, Imm(uint64(by)))
	JL(LabelRef("few"))
	body(by)
	SUBQ(Imm(uint64(by)), k)
	JMP(LabelRef("many"))
	Label("few")
	TESTQ(k, k)
	JZ(LabelRef("done"))
	body(1)
	DECQ(k)
	JMP(LabelRef("few"))
	Label("done")
}

// gemm keeps six rows of sixteen sums in twelve registers: with two for B and two for
// A that is all there are.
func gemm() {
	const rows, wide = 6, 2
	function("gemm6x16", "func(k int, a, b, from *float32, fromStride int, to *float32, toStride int)")
	Doc("gemm6x16 sets 6 rows of 16 sums to what they were at from plus the chains over k", "packed steps of A and B. Rows are strides elements apart.")
	k, a, b := Load(Param("k"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	from, stride := Load(Param("from"), GP64()), Load(Param("fromStride"), GP64())
	SHLQ(Imm(2), stride)
	line := GP64()
	MOVQ(from, line)
	for range rows {
		PREFETCHT0(Mem{Base: line})
		PREFETCHT0(Mem{Base: line, Disp: 60})
		ADDQ(stride, line)
	}
	acc := zeros(rows * wide)
	bs, as := []reg.VecVirtual{YMM(), YMM()}, []reg.VecVirtual{YMM(), YMM()}
	loop(k, unroll, func(steps int) {
		if steps > 1 {
			PREFETCHT0(Mem{Base: a, Disp: 512})
			PREFETCHT0(Mem{Base: a, Disp: 576})
		}
		for u := range steps {
			for j, r := range bs {
				VMOVUPS(at(b, (u*wide+j)*8), r)
			}
			for i := range rows {
				VBROADCASTSS(at(a, u*rows+i), as[i%2])
				for j, r := range bs {
					VFMADD231PS(as[i%2], r, acc[i*wide+j])
				}
			}
		}
		ADDQ(U32(uint32(steps*rows*4)), a)
		ADDQ(U32(uint32(steps*wide*32)), b)
	})
	to, toStride := Load(Param("to"), GP64()), Load(Param("toStride"), GP64())
	SHLQ(Imm(2), toStride)
	nan := broadcast("nan", 0x7fc00000)
	for i := range rows {
		for j := range wide {
			v := acc[i*wide+j]
			VADDPS(at(from, j*8), v, v)
			VCMPPS(Imm(3), v, v, as[0])
			VBLENDVPS(as[0], nan, v, v)
			VMOVUPS(v, at(to, j*8))
		}
		if i < rows-1 {
			ADDQ(stride, from)
			ADDQ(toStride, to)
		}
	}
	finish()
}

// A quad addresses sixteen rows that lie stride bytes apart by four pointers.
type quad struct {
	base            [4]reg.Register
	stride, stride3 reg.Register
	// Vectors to turn in, the same every time: filled half by half, they count as
	// live from the beginning.
	in, out [4]reg.VecVirtual
	pair    [2]reg.VecVirtual
	upper   reg.VecVirtual
}

func loadQuad(b, stride reg.Register) quad {
	SHLQ(Imm(2), stride)
	q := quad{stride: stride, stride3: GP64(), pair: [2]reg.VecVirtual{YMM(), YMM()}, upper: XMM()}
	for i := range q.in {
		q.in[i], q.out[i] = YMM(), YMM()
	}
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, q.stride3)
	q.base[0] = b
	for i := 1; i < 4; i++ {
		q.base[i] = GP64()
		LEAQ(Mem{Base: q.base[i-1], Index: stride, Scale: 4}, q.base[i])
	}
	return q
}

func (q quad) row(i, disp int) Mem {
	m := Mem{Base: q.base[i/4], Disp: 4 * disp}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = q.stride, 1
	case 2:
		m.Index, m.Scale = q.stride, 2
	case 3:
		m.Index, m.Scale = q.stride3, 1
	}
	return m
}

func (q quad) advance(n int) {
	for _, r := range q.base {
		ADDQ(Imm(uint64(4*n)), r)
	}
}

// columns returns four steps of eight rows, each step in one register. With a mask the
// rows end within the four, and zeros take the place of the rest.
func (q quad) columns(half, disp int, mask reg.VecVirtual) [4]reg.VecVirtual {
	in, out, upper, even, odd := q.in, q.out, q.upper, q.pair[0], q.pair[1]
	for i := range in {
		lo, hi := q.row(half*8+i, disp), q.row(half*8+i+4, disp)
		if mask == nil {
			VMOVUPS(lo, in[i].AsX())
			VINSERTF128(Imm(1), hi, in[i], in[i])
			continue
		}
		VMASKMOVPS(lo, mask.AsX(), in[i].AsX())
		VMASKMOVPS(hi, mask.AsX(), upper)
		VINSERTF128(Imm(1), upper, in[i], in[i])
	}
	for i := range 2 {
		if i == 0 {
			VUNPCKLPS(in[1], in[0], even)
			VUNPCKLPS(in[3], in[2], odd)
		} else {
			VUNPCKHPS(in[1], in[0], even)
			VUNPCKHPS(in[3], in[2], odd)
		}
		VUNPCKLPD(odd, even, out[2*i])
		VUNPCKHPD(odd, even, out[2*i+1])
	}
	return out
}

// pack turns sixteen rows into steps of sixteen.
func pack() {
	function("pack16", "func(k int, b *float32, stride int, panel *float32)")
	Doc("pack16 lays 16 rows, stride elements apart, side by side: 16 elements a step. k is", "a multiple of 4.")
	k := Load(Param("k"), GP64())
	q := loadQuad(Load(Param("b"), GP64()), Load(Param("stride"), GP64()))
	panel := Load(Param("panel"), GP64())
	Label("loop")
	TESTQ(k, k)
	JZ(LabelRef("done"))
	for half := range 2 {
		for i, v := range q.columns(half, 0, nil) {
			VMOVUPS(v, at(panel, i*16+half*8))
		}
	}
	q.advance(4)
	ADDQ(U32(256), panel)
	SUBQ(Imm(4), k)
	JMP(LabelRef("loop"))
	Label("done")
	finish()
}

// pack6 turns six rows into steps of six.
func packSix() {
	function("pack6x4", "func(k int, a *float32, stride int, panel *float32)")
	Doc("pack6x4 lays 6 rows, stride elements apart, side by side: 6 elements a step. k is a", "multiple of 4.")
	k := Load(Param("k"), GP64())
	a, stride := Load(Param("a"), GP64()), Load(Param("stride"), GP64())
	panel := Load(Param("panel"), GP64())
	SHLQ(Imm(2), stride)
	stride3, low := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	LEAQ(Mem{Base: a, Index: stride, Scale: 4}, low)
	in, t := make([]reg.VecVirtual, 6), make([]reg.VecVirtual, 6)
	for i := range in {
		in[i], t[i] = XMM(), XMM()
	}
	Label("loop")
	TESTQ(k, k)
	JZ(LabelRef("done"))
	for i, m := range []Mem{{Base: a}, {Base: a, Index: stride, Scale: 1}, {Base: a, Index: stride, Scale: 2},
		{Base: a, Index: stride3, Scale: 1}, {Base: low}, {Base: low, Index: stride, Scale: 1}} {
		VMOVUPS(m, in[i])
	}
	for i := range 3 {
		VUNPCKLPS(in[2*i+1], in[2*i], t[2*i])
		VUNPCKHPS(in[2*i+1], in[2*i], t[2*i+1])
	}
	// Of each pair of rows t has steps 0 and 1, and steps 2 and 3.
	for half := range 2 {
		for i := range 3 {
			VMOVLPS(t[2*i+half], Mem{Base: panel, Disp: 48*half + 8*i})
			VMOVHPS(t[2*i+half], Mem{Base: panel, Disp: 48*half + 24 + 8*i})
		}
	}
	ADDQ(Imm(16), a)
	ADDQ(Imm(16), low)
	ADDQ(Imm(96), panel)
	SUBQ(Imm(4), k)
	JMP(LabelRef("loop"))
	Label("done")
	finish()
}

// move copies steps of sixteen that lie in one piece each.
func move() {
	function("move16", "func(k int, b *float32, stride int, panel *float32)")
	Doc("move16 copies 16 elements from each of k rows, stride elements apart, to a panel.")
	k := Load(Param("k"), GP64())
	b, stride := Load(Param("b"), GP64()), Load(Param("stride"), GP64())
	panel := Load(Param("panel"), GP64())
	SHLQ(Imm(2), stride)
	lo, hi := YMM(), YMM()
	Label("loop")
	TESTQ(k, k)
	JZ(LabelRef("done"))
	PREFETCHT0(Mem{Base: b, Index: stride, Scale: 8})
	VMOVUPS(at(b, 0), lo)
	VMOVUPS(at(b, 8), hi)
	VMOVUPS(lo, at(panel, 0))
	VMOVUPS(hi, at(panel, 8))
	ADDQ(stride, b)
	ADDQ(Imm(64), panel)
	DECQ(k)
	JMP(LabelRef("loop"))
	Label("done")
	finish()
}

// across is a row times a matrix whose columns lie in one piece each. A chain must go
// step by step, so the registers hold sixteen chains side by side and the matrix is
// turned on its way in.
func across() {
	masks := GLOBL("masks", RODATA|NOPTR)
	for i := range 8 {
		word := U32(0)
		if i < 4 {
			word = 0xffffffff
		}
		DATA(4*i, word)
	}
	function("across16", "func(k int, x, b *float32, stride int, next, sums *float32)")
	Doc("across16 adds to 16 sums the chains over x and 16 rows of k elements, stride apart.", "x is zero up to a multiple of 4. Meanwhile it fetches as many elements from next on,", "which may lie anywhere.")
	k, x := Load(Param("k"), GP64()), Load(Param("x"), GP64())
	q := loadQuad(Load(Param("b"), GP64()), Load(Param("stride"), GP64()))
	next := Load(Param("next"), GP64())
	acc, xs := zeros(2), YMM()
	part := func(half, disp int, mask reg.VecVirtual) {
		for i, v := range q.columns(half, disp, mask) {
			VBROADCASTSS(at(x, disp+i), xs)
			VFMADD231PS(xs, v, acc[half])
		}
	}
	step := func(disp int, mask reg.VecVirtual) {
		part(0, disp, mask)
		part(1, disp, mask)
	}
	// A cache line of eight rows at a time: where rows lie pages apart, the first cache
	// has no place for more.
	Label("lines")
	CMPQ(k, Imm(16))
	JL(LabelRef("loop"))
	for half := range 2 {
		for quarter := range 4 {
			PREFETCHT1(Mem{Base: next, Disp: 512*half + 128*quarter})
			PREFETCHT1(Mem{Base: next, Disp: 512*half + 128*quarter + 64})
			part(half, 4*quarter, nil)
		}
	}
	q.advance(16)
	ADDQ(Imm(64), x)
	ADDQ(U32(1024), next)
	SUBQ(Imm(16), k)
	JMP(LabelRef("lines"))
	Label("loop")
	CMPQ(k, Imm(4))
	JL(LabelRef("tail"))
	for line := range 4 {
		PREFETCHT1(Mem{Base: next, Disp: 64 * line})
	}
	step(0, nil)
	q.advance(4)
	ADDQ(Imm(16), x)
	ADDQ(U32(256), next)
	SUBQ(Imm(4), k)
	JMP(LabelRef("loop"))
	Label("tail")
	TESTQ(k, k)
	JZ(LabelRef("done"))
	table, mask := GP64(), YMM()
	LEAQ(masks, table)
	NEGQ(k)
	VMOVUPS(Mem{Base: table, Index: k, Scale: 4, Disp: 16}, mask.AsX())
	step(0, mask)
	Label("done")
	sums := Load(Param("sums"), GP64())
	addTo(sums, acc)
	finish()
}

func addTo(sums reg.Register, acc []reg.VecVirtual) {
	for i, r := range acc {
		VADDPS(at(sums, i*8), r, r)
		VMOVUPS(r, at(sums, i*8))
	}
}

// down is a row times a matrix whose rows lie in one piece each.
func down(regs int) {
	name := map[int]string{8: "down64", 1: "down8"}[regs]
	function(name, "func(k int, x, b *float32, stride int, sums *float32)")
	Doc(name+" adds to as many sums as its name says the chains over k elements of x and", "rows of b, stride apart.")
	k, x, b := Load(Param("k"), GP64()), Load(Param("x"), GP64()), Load(Param("b"), GP64())
	stride := Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)
	acc, xs := zeros(regs), YMM()
	loop(k, unroll, func(steps int) {
		for u := range steps {
			// No processor foresees rows that are pages apart.
			for line := 0; line < regs/2; line++ {
				PREFETCHT0(Mem{Base: b, Index: stride, Scale: 8, Disp: 64 * line})
			}
			VBROADCASTSS(at(x, u), xs)
			for i, r := range acc {
				VFMADD231PS(at(b, i*8), xs, r)
			}
			ADDQ(stride, b)
		}
		ADDQ(Imm(uint64(4*steps)), x)
	})
	addTo(Load(Param("sums"), GP64()), acc)
	finish()
}

// same replaces what is not a number in v by the one NaN that kernels store.
func same(nan, v reg.VecVirtual) {
	m := YMM()
	VCMPPS(Imm(3), v, v, m)
	VBLENDVPS(m, nan, v, v)
}

func broadcast(name string, bits uint32) reg.VecVirtual {
	m, r := GLOBL(name, RODATA|NOPTR), YMM()
	DATA(0, U32(bits))
	VBROADCASTSS(m, r)
	return r
}

// plain are the last steps of a product, on rows of it.
func plain() {
	function("canon8", "func(n int, dst, src *float32)")
	Doc("canon8 copies n elements, a multiple of 8, and makes every NaN the same.")
	n, dst, src := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	nan, v := broadcast("nan0", 0x7fc00000), YMM()
	each(n, func() {
		VMOVUPS(at(src, 0), v)
		same(nan, v)
		VMOVUPS(v, at(dst, 0))
	}, dst, src)
	finish()

	function("times8", "func(n int, v *float32, by float32)")
	Doc("times8 multiplies n elements, a multiple of 8.")
	n, dst = Load(Param("n"), GP64()), Load(Param("v"), GP64())
	by, w := scalar("by"), YMM()
	each(n, func() {
		VMULPS(at(dst, 0), by, w)
		VMOVUPS(w, at(dst, 0))
	}, dst)
	finish()

	function("fused8", "func(n int, v, x *float32, by float32)")
	Doc("fused8 sets n elements, a multiple of 8, to by·x + v.")
	n, dst, src = Load(Param("n"), GP64()), Load(Param("v"), GP64()), Load(Param("x"), GP64())
	by, w = scalar("by"), YMM()
	each(n, func() {
		VMOVUPS(at(dst, 0), w)
		VFMADD231PS(at(src, 0), by, w)
		VMOVUPS(w, at(dst, 0))
	}, dst, src)
	finish()
}
