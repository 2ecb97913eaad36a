package engine

import "golang.org/x/sys/unix"

// A region is address space of which the first part is memory. Reserved pages count
// against no limit, RLIMIT_DATA included, until they are made writable.
type region []byte

func reserve(n uint64) region {
	if n == 0 {
		return region{}
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	return b
}

// grow returns the first n bytes, or nil where the system has no more.
func (r region) grow(n uint64) []byte {
	if n > uint64(len(r)) || r == nil {
		return nil
	}
	if n > 0 && unix.Mprotect(r[:n], unix.PROT_READ|unix.PROT_WRITE) != nil {
		return nil
	}
	return r[:n:n]
}

func (r region) free() {
	if len(r) > 0 {
		_ = unix.Munmap(r) // it was mapped whole, so this cannot fail
	}
}
