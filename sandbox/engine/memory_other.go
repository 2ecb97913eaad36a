//go:build !linux

package engine

// A region is memory of the Go heap that may grow to max bytes.
type region struct {
	buf *[]byte
	max uint64
}

func reserve(n uint64) region { return region{new([]byte), n} }

// grow returns the first n bytes, or nil where they would be too many.
func (r region) grow(n uint64) []byte {
	if r.buf == nil || n > r.max {
		return nil
	}
	if n > uint64(cap(*r.buf)) {
		b := make([]byte, n, min(r.max, max(n, 2*uint64(cap(*r.buf)))))
		copy(b, *r.buf)
		*r.buf = b
	}
	*r.buf = (*r.buf)[:n]
	return (*r.buf)[:n:n]
}

func (r region) free() {}
