package ledger

import (
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
)

type hashes []tlog.Hash

func (h hashes) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, n := range at {
		if n >= int64(len(h)) {
			return nil, fmt.Errorf("hash %d of %d", n, len(h))
		}
		out[i] = h[n]
	}
	return out, nil
}

// TestEdge holds the edge to tlog's own arithmetic at each size.
func TestEdge(t *testing.T) {
	var stored hashes
	var e edge
	for i := range 300 {
		if root, err := tlog.TreeHash(int64(i), stored); err != nil || record.Ref(root) != e.root() {
			t.Fatalf("size %d: root %v, want %v, %v", i, e.root(), root, err)
		}
		if again, err := readEdge(uint64(i), stored); err != nil || again.root() != e.root() || len(again) != len(e) {
			t.Fatalf("size %d: read %v, %v; want %v", i, again, err, e)
		}
		leaf := fmt.Append(nil, "leaf ", i)
		want, err := tlog.StoredHashes(int64(i), leaf, stored)
		if err != nil {
			t.Fatal(err)
		}
		got := e.add(uint64(i), leaf)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("leaf %d completes %v, want %v", i, got, want)
		}
		stored = append(stored, got...)
	}
}
