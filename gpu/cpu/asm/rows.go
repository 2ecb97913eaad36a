package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// constant is a vector in memory, the same word eight times.
func constant(name string, bits uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(bits))
	}
	return m
}

func number(name string, v float32) Mem { return constant(name, math.Float32bits(v)) }

// An exponential is exp of the kernel table.
type exponential struct {
	log2, high, low, one, least, most, inf, bias Mem
	p                                            []Mem
}

func newExponential() exponential {
	return exponential{
		log2: number("log2", 0x1.715476p+0),
		high: number("high", -0x1.62e4p-1), low: number("low", -0x1.7f7d1cp-20),
		one: number("one", 1), least: number("least", -104), most: number("most", 89),
		inf: number("inf", float32(math.Inf(1))), bias: constant("bias", 127),
		p: []Mem{
			number("p0", 0x1.694p-10), number("p1", 0x1.125edcp-7), number("p2", 0x1.555b5ap-5),
			number("p3", 0x1.55545p-3), number("p4", 0x1.fffff6p-2),
		},
	}
}

// of replaces x by its exponential.
func (e exponential) of(x reg.VecVirtual) {
	n, p, under, over, i, j := YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
	VCMPPS(Imm(1), e.least, x, under)
	VCMPPS(Imm(14), e.most, x, over)
	VMULPS(e.log2, x, n)
	VROUNDPS(Imm(0), n, n)
	VFMADD231PS(e.high, n, x)
	VFMADD231PS(e.low, n, x)
	VMOVUPS(e.p[0], p)
	for _, c := range append(e.p[1:], e.one, e.one) {
		VFMADD213PS(c, x, p)
	}
	VCVTPS2DQ(n, i)
	VPSRAD(Imm(1), i, j)
	VPSUBD(j, i, i)
	for _, power := range []reg.VecVirtual{j, i} {
		VPADDD(e.bias, power, power)
		VPSLLD(Imm(23), power, power)
		VMULPS(power, p, p)
	}
	VANDNPS(p, under, p)
	VBLENDVPS(over, e.inf, p, x)
}

// each runs body once for each eight elements, advancing the pointers.
func each(n reg.Register, body func(), pointers ...reg.Register) {
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	body()
	for _, p := range pointers {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(8), n)
	JMP(LabelRef("loop"))
	Label("done")
}

// lanes runs body for eight elements at a time, on the first lanes and the last in
// turn.
func lanes(n reg.Register, body func(half int), pointers ...reg.Register) {
	Label("loop")
	for half := range 2 {
		TESTQ(n, n)
		JZ(LabelRef("done"))
		body(half)
		for _, p := range pointers {
			ADDQ(Imm(32), p)
		}
		SUBQ(Imm(8), n)
	}
	JMP(LabelRef("loop"))
	Label("done")
}

// fold8 adds lanes 4, 2 and 1 to the ones before them; the sum is in the first.
func fold8(v, t reg.VecVirtual) {
	VEXTRACTF128(Imm(1), v, t.AsX())
	VADDPS(t.AsX(), v.AsX(), v.AsX())
	VMOVHLPS(v.AsX(), v.AsX(), t.AsX())
	VADDPS(t.AsX(), v.AsX(), v.AsX())
	VMOVSHDUP(v.AsX(), t.AsX())
	VADDSS(t.AsX(), v.AsX(), v.AsX())
}

func scalar(name string) reg.VecVirtual {
	v := YMM()
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(p.Addr, v)
	return v
}

func dot() {
	function("dot16", "func(n int, a, b, lanes *float32)")
	Doc("dot16 adds to 16 lanes the products of n elements, a multiple of 8.")
	n, a, b := Load(Param("n"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	acc, v := zeros(2), YMM()
	lanes(n, func(half int) {
		VMOVUPS(at(a, 0), v)
		VFMADD231PS(at(b, 0), v, acc[half])
	}, a, b)
	addTo(Load(Param("lanes"), GP64()), acc)
	finish()
}

func largest() {
	function("largest8", "func(n int, v *float32, most *float32)")
	Doc("largest8 sets most to the 8 largest of every eighth of n elements, a multiple of 8,", "or to NaN if one is none.")
	n, v := Load(Param("n"), GP64()), Load(Param("v"), GP64())
	most, none, x, m := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(at(v, 0), most)
	VXORPS(none, none, none)
	each(n, func() {
		VMOVUPS(at(v, 0), x)
		VCMPPS(Imm(3), x, x, m)
		VORPS(m, none, none)
		VMAXPS(x, most, most)
	}, v)
	// A mask of ones is a NaN.
	VORPS(none, most, most)
	VMOVUPS(most, at(Load(Param("most"), GP64()), 0))
	finish()
}

func softmax(e exponential) {
	function("exp8", "func(n int, v *float32, most float32, lanes *float32)")
	Doc("exp8 replaces n elements, a multiple of 8, by exp(v - most), which is 1 for the most,", "and adds them to 16 lanes.")
	n, v, most := Load(Param("n"), GP64()), Load(Param("v"), GP64()), scalar("most")
	acc, x, top := zeros(2), YMM(), YMM()
	lanes(n, func(half int) {
		VMOVUPS(at(v, 0), x)
		VCMPPS(Imm(0), most, x, top)
		VSUBPS(most, x, x)
		e.of(x)
		VBLENDVPS(top, e.one, x, x)
		VADDPS(x, acc[half], acc[half])
		VMOVUPS(x, at(v, 0))
	}, v)
	addTo(Load(Param("lanes"), GP64()), acc)
	finish()
}

func quotient() {
	function("quotient8", "func(n int, v *float32, by float32)")
	Doc("quotient8 divides n elements, a multiple of 8.")
	n, v, by := Load(Param("n"), GP64()), Load(Param("v"), GP64()), scalar("by")
	nan, x := broadcast("nan1", 0x7fc00000), YMM()
	each(n, func() {
		VMOVUPS(at(v, 0), x)
		VDIVPS(by, x, x)
		same(nan, x)
		VMOVUPS(x, at(v, 0))
	}, v)
	finish()
}

func scaled() {
	function("scaled8", "func(n int, dst, a, b *float32, by float32)")
	Doc("scaled8 sets n elements, a multiple of 8, to (by·a)·b.")
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	a, b, by := Load(Param("a"), GP64()), Load(Param("b"), GP64()), scalar("by")
	nan, x := broadcast("nan2", 0x7fc00000), YMM()
	each(n, func() {
		VMULPS(at(a, 0), by, x)
		VMULPS(at(b, 0), x, x)
		same(nan, x)
		VMOVUPS(x, at(dst, 0))
	}, dst, a, b)
	finish()
}

func swiglu(e exponential) {
	sign := constant("sign", 1<<31)
	function("swiglu8", "func(n int, dst, a, b *float32)")
	Doc("swiglu8 sets n elements, a multiple of 8, to (a·sigmoid(a))·b.")
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	nan, x, one := broadcast("nan3", 0x7fc00000), YMM(), YMM()
	each(n, func() {
		VMOVUPS(at(a, 0), x)
		VXORPS(sign, x, x)
		e.of(x)
		VMOVUPS(e.one, one)
		VADDPS(one, x, x)
		VDIVPS(x, one, x)
		VMULPS(at(a, 0), x, x)
		VMULPS(at(b, 0), x, x)
		same(nan, x)
		VMOVUPS(x, at(dst, 0))
	}, dst, a, b)
	finish()
}
