package ledger

import (
	"crypto/sha256"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
)

// An edge is the right edge of a Merkle tree: the roots of its largest whole subtrees,
// from the left. It is all of a tree that a new leaf is hashed with, so neither adding
// one nor computing the root reads the store.
type edge []tlog.Hash

// readEdge reads the edge of the tree of size.
func readEdge(size uint64, r tlog.HashReader) (edge, error) {
	var at []int64
	for level := bits.Len64(size) - 1; level >= 0; level-- {
		if n := size >> level; n&1 == 1 {
			at = append(at, tlog.StoredHashIndex(level, int64(n-1)))
		}
	}
	return r.ReadHashes(at)
}

// add appends the leaf with that index, and returns the hashes that it completes, its
// own first: those that tlog stores for it.
func (e *edge) add(index uint64, leaf []byte) []tlog.Hash {
	h := tlog.RecordHash(leaf)
	done := []tlog.Hash{h}
	for ; index&1 == 1; index >>= 1 {
		last := len(*e) - 1
		h = tlog.NodeHash((*e)[last], h)
		*e = (*e)[:last]
		done = append(done, h)
	}
	*e = append(*e, h)
	return done
}

func (e edge) root() record.Ref {
	if len(e) == 0 {
		return sha256.Sum256(nil)
	}
	h := e[len(e)-1]
	for i := len(e) - 2; i >= 0; i-- {
		h = tlog.NodeHash(e[i], h)
	}
	return record.Ref(h)
}
