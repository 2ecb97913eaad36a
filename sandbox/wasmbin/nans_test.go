package wasmbin

import (
	"strings"
	"testing"
)

// Constants: a NaN with more in it than canonical ones have, and infinity.
const (
	odd64 = "\x44\x01\x00\x00\x00\x00\x00\xfc\xff"
	inf64 = "\x44\x00\x00\x00\x00\x00\x00\xf0\x7f"
	odd32 = "\x43\x01\x00\xe0\xff"
	inf32 = "\x43\x00\x00\x80\x7f"
)

// TestNaNs runs functions that leave a float at address 0, and looks at its bits. Each
// makes its NaN in a way that processors differ in, or none.
func TestNaNs(t *testing.T) {
	const (
		canon = "7ff8000000000000"
		odd   = "fffc000000000001"
		six   = "7fc00000"
	)
	store, store32 := "\x39\x03\x00", "\x38\x02\x00"
	zero := "\x41\x00"
	made := inf64 + inf64 + "\xa1" // inf - inf
	f64s := "\x02\x02\x7c\x01\x7f" // two f64s, 0 and 1, and an i32
	loop3 := func(code string) string {
		return "\x03\x40" + code + "\x20\x02\x41\x01\x6a\x22\x02\x41\x03\x49\x0d\x00\x0b"
	}
	for what, tc := range map[string]struct{ code, want string }{
		"stored":                 {"\x00" + zero + made + store, canon},
		"of an odd one":          {"\x00" + zero + odd64 + inf64 + "\xa0" + store, canon},
		"odd, left alone":        {"\x00" + zero + odd64 + store, odd},
		"through a local":        {f64s + made + "\x21\x00" + zero + "\x20\x00" + store, canon},
		"odd, through a local":   {f64s + odd64 + "\x21\x00" + zero + "\x20\x00" + store, odd},
		"odd, after arithmetic":  {f64s + made + "\x21\x00" + odd64 + "\x21\x00" + zero + "\x20\x00" + store, odd},
		"summed up":              {f64s + loop3("\x20\x00"+made+"\xa0\x21\x00") + zero + "\x20\x00" + store, canon},
		"odd, in a sum's local":  {f64s + loop3("\x20\x00"+made+"\xa0\x21\x00"+odd64+"\x21\x00") + zero + "\x20\x00" + store, odd},
		"from local to local":    {f64s + made + "\x21\x00\x20\x00\x21\x01" + zero + "\x20\x01" + store, canon},
		"teed":                   {f64s + zero + made + "\x22\x00" + store, canon},
		"reinterpreted":          {"\x00" + zero + made + "\xbd\x37\x03\x00", canon},
		"its sign":               {"\x00" + zero + "\x44\x00\x00\x00\x00\x00\x00\xf0\x3f" + made + "\xa6" + store, "3ff0000000000000"},
		"negated":                {"\x00" + zero + made + "\x9a" + store, "fff8000000000000"},
		"odd, negated":           {"\x00" + zero + odd64 + "\x9a" + store, "7ffc000000000001"},
		"of a root":              {"\x00" + zero + inf64 + "\x9a\x9f" + store, canon},
		"of a minimum":           {"\x00" + zero + odd64 + inf64 + "\xa4" + store, canon},
		"rounded":                {"\x00" + zero + odd64 + "\x9e" + store, canon},
		"promoted":               {"\x00" + zero + odd32 + "\xbb" + store, canon},
		"demoted":                {"\x00" + zero + odd64 + "\xb6" + store32, six},
		"chosen":                 {"\x00" + zero + made + inf64 + "\x41\x01\x1b" + store, canon},
		"out of a block":         {"\x00" + zero + "\x02\x7c" + made + "\x0b" + store, canon},
		"out by a branch":        {"\x00" + zero + "\x02\x7c" + made + "\x0c\x00\x0b" + store, canon},
		"out by a branch taken":  {"\x00" + zero + "\x02\x7c" + made + "\x41\x01\x0d\x00\x0b" + store, canon},
		"out by a table":         {"\x00" + zero + "\x02\x7c" + made + "\x41\x00\x0e\x00\x00\x0b" + store, canon},
		"into a block":           {"\x00" + zero + made + "\x02\x02\x0b" + store, canon},
		"out of an if":           {"\x00" + zero + "\x41\x01\x04\x7c" + made + "\x05" + inf64 + "\x0b" + store, canon},
		"in a global":            {"\x00" + made + "\x24\x01" + zero + "\x23\x01" + store, canon},
		"through a call":         {"\x00" + zero + made + "\x10\x02" + store, canon},
		"f32":                    {"\x00" + zero + inf32 + inf32 + "\x93" + store32, six},
		"f32, of an odd one":     {"\x00" + zero + odd32 + inf32 + "\x92" + store32, six},
		"f32x4":                  {"\x00" + zero + inf32 + "\xfd\x13" + inf32 + "\xfd\x13\xfd\xe5\x01\xfd\x0b\x04\x00", six},
		"f64x2":                  {"\x00" + zero + inf64 + "\xfd\x14" + inf64 + "\xfd\x14\xfd\xf1\x01\xfd\x0b\x04\x00", canon},
		"f64x2, seen as f32x4":   {"\x00" + zero + inf64 + "\xfd\x14" + inf64 + "\xfd\x14\xfd\xf1\x01\xfd\xe1\x01\xfd\x0b\x04\x00", "fff8000080000000"},
		"a vector made of one":   {"\x00" + zero + made + "\xfd\x14\xfd\x0b\x04\x00", canon},
		"odd, in a vector":       {"\x00" + zero + odd64 + "\xfd\x14\xfd\x0b\x04\x00", odd},
		"no NaN":                 {"\x00" + zero + inf64 + inf64 + "\xa0" + store, "7ff0000000000000"},
		"code never reached":     {"\x00" + zero + made + store + "\x02\x40\x0c\x00\xa0\x1a\x0b", canon},
		"dropped, then compared": {"\x00" + made + "\x1a" + zero + made + inf64 + "\x63\xb8" + store, "0000000000000000"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, interpreter := range []bool{false, true} {
				if got := low(newBench(t, interpreter).memory(t, rewrite(t, floating(tc.code)))); !strings.HasSuffix(got, tc.want) {
					t.Errorf("interpreter %v: %s, want %s", interpreter, got, tc.want)
				}
			}
		})
	}
}

// floating is a module whose _start has that code; function 2 returns its f64, and the
// global 1 holds one. Type 2 is f64 → f64.
func floating(code string) []byte {
	body := cat(code, "\x0b")
	return file(sec(1, 3, "\x60\x00\x00", "\x60\x01\x7f\x01\x7f", "\x60\x01\x7c\x01\x7c"), sec(3, "\x03\x00\x01\x02"), sec(5, "\x01\x00\x01"),
		sec(6, 2, "\x7f\x01\x41\x00\x0b", "\x7c\x01\x44", make([]byte, 8), "\x0b"), sec(7, 2, name("_start"), "\x00\x00", name("memory"), "\x02\x00"),
		sec(10, 3, len(body), body, "\x04\x00\x20\x00\x0b", "\x04\x00\x20\x00\x0b"))
}
