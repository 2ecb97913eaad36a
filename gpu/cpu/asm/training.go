package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func adamw() {
	names := []string{"rate", "b1", "rest1", "b2", "rest2", "eps", "c1", "c2", "shrink"}
	function("adamw8", "func(n int, w, grad, m, v *float32, rate, b1, rest1, b2, rest2, eps, c1, c2, shrink float32)")
	Doc("adamw8 does the steps of adamw for n elements, a multiple of 8; rate and shrink have", "their signs turned.")
	n, w, g := Load(Param("n"), GP64()), Load(Param("w"), GP64()), Load(Param("grad"), GP64())
	m, v := Load(Param("m"), GP64()), Load(Param("v"), GP64())
	p := map[string]reg.VecVirtual{}
	for _, name := range names {
		p[name] = scalar(name)
	}
	nan := broadcast("nan_adamw", 0x7fc00000)
	x, y, z, mask := YMM(), YMM(), YMM(), YMM()
	keep := func(r reg.VecVirtual, to reg.Register) {
		VCMPPS(Imm(3), r, r, mask)
		VBLENDVPS(mask, nan, r, r)
		VMOVUPS(r, at(to, 0))
	}
	each(n, func() {
		VMOVUPS(at(g, 0), z)
		VMULPS(z, p["rest1"], x)
		VMOVUPS(at(m, 0), y)
		VFMADD231PS(y, p["b1"], x)
		keep(x, m)
		VMULPS(z, z, z)
		VMULPS(z, p["rest2"], y)
		VMOVUPS(at(v, 0), z)
		VFMADD231PS(z, p["b2"], y)
		keep(y, v)
		VDIVPS(p["c1"], x, x)
		VDIVPS(p["c2"], y, y)
		VSQRTPS(y, y)
		VADDPS(p["eps"], y, y)
		VDIVPS(y, x, x)
		VMOVUPS(at(w, 0), y)
		VMOVAPS(y, z)
		VFMADD231PS(z, p["shrink"], y)
		VFMADD231PS(x, p["rate"], y)
		keep(y, w)
	}, w, g, m, v)
	finish()
}
