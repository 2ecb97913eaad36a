package cpu

import "math"

// exp is e^x as kernel.Table defines it, step by step, so that every processor
// agrees: math.Exp differs between architectures.
func exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 89:
		return float32(math.Inf(1))
	case x < -104:
		return 0
	}
	n := float32(math.RoundToEven(float64(x * 0x1.715476p+0)))
	r := fma(n, -0x1.62e4p-1, x)
	r = fma(n, -0x1.7f7d1cp-20, r)
	p := float32(0x1.694p-10)
	p = fma(p, r, 0x1.125edcp-7)
	p = fma(p, r, 0x1.555b5ap-5)
	p = fma(p, r, 0x1.55545p-3)
	p = fma(p, r, 0x1.fffff6p-2)
	p = fma(p, r, 1)
	p = fma(p, r, 1)
	i := int(n)
	return float32(float32(p*pow2(i>>1)) * pow2(i-(i>>1)))
}

// pow2 returns 2^n for n from -126 to 127.
func pow2(n int) float32 { return math.Float32frombits(uint32(n+127) << 23) }

func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

func silu(x float32) float32 { return float32(x * sigmoid(x)) }

func gelu(x float32) float32 {
	u := float32(0x1.6e4e26p-5 * x)
	u = float32(0x1.988454p+0 * fma(u, float32(x*x), x))
	return float32(x * sigmoid(u))
}

// sincos returns sine and cosine of a as kernel.Table defines them.
func sincos(a float64) (sin, cos float32) {
	if !(math.Abs(a) <= 1<<20) {
		nan := float32(math.NaN())
		return nan, nan
	}
	q := math.RoundToEven(float64(a * 0.6366197723675814))
	r := float32(float64(a-float64(q*0x1.921fb544p+0)) - float64(q*0x1.0b4611a626331p-34))
	s := float32(r * r)
	p := float32(0x1.80ap-19)
	p = fma(p, s, -0x1.a0690cp-13)
	p = fma(p, s, 0x1.111182p-7)
	p = fma(p, s, -0x1.555556p-3)
	sn := fma(float32(p*s), r, r)
	c := float32(0x1.9a8p-16)
	c = fma(c, s, -0x1.6c0efap-10)
	c = fma(c, s, 0x1.55555p-5)
	c = fma(c, s, -0.5)
	c = fma(c, s, 1)
	switch int(q) & 3 {
	case 1:
		return c, -sn
	case 2:
		return -sn, -c
	case 3:
		return -c, sn
	}
	return sn, c
}

// log, tanh and erf are those of kernel.Table.
func log(x float32) float32 {
	switch {
	case x != x || x < 0:
		return float32(math.NaN())
	case x == 0:
		return float32(math.Inf(-1))
	case math.IsInf(float64(x), 1):
		return x
	}
	e := float32(0)
	if x < 0x1p-126 {
		x, e = x*0x1p23, -23
	}
	b := math.Float32bits(x)
	shift := (b - 0x3f3504f3) &^ (1<<23 - 1)
	e += float32(int32(shift) >> 23)
	z := math.Float32frombits(b-shift) - 1
	s := float32(z * z)
	p := float32(0x1.204376p-4)
	for _, c := range [...]float32{-0x1.d7a37p-4, 0x1.de4a34p-4, -0x1.fcba9ep-4, 0x1.23d37ep-3, -0x1.555cap-3, 0x1.999d58p-3, -0x1.fffff8p-3, 0x1.555554p-2} {
		p = fma(p, z, c)
	}
	y := float32(float32(p*z) * s)
	y = fma(e, -0x1.bd0106p-13, y)
	y = fma(-0.5, s, y)
	return fma(e, 0x1.63p-1, z+y)
}

func tanh(x float32) float32 {
	a := float32(math.Abs(float64(x)))
	if a < 0.625 {
		s := float32(x * x)
		p := float32(-0x1.75e1d4p-8)
		for _, c := range [...]float32{0x1.52269cp-6, -0x1.b83c5ap-5, 0x1.110726p-3, -0x1.555532p-2} {
			p = fma(p, s, c)
		}
		return fma(float32(p*s), x, x)
	}
	return float32(math.Copysign(float64(1-2/(exp(2*a)+1)), float64(x)))
}

func erf(x float32) float32 {
	a := float32(math.Abs(float64(x)))
	t := 1 / fma(0x1.4f740ap-2, a, 1)
	p := float32(0x1.0fb844p+0)
	for _, c := range [...]float32{-0x1.7401c6p+0, 0x1.6be1c6p+0, -0x1.23531cp-2, 0x1.04f20cp-2} {
		p = fma(p, t, c)
	}
	y := 1 - float32(float32(p*t)*exp(-float32(x*x)))
	return float32(math.Copysign(float64(y), float64(x)))
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// lanes is the width of a lane sum.
const lanes = 16

// dot is the lane sum of a[i]·b[i].
func dot(a, b []float32) float32 {
	var s [lanes]float32
	b = b[:len(a)]
	for len(a) >= lanes {
		x, y := (*[lanes]float32)(a), (*[lanes]float32)(b)
		for j := range s {
			s[j] = fma(x[j], y[j], s[j])
		}
		a, b = a[lanes:], b[lanes:]
	}
	for j := range a {
		s[j] = fma(a[j], b[j], s[j])
	}
	return fold(&s)
}

// total is the lane sum of a.
func total(a []float32) float32 {
	var s [lanes]float32
	for i, v := range a {
		s[i%lanes] += v
	}
	return fold(&s)
}

func fold(s *[lanes]float32) float32 {
	for w := lanes / 2; w > 0; w /= 2 {
		for j := range w {
			s[j] += s[j+w]
		}
	}
	return s[0]
}
