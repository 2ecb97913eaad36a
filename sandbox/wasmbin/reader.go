package wasmbin

import "fmt"

// A reader reads b[at:end]. Its first error sticks: from then on it reads zeros
// and has nothing left, so callers check err once a loop and not once a byte.
type reader struct {
	b       []byte
	at, end int
	section string
	err     *FormatError
}

func (r *reader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{Section: r.section, Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
	r.end = r.at
}

func (r *reader) left() int { return r.end - r.at }

func (r *reader) u8() byte {
	if r.at >= r.end {
		r.fail(r.at, "ends too early; the file may be truncated")
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// u32 reads an unsigned LEB128 number as the specification has it: at most five
// bytes, and no bits beyond the 32nd.
func (r *reader) u32() uint32 {
	if r.at < r.end && r.b[r.at] < 0x80 {
		r.at++
		return uint32(r.b[r.at-1])
	}
	return r.longU32()
}

func (r *reader) longU32() uint32 {
	start, v := r.at, uint32(0)
	for shift := 0; ; shift += 7 {
		c := r.u8()
		if shift == 28 && c > 0x0f {
			r.fail(start, "number longer than 32 bits")
			return 0
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
}

// signed reads a signed LEB128 number of that many bits.
func (r *reader) signed(bits int) int64 {
	start, v := r.at, int64(0)
	for shift := 0; ; shift += 7 {
		c := r.u8()
		if rest := bits - shift; rest < 7 {
			// The last byte's unused bits repeat the sign.
			if sign := int8(c<<1) >> rest; c >= 0x80 || sign != 0 && sign != -1 {
				r.fail(start, "number longer than %d bits", bits)
				return 0
			}
		}
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if shift += 7; shift < 64 && c&0x40 != 0 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// bytes returns the next n bytes without copying them.
func (r *reader) bytes(n uint32, what string) []byte {
	if int64(n) > int64(r.left()) {
		r.fail(r.at, "%s of %d bytes, but %d are left", what, n, r.left())
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

// count reads how many things of at least size bytes each follow.
func (r *reader) count(what string, most, size int) int {
	start := r.at
	n := int64(r.u32())
	switch {
	case n > int64(most):
		r.fail(start, "%d %s; at most %d are accepted", n, what, most)
	case n*int64(size) > int64(r.left()):
		r.fail(start, "%d %s cannot fit in the %d bytes left", n, what, r.left())
	default:
		return int(n)
	}
	return 0
}

// index reads an index into a space of n things.
func (r *reader) index(what string, n int) uint32 {
	start := r.at
	x := r.u32()
	if int64(x) >= int64(n) {
		r.fail(start, "%s %d does not exist; there are %d", what, x, n)
		return 0
	}
	return x
}

// open narrows r to its next n bytes and returns the end to give to close.
func (r *reader) open(n uint32, what string) (end int) {
	if int64(n) > int64(r.left()) {
		r.fail(r.at, "%s of %d bytes, but %d are left; the file may be truncated", what, n, r.left())
	}
	end = r.end
	if r.err == nil {
		r.end = r.at + int(n)
	}
	return end
}

func (r *reader) close(end int, what string) {
	if r.err == nil && r.left() > 0 {
		r.fail(r.at, "%d bytes too many in the %s", r.left(), what)
	}
	if r.err == nil {
		r.end = end
	}
}
