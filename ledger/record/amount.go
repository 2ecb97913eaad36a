package record

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// An Amount is a sum in µcredits (1e-6 credit): never negative, never a float.
type Amount uint64

// Credit is one credit.
const Credit Amount = 1e6

// ParseAmount reads credits with at most six decimals, such as 0.40.
func ParseAmount(s string) (Amount, error) {
	whole, frac, point := strings.Cut(s, ".")
	bad := fmt.Errorf("%q is not an amount: want credits with at most six decimals, such as 0.40", s)
	if len(frac) > 6 || point && frac == "" || whole == "" || strings.ContainsAny(s, "+-_") {
		return 0, bad
	}
	w, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || w > 1e13 {
		return 0, bad
	}
	f, err := strconv.ParseUint(frac+strings.Repeat("0", 6-len(frac)), 10, 64)
	if err != nil {
		return 0, bad
	}
	return Amount(w)*Credit + Amount(f), nil
}

// MulDiv returns a·b/c, rounded down after a product of 128 bits, or the largest number
// where that is too large. It is the one way in which money and work are rounded.
func MulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}

// String returns the amount in credits, with six decimals.
func (a Amount) String() string { return fmt.Sprintf("%d.%06d", a/Credit, a%Credit) }
