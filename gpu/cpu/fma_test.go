package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exact computes x·y + z without rounding and rounds once.
func exact(x, y, z float32) float32 {
	bx, by, bz := big.NewFloat(float64(x)), big.NewFloat(float64(y)), big.NewFloat(float64(z))
	p := new(big.Float).SetPrec(1000).Mul(bx, by)
	f, _ := p.Add(p, bz).Float32()
	return f
}

func TestFMARoundsOnce(t *testing.T) {
	// A product that stands a hair above half way between two binary32: binary64
	// loses the hair, and the tie then goes to the even one below.
	x, y, z := float32(1+0x1p-12), float32(1+0x1p-12), float32(0x1p24)
	if f := fma(x, y, z); f != exact(x, y, z) {
		t.Errorf("fma = %x, want %x", f, exact(x, y, z))
	}
	twice := 0
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		x, y, z := near(r), near(r), near(r)
		want := exact(x, y, z)
		if got := fma(x, y, z); got != want {
			t.Fatalf("fma(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
		if float32(math.FMA(float64(x), float64(y), float64(z))) != want {
			twice++
		}
	}
	if twice == 0 {
		t.Error("no case found in which binary64 rounds twice: the test proves nothing")
	}
	t.Logf("%d of 200000 cases round twice in binary64", twice)
}

// near returns numbers with few set bits and exponents that often make ties, also
// below the normal range.
func near(r *rand.Rand) float32 {
	m := 1 + math.Ldexp(float64(r.IntN(4)), -r.IntN(24)) + math.Ldexp(float64(r.IntN(2)), -23)
	e := []int{0, -24, -12, 24, -70, -75, -149, -126}[r.IntN(8)] + r.IntN(3) - 1
	return float32(math.Ldexp(m, e)) * float32(1-2*r.IntN(2))
}

func TestFMASpecial(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tc := range []struct{ x, y, z, want float32 }{
		{inf, 1, 1, inf},
		{inf, 0, 1, nan},
		{1, inf, -inf, nan},
		{nan, 1, 1, nan},
		{math.MaxFloat32, 2, 0, inf},
		{math.MaxFloat32, 1, 0x1p103, inf},
		{math.MaxFloat32, 1, 0x1.fffffep102, math.MaxFloat32},
		{math.SmallestNonzeroFloat32, 0.5, 0, 0},
		{math.SmallestNonzeroFloat32, 0.75, 0, math.SmallestNonzeroFloat32},
	} {
		got := fma(tc.x, tc.y, tc.z)
		if got != tc.want && (got == got || tc.want == tc.want) {
			t.Errorf("fma(%x, %x, %x) = %x, want %x", tc.x, tc.y, tc.z, got, tc.want)
		}
	}
}

func TestElementary(t *testing.T) {
	for name, tc := range map[string]struct {
		f      func(float32) float32
		want   func(float64) float64
		lo, hi float64
		ulps   float64
	}{
		"exp":     {exp, math.Exp, -87, 88, 1.1},
		"sin":     {func(x float32) float32 { s, _ := sincos(float64(x)); return s }, math.Sin, -100, 100, 1.5},
		"cos":     {func(x float32) float32 { _, c := sincos(float64(x)); return c }, math.Cos, -100, 100, 1.5},
		"sigmoid": {sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, -80, 80, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r, worst := rand.New(rand.NewPCG(3, 4)), 0.0
			for range 100_000 {
				x := float32(tc.lo + (tc.hi-tc.lo)*r.Float64())
				got, want := float64(tc.f(x)), tc.want(float64(x))
				ulp := math.Ldexp(1, max(math.Ilogb(want), -20)-23)
				worst = max(worst, math.Abs(got-want)/ulp)
			}
			if worst > tc.ulps {
				t.Errorf("off by %.2f units in the last place, want at most %v", worst, tc.ulps)
			}
		})
	}
}

func TestExpEnds(t *testing.T) {
	inf := float32(math.Inf(1))
	for x, want := range map[float32]float32{-inf: 0, inf: inf, 0: 1, 100: inf, -200: 0, 88.75: inf} {
		if got := exp(x); got != want {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if got, want := float64(exp(-100)), math.Exp(-100); math.Abs(got-want) > 0x1p-149 {
		t.Errorf("exp(-100) = %g, want %g", got, want)
	}
}

// The generators' published test vectors.
func TestPhilox(t *testing.T) {
	all := uint32(math.MaxUint32)
	for _, tc := range []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{all, all, all, all}, [2]uint32{all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(tc.ctr, tc.key); got != tc.want {
			t.Errorf("philox(%x, %x) = %x, want %x", tc.ctr, tc.key, got, tc.want)
		}
	}
}
