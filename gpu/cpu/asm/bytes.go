package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// products of small integers take one row of A, widened to 16 bits, times rows of B,
// one after another as they lie in memory.
func bytes() {
	dotBlocks("dotQ8", 36, func(b reg.Register, lo, hi reg.VecVirtual) {
		VPMOVSXBW(Mem{Base: b, Disp: 4}, lo)
		VPMOVSXBW(Mem{Base: b, Disp: 20}, hi)
	})
	low, eight := constant("nibbles", 0x0f0f0f0f), constant("eights", 0x08080808)
	dotBlocks("dotQ4", 20, func(b reg.Register, lo, hi reg.VecVirtual) {
		x, y := XMM(), XMM()
		VMOVDQU(Mem{Base: b, Disp: 4}, x)
		VPSRLW(Imm(4), x, y)
		VPAND(low, x, x)
		VPAND(low, y, y)
		VPSUBB(eight, x, x)
		VPSUBB(eight, y, y)
		VPMOVSXBW(x, lo)
		VPMOVSXBW(y, hi)
	})
	dotInts()
}

func dotBlocks(name string, size int, load func(b reg.Register, lo, hi reg.VecVirtual)) {
	function(name, "func(n, blocks int, a *int16, scales *float32, b *uint32, sums *float32)")
	Doc(name+" sets n sums to the products of a row of blocks, widened and with its scales", "beside it, and n rows of b.")
	n, blocks := Load(Param("n"), GP64()), Load(Param("blocks"), GP64())
	a, scales := Load(Param("a"), GP64()), Load(Param("scales"), GP64())
	b, sums := Load(Param("b"), GP64()), Load(Param("sums"), GP64())
	x, i, left := GP64(), GP64(), GP64()
	acc, lo, hi, s, t := YMM(), YMM(), YMM(), YMM(), YMM()
	Label("row")
	TESTQ(n, n)
	JZ(LabelRef("end"))
	VXORPS(acc, acc, acc)
	MOVQ(a, x)
	XORQ(i, i)
	MOVQ(blocks, left)
	Label("block")
	PREFETCHT0(Mem{Base: b, Disp: 768})
	load(b, lo, hi)
	VPMADDWD(Mem{Base: x}, lo, lo)
	VPMADDWD(Mem{Base: x, Disp: 32}, hi, hi)
	VPADDD(hi, lo, lo)
	VCVTDQ2PS(lo, lo)
	VBROADCASTSS(Mem{Base: b}, s)
	VBROADCASTSS(Mem{Base: scales, Index: i, Scale: 4}, t)
	VMULPS(t, s, s)
	VFMADD231PS(s, lo, acc)
	ADDQ(Imm(uint64(size)), b)
	ADDQ(Imm(64), x)
	INCQ(i)
	DECQ(left)
	JNZ(LabelRef("block"))
	fold8(acc, t)
	VMOVSS(acc.AsX(), Mem{Base: sums})
	ADDQ(Imm(4), sums)
	DECQ(n)
	JMP(LabelRef("row"))
	Label("end")
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
