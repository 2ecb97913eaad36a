package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairs are kernels of two operands, element by element.
func pairs() {
	for _, f := range []struct {
		name, doc string
		op        func(ops ...Op)
	}{
		{"add8", "the sum of a and b", VADDPS},
		{"mul8", "the product of a and b", VMULPS},
	} {
		function(f.name, "func(n int, dst, a, b *float32)")
		Doc(f.name + " sets n elements, a multiple of 8, to " + f.doc + ".")
		n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
		a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
		nan, x := broadcast("nan_"+f.name, 0x7fc00000), YMM()
		each(n, func() {
			VMOVUPS(at(a, 0), x)
			f.op(at(b, 0), x, x)
			same(nan, x)
			VMOVUPS(x, at(dst, 0))
		}, dst, a, b)
		finish()
	}
}

// activations are kernels of one operand, element by element.
func activations(e exponential) {
	sign := constant("minus", 1<<31)
	c5, c88 := number("gelu0", 0x1.6e4e26p-5), number("gelu1", 0x1.988454p+0)
	// sigmoid replaces x by 1/(1 + exp(-x)).
	sigmoid := func(x reg.VecVirtual) {
		one := YMM()
		VXORPS(sign, x, x)
		e.of(x)
		VMOVUPS(e.one, one)
		VADDPS(one, x, x)
		VDIVPS(x, one, x)
	}
	for _, f := range []struct {
		name, doc string
		body      func(x, v reg.VecVirtual) // v is a copy of x
	}{
		{"relu8", "v > 0 ? v : 0", func(x, v reg.VecVirtual) {
			zero := YMM()
			VXORPS(zero, zero, zero)
			VMAXPS(v, zero, x) // the second source, v, where one is no number
		}},
		{"silu8", "v·sigmoid(v)", func(x, v reg.VecVirtual) {
			sigmoid(x)
			VMULPS(v, x, x)
		}},
		{"gelu8", "v·sigmoid(u) of the kernel table", func(x, v reg.VecVirtual) {
			t := YMM()
			VMULPS(c5, v, t)
			VMULPS(v, v, x)
			VFMADD213PS(v, x, t)
			VMULPS(c88, t, x)
			sigmoid(x)
			VMULPS(v, x, x)
		}},
		{"sigmoid8", "sigmoid(v)", func(x, _ reg.VecVirtual) { sigmoid(x) }},
		{"expo8", "exp(v)", func(x, _ reg.VecVirtual) { e.of(x) }},
	} {
		function(f.name, "func(n int, dst, a *float32)")
		Doc(f.name + " sets n elements, a multiple of 8, to " + f.doc + ", v being those of a.")
		n, dst, a := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("a"), GP64())
		nan, x, v := broadcast("nan_"+f.name, 0x7fc00000), YMM(), YMM()
		each(n, func() {
			VMOVUPS(at(a, 0), v)
			VMOVUPS(v, x)
			f.body(x, v)
			same(nan, x)
			VMOVUPS(x, at(dst, 0))
		}, dst, a)
		finish()
	}
}
