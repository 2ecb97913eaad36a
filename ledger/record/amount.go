package record

import (
	"fmt"
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

// String returns the amount in credits, with six decimals.
func (a Amount) String() string { return fmt.Sprintf("%d.%06d", a/Credit, a%Credit) }
