package record

import (
	"bytes"
	"testing"
)

// TestBytes holds the byte strings written and read by hand to those of the encoder, at
// each length where the form changes.
func TestBytes(t *testing.T) {
	for _, n := range []int{0, 1, 23, 24, 255, 256, 65_535, 65_536, 70_000} {
		want, err := Encode(make([]byte, n))
		if err != nil {
			t.Fatal(err)
		}
		got := appendBytes(nil, make([]byte, n))
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %x…, want %x…", n, got[:5], want[:5])
		}
		s, rest, ok := cutBytes(append(got, 1, 2))
		if !ok || len(s) != n || len(rest) != 2 {
			t.Errorf("%d bytes are read as %d, %v", n, len(s), ok)
		}
		for cut := range min(n, 10) {
			if _, _, ok := cutBytes(got[:cut]); ok {
				t.Errorf("%d of %d bytes are read", cut, len(got))
			}
		}
	}
	for _, long := range [][]byte{{0x58, 1, 0}, {0x58, 23}, {0x59, 0, 200}, {0x5a, 0, 0, 1, 0}, {0x5b, 0, 0, 0, 0, 0, 0, 0, 1, 0}, {0x5f, 0xff}, {0x60}, {}} {
		if _, _, ok := cutBytes(append(long, make([]byte, 300)...)[:min(len(long)*200, len(long)+300)]); ok {
			t.Errorf("%x is read", long)
		}
	}
}

// FuzzEnvelope holds the reader by hand to the strict decoder: it takes nothing that the
// decoder refuses, reads the same, and leaves to it nothing that Sign writes.
func FuzzEnvelope(f *testing.F) {
	for _, raw := range allKinds(f) {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		typ := Entry{}.Type()
		e, key, ok := openEnvelope(b, typ)
		want, wantKey, err := reject(b, typ)
		if ok != (err == nil && len(wantKey) == 32) {
			t.Fatalf("by hand %v, decoded %v", ok, err)
		}
		if !ok {
			return
		}
		if !bytes.Equal(key, wantKey) || !bytes.Equal(e.Payload, want.Payload) || !bytes.Equal(e.Protected, want.Protected) || !bytes.Equal(e.Signature, want.Signature) {
			t.Fatalf("by hand %x, decoded %x", e, want)
		}
		if !bytes.Equal(e.raw(), b) {
			t.Fatalf("written as %x", e.raw())
		}
		long, err := Encode([]any{"Signature1", e.Protected, []byte{}, e.Payload})
		if err != nil || !bytes.Equal(e.message(), long) {
			t.Fatalf("signed is %x, want %x, %v", e.message(), long, err)
		}
	})
}
