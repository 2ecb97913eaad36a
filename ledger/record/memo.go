package record

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
)

// seen remembers signed bytes whose signature this process has made or verified: a job,
// its bid, lease and receipt pass through several rooms, and verifying is the dearest
// step of each. It is package state, but it changes no answer: a hash stands for
// exactly the bytes that were verified. It is bounded, and safe for concurrent use.
// An audit does not use it.
var seen memo

type memo [1 << 12]atomic.Pointer[Ref]

func (m *memo) has(raw Raw) bool {
	h := Ref(sha256.Sum256(raw))
	p := m.slot(h).Load()
	return p != nil && *p == h
}

func (m *memo) add(raw Raw) {
	h := Ref(sha256.Sum256(raw))
	m.slot(h).Store(&h)
}

func (m *memo) slot(h Ref) *atomic.Pointer[Ref] {
	return &m[binary.LittleEndian.Uint16(h[:])%uint16(len(m))]
}
