package identity

import (
	"bytes"
	"testing"

	"idlemesh/ledger/record"
)

func TestCacheIsBounded(t *testing.T) {
	c := newCache[int, int](3)
	for i := range 10 {
		c.put(i, i)
		c.get(0) // used last, so it stays
	}
	for k, want := range map[int]bool{0: true, 9: true, 8: true, 7: false, 1: false} {
		if _, ok := c.get(k); ok != want {
			t.Errorf("%d in the cache = %v, want %v", k, ok, want)
		}
	}
	if len(c.items) != 3 || c.order.Len() != 3 {
		t.Errorf("%d items, %d in order, want 3", len(c.items), c.order.Len())
	}
}

func TestSessionEndsWithItsUses(t *testing.T) {
	k, err := New()
	if err != nil {
		t.Fatal(err)
	}
	s := NewSealer()
	to := []record.PublicKey{k.PublicKey()}
	first, err := s.session(to)
	if err != nil {
		t.Fatal(err)
	}
	first.left = 1
	last, err := s.session(to)
	if err != nil || last != first {
		t.Fatalf("session = %p, %v; want the first, %p", last, err, first)
	}
	next, err := s.session(to)
	if err != nil || bytes.Equal(next.wrap, first.wrap) {
		t.Errorf("a spent session goes on: %v", err)
	}
}
