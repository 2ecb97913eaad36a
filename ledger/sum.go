package ledger

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// A sum stands for a set of keys and values in any order: the sum of a keyed hash of
// each. The key is drawn after the store was written and told nobody, so whoever wrote
// the store could not choose values whose sums cancel out.
type sum struct {
	total [4]uint64
	key   [sha256.Size]byte
	buf   []byte
}

func newSum() *sum {
	s := &sum{}
	rand.Read(s.key[:])
	return s
}

// fresh returns an empty sum that can be compared with s.
func (s *sum) fresh() *sum { return &sum{key: s.key} }

func (s *sum) add(k, v []byte) {
	s.buf = append(s.buf[:0], s.key[:]...)
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(len(k)))
	s.buf = append(append(s.buf, k...), v...)
	h := sha256.Sum256(s.buf)
	for i := range s.total {
		s.total[i] += binary.BigEndian.Uint64(h[8*i:])
	}
}
