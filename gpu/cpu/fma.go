package cpu

import "math"

// tiny is, by its bits, the smallest binary64 that is a normal binary32.
const tiny = uint64(1023-126) << 52

// fma returns x·y + z rounded once to binary32, as the hardware's fused
// multiply-add does and as the kernel table demands of every processor.
//
// The product of two binary32 is exact in binary64, so only the sum rounds, and
// then the conversion rounds again. That differs from one rounding only if the sum
// lies exactly half way between two binary32: then (and below the normal range,
// where half ways are elsewhere) odd finds the right one.
func fma(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	t := p + float64(z)
	if doubtful(t) {
		return odd(p, float64(z))
	}
	return float32(t)
}

// doubtful says whether rounding t to binary32 might round a second time.
func doubtful(t float64) bool {
	b := math.Float64bits(t)
	return uint32(b)<<3 == 1<<31 || b<<1-1 < tiny<<1-1
}

// odd rounds p + z once to binary32. It cuts the sum off and sets its last bit if
// something was cut, so that the last rounding sees no half way that is none.
//
//go:noinline
func odd(p, z float64) float32 {
	s := p + z
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return float32(s)
	}
	// The exact error of the sum, by Knuth.
	q := s - p
	e := (p - (s - q)) + (z - q)
	b := math.Float64bits(s)
	if e != 0 && b&1 == 0 {
		if (e > 0) == (s > 0) {
			b++
		} else {
			b--
		}
	}
	return float32(math.Float64frombits(b))
}

// canon returns v, or the one NaN that kernels store.
func canon(v float32) float32 {
	if v != v {
		return math.Float32frombits(0x7fc00000)
	}
	return v
}
