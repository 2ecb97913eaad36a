package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// scores is a query times many keys. Each key is a lane sum of its own, folded in
// registers.
func scores() {
	function("scores8", "func(n, dim int, q, keys *float32, width int, scale float32, out *float32)")
	Doc("scores8 sets n elements to scale times the lane sums of q and n keys of dim elements,", "a multiple of 8, width elements apart.")
	n, dim := Load(Param("n"), GP64()), Load(Param("dim"), GP64())
	q, keys := Load(Param("q"), GP64()), Load(Param("keys"), GP64())
	width, scale := Load(Param("width"), GP64()), scalar("scale")
	out := Load(Param("out"), GP64())
	SHLQ(Imm(2), width)
	i, left := GP64(), GP64()
	lo, hi, v := YMM(), YMM(), YMM()
	Label("key")
	TESTQ(n, n)
	JZ(LabelRef("end"))
	VXORPS(lo, lo, lo)
	VXORPS(hi, hi, hi)
	XORQ(i, i)
	MOVQ(dim, left)
	Label("pair")
	CMPQ(left, Imm(16))
	JL(LabelRef("one"))
	VMOVUPS(Mem{Base: q, Index: i, Scale: 4}, v)
	VFMADD231PS(Mem{Base: keys, Index: i, Scale: 4}, v, lo)
	VMOVUPS(Mem{Base: q, Index: i, Scale: 4, Disp: 32}, v)
	VFMADD231PS(Mem{Base: keys, Index: i, Scale: 4, Disp: 32}, v, hi)
	ADDQ(Imm(16), i)
	SUBQ(Imm(16), left)
	JMP(LabelRef("pair"))
	Label("one")
	TESTQ(left, left)
	JZ(LabelRef("fold"))
	VMOVUPS(Mem{Base: q, Index: i, Scale: 4}, v)
	VFMADD231PS(Mem{Base: keys, Index: i, Scale: 4}, v, lo)
	Label("fold")
	VADDPS(hi, lo, lo)
	fold8(lo, v)
	VMULSS(scale.AsX(), lo.AsX(), lo.AsX())
	VMOVSS(lo.AsX(), Mem{Base: out})
	ADDQ(width, keys)
	ADDQ(Imm(4), out)
	DECQ(n)
	JMP(LabelRef("key"))
	Label("end")
	finish()
}
