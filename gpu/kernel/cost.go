package kernel

import (
	"math"
	"math/bits"
)

// A Cost is what a command is metered at, computed from checked shapes. Sums and
// products that leave 64 bits stay at the largest value.
type Cost struct{ FLOP, Bytes uint64 }

// The most that one submitted list may cost, so that no launch holds a device for
// long: milliseconds on a GPU, seconds on a processor.
const (
	MaxFLOP  = 1 << 36
	MaxBytes = 1 << 36
)

// Add returns the sum of both.
func (c Cost) Add(d Cost) Cost { return Cost{sum(c.FLOP, d.FLOP), sum(c.Bytes, d.Bytes)} }

// A Reference is the GPU that work is measured by.
type Reference struct {
	FLOPS     uint64 // binary32 operations per second
	Bandwidth uint64 // bytes per second
}

// Picoseconds returns how long the reference GPU is busy with c: the longer of
// computing and moving, rounded down. A rate of zero counts as endless.
func (r Reference) Picoseconds(c Cost) uint64 {
	return max(picoseconds(c.FLOP, r.FLOPS), picoseconds(c.Bytes, r.Bandwidth))
}

func picoseconds(n, rate uint64) uint64 {
	const second = 1e12
	hi, lo := bits.Mul64(n, second)
	switch {
	case rate == 0:
		return 0
	case hi >= rate:
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, rate)
	return q
}

// Spent is what a run has used of a device.
type Spent struct {
	Work  uint64 // nanoseconds of the reference GPU
	Busy  uint64 // nanoseconds this device was busy, by the clock
	FLOP  uint64
	Bytes uint64
}

// prod and sum stay at the largest value when 64 bits are not enough, which no buffer
// and no limit is.
func prod(x ...uint64) uint64 {
	p := uint64(1)
	for _, v := range x {
		p = mul(p, v)
	}
	return p
}

func sum(x ...uint64) uint64 {
	var s uint64
	for _, v := range x {
		s = add(s, v)
	}
	return s
}

func mul(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	if hi != 0 {
		return math.MaxUint64
	}
	return lo
}

func add(x, y uint64) uint64 {
	s, carry := bits.Add64(x, y, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return s
}
