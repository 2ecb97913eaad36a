package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// products of small integers take one row of A, widened to 16 bits, times rows of B,
// one after another as they lie in memory.
func bytes() {
	dotBlocks("dotQ8", 36, func(b reg.Register, disp int, lo, hi reg.VecVirtual) {
		VPMOVSXBW(Mem{Base: b, Disp: disp + 4}, lo)
		VPMOVSXBW(Mem{Base: b, Disp: disp + 20}, hi)
	})
	low, eight := constant("nibbles", 0x0f0f0f0f), constant("eights", 0x08080808)
	dotBlocks("dotQ4", 20, func(b reg.Register, disp int, lo, hi reg.VecVirtual) {
		x, y := XMM(), XMM()
		VMOVDQU(Mem{Base: b, Disp: disp + 4}, x)
		VPSRLW(Imm(4), x, y)
		VPAND(low, x, x)
		VPAND(low, y, y)
		VPSUBB(eight, x, x)
		VPSUBB(eight, y, y)
		VPMOVSXBW(x, lo)
		VPMOVSXBW(y, hi)
	})
	quantize()
	dotInts()
}

func dotBlocks(name string, size int, load func(b reg.Register, disp int, lo, hi reg.VecVirtual)) {
	function(name, "func(n, blocks int, a *int16, scales *float32, b *uint32, sums *float32)")
	Doc(name+" sets n sums to the products of a row of blocks, widened and with its scales", "beside it, and n rows of b.")
	n, blocks := Load(Param("n"), GP64()), Load(Param("blocks"), GP64())
	a, scales := Load(Param("a"), GP64()), Load(Param("scales"), GP64())
	b, sums := Load(Param("b"), GP64()), Load(Param("sums"), GP64())
	x, s, left := GP64(), GP64(), GP64()
	acc, lo, hi, f, t := YMM(), YMM(), YMM(), YMM(), YMM()
	block := func(i int) {
		load(b, i*size, lo, hi)
		VPMADDWD(Mem{Base: x, Disp: 64 * i}, lo, lo)
		VPMADDWD(Mem{Base: x, Disp: 64*i + 32}, hi, hi)
		VBROADCASTSS(Mem{Base: b, Disp: i * size}, f)
		VBROADCASTSS(Mem{Base: s, Disp: 4 * i}, t)
		VPADDD(hi, lo, lo)
		VMULPS(t, f, f)
		VCVTDQ2PS(lo, lo)
		VFMADD231PS(f, lo, acc)
	}
	next := func(blocks int) {
		ADDQ(Imm(uint64(size*blocks)), b)
		ADDQ(U32(uint32(64*blocks)), x)
		ADDQ(Imm(uint64(4*blocks)), s)
		SUBQ(Imm(uint64(blocks)), left)
	}
	Label("row")
	TESTQ(n, n)
	JZ(LabelRef("end"))
	VXORPS(acc, acc, acc)
	MOVQ(a, x)
	MOVQ(scales, s)
	MOVQ(blocks, left)
	Label("three")
	CMPQ(left, Imm(3))
	JL(LabelRef("one"))
	PREFETCHT0(Mem{Base: b, Disp: 1024})
	PREFETCHT0(Mem{Base: b, Disp: 1088})
	for i := range 3 {
		block(i)
	}
	next(3)
	JMP(LabelRef("three"))
	Label("one")
	TESTQ(left, left)
	JZ(LabelRef("fold"))
	block(0)
	next(1)
	JMP(LabelRef("one"))
	Label("fold")
	fold8(acc, t)
	VMOVSS(acc.AsX(), Mem{Base: sums})
	ADDQ(Imm(4), sums)
	DECQ(n)
	JMP(LabelRef("row"))
	Label("end")
	finish()
}

// quantize compares magnitudes as integers, where a NaN is the largest.
func quantize() {
	magnitude := constant("magnitude", 0x7fffffff)
	function("quantQ8", "func(n int, v *float32, dst *uint32) int")
	Doc("quantQ8 makes blocks of Q8 until one has a number that is not finite or a scale that", "is hardly any, and returns how many of n are left.")
	n, v, dst := Load(Param("n"), GP64()), Load(Param("v"), GP64()), Load(Param("dst"), GP64())
	var x [4]reg.VecVirtual
	for i := range x {
		x[i] = YMM()
	}
	m, t, order := YMM(), YMM(), YMM()
	bits, limit := GP32(), XMM()
	MOVL(U32(0x42fe0000), bits) // 127
	VMOVD(bits, limit)
	turn := GLOBL("turn", RODATA|NOPTR)
	for i, w := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(w))
	}
	VMOVDQU(turn, order)
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	VPXOR(m, m, m)
	for i := range x {
		VMOVUPS(at(v, 8*i), x[i])
		VPAND(magnitude, x[i], t)
		VPMAXUD(t, m, m)
	}
	VEXTRACTI128(Imm(1), m, t.AsX())
	VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	for _, shuffle := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(shuffle), m.AsX(), t.AsX())
		VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	}
	VMOVD(m.AsX(), bits)
	CMPL(bits, U32(0x7f800000))
	JAE(LabelRef("done"))
	VDIVSS(limit, m.AsX(), m.AsX())
	VMOVD(m.AsX(), bits)
	CMPL(bits, U32(0x00800000))
	JB(LabelRef("done"))
	MOVL(bits, Mem{Base: dst})
	VBROADCASTSS(m.AsX(), m)
	for i := range x {
		VDIVPS(m, x[i], x[i])
		VCVTPS2DQ(x[i], x[i])
	}
	VPACKSSDW(x[1], x[0], x[0])
	VPACKSSDW(x[3], x[2], x[2])
	VPACKSSWB(x[2], x[0], x[0])
	VPERMD(x[0], order, x[0])
	VMOVDQU(x[0], Mem{Base: dst, Disp: 4})
	ADDQ(U32(128), v)
	ADDQ(Imm(36), dst)
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
	Store(n, ReturnIndex(0))
	finish()
}

func dotInts() {
	function("dotI8", "func(n, k int, a *int16, b *byte, stride int, sums *int32)")
	Doc("dotI8 sets n sums to the products of k elements of a, a multiple of 16, and of rows of", "b, stride bytes apart.")
	n, k := Load(Param("n"), GP64()), Load(Param("k"), GP64())
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	stride, sums := Load(Param("stride"), GP64()), Load(Param("sums"), GP64())
	i := GP64()
	acc, v := YMM(), YMM()
	Label("row")
	TESTQ(n, n)
	JZ(LabelRef("end"))
	VPXOR(acc, acc, acc)
	XORQ(i, i)
	Label("step")
	VPMOVSXBW(Mem{Base: b, Index: i, Scale: 1}, v)
	VPMADDWD(Mem{Base: a, Index: i, Scale: 2}, v, v)
	VPADDD(v, acc, acc)
	ADDQ(Imm(16), i)
	CMPQ(i, k)
	JL(LabelRef("step"))
	VEXTRACTI128(Imm(1), acc, v.AsX())
	VPADDD(v.AsX(), acc.AsX(), acc.AsX())
	for _, shuffle := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(shuffle), acc.AsX(), v.AsX())
		VPADDD(v.AsX(), acc.AsX(), acc.AsX())
	}
	VMOVD(acc.AsX(), Mem{Base: sums})
	ADDQ(stride, b)
	ADDQ(Imm(4), sums)
	DECQ(n)
	JMP(LabelRef("row"))
	Label("end")
	finish()
}
