package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

const page = 64 << 10

// A memory is a run's linear memory. It lies outside the Go heap where the system
// allows, so that growing it copies nothing and a process at its cap refuses to
// grow instead of dying.
type memory struct {
	limit  uint64 // bytes
	region region
	size   atomic.Uint64
	begun  bool   // the first size was given
	asked  uint64 // the size that was refused, or zero
}

// An initialError is panicked through wazero, which cannot be told that a module's
// first memory is refused.
type initialError struct{ want, limit uint64 }

func (e initialError) Error() string {
	if e.want <= e.limit {
		return fmt.Sprintf("the module starts with %d bytes of memory, which its worker process does not have", e.want)
	}
	return fmt.Sprintf("the module starts with %d bytes of memory, the limit is %d", e.want, e.limit)
}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	m.region = reserve(min(most, m.limit) &^ (page - 1))
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	var b []byte
	if size <= m.limit {
		b = m.region.grow(size)
	}
	switch {
	case b == nil && !m.begun:
		panic(initialError{size, m.limit})
	case b == nil:
		m.asked = size
	default:
		m.begun = true
		m.size.Store(size)
	}
	return b
}

// Free implements experimental.LinearMemory. The run frees its memory itself, once,
// since wazero doesn't after a failed instantiation.
func (m *memory) Free() {}

// held returns the size in bytes; any goroutine may ask.
func (m *memory) held() uint64 { return m.size.Load() }

// refusal says why the memory did not grow.
func (m *memory) refusal() string {
	if m.asked <= m.limit {
		return fmt.Sprintf("the worker process has no memory left to grow the module's to %d bytes", m.asked)
	}
	return fmt.Sprintf("the memory limit of %d bytes was reached", m.limit)
}
