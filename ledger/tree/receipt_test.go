package tree_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/veraison/go-cose"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// single returns a mesh of one keeper, key 1.
func single(name string) record.Signed[record.Mesh] {
	return must(record.Sign(newKey(1), record.Mesh{Name: name, Quorum: 1,
		Keepers: []record.Member{{Key: record.PublicKey(newKey(1).Public().(ed25519.PublicKey))}}}))
}

func TestReceipt(t *testing.T) {
	m, l := single("a"), newLog(20)
	for size := 1; size <= 20; size++ {
		head := l.head(m, size, 1)
		for index := range size {
			b := must(tree.SignReceipt(newKey(1), m, l.proof(head, index)))
			got, err := tree.CheckReceipt(b, m)
			if err != nil || got.Index != uint64(index) || got.Head.Root != head.Root || got.Head.Size != uint64(size) || got.Entry.Value.Seq != uint64(index) {
				t.Fatalf("%d of %d: %+v, %v", index, size, got, err)
			}
			oracle(t, b, head.Root)
			byHand(t, b, head.Root)
		}
	}
}

// oracle has go-cose check the signature over the root.
func oracle(t *testing.T, b []byte, root record.Ref) {
	t.Helper()
	var msg cose.Sign1Message
	if err := msg.UnmarshalCBOR(b); err != nil {
		t.Fatal(err)
	}
	if msg.Payload != nil {
		t.Fatal("the payload is not left out")
	}
	if vds, ok := msg.Headers.Protected[int64(395)]; !ok || vds != int64(1) {
		t.Fatalf("vds %v", vds)
	}
	msg.Payload = root[:]
	if err := msg.Verify(nil, ed25519Verifier(newKey(1).Public().(ed25519.PublicKey))); err != nil {
		t.Fatal(err)
	}
}

// An ed25519Verifier gives go-cose the algorithm -19, which it does not know yet.
type ed25519Verifier ed25519.PublicKey

func (ed25519Verifier) Algorithm() cose.Algorithm { return -19 }

func (v ed25519Verifier) Verify(content, sig []byte) error {
	if !ed25519.Verify(ed25519.PublicKey(v), content, sig) {
		return cose.ErrVerification
	}
	return nil
}

// A reader reads just enough CBOR for a receipt, and is no code of ours that writes it.
type reader struct{ b []byte }

func (r *reader) head() (major byte, n int) {
	major, n = r.b[0]>>5, int(r.b[0]&31)
	r.b = r.b[1:]
	for size := map[int]int{24: 1, 25: 2, 26: 4}[n]; size > 0; size-- {
		if n >= 24 && n <= 26 {
			n = 0
		}
		n, r.b = n<<8|int(r.b[0]), r.b[1:]
	}
	return major, n
}

func (r *reader) bytes() []byte {
	_, n := r.head()
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// byHand finds the leaf and the path in a receipt and computes the root as RFC 9162
// says.
func byHand(t *testing.T, b []byte, root record.Ref) {
	t.Helper()
	r := &reader{b}
	if tag, n := r.head(); tag != 6 || n != 18 {
		t.Fatalf("tag %d %d", tag, n)
	}
	r.head() // array of 4
	protected := r.bytes()
	r.head() // map of 2
	r.head() // 396
	r.head() // map of 1
	r.head() // -1
	r.head() // array of 1
	p := &reader{r.bytes()}
	if major, n := r.head(); major != 1 || n != 65536 { // -65537
		t.Fatalf("label %d %d", major, n)
	}
	leaf := r.bytes()
	if nothing, n := r.head(); nothing != 7 || n != 22 {
		t.Fatal("the payload is not null")
	}
	sig := r.bytes()
	p.head() // array of 3
	_, size := p.head()
	_, at := p.head()
	_, steps := p.head()
	h, last := sha256.Sum256(append([]byte{0}, leaf...)), size-1
	for range steps {
		sibling := p.bytes()
		if at%2 == 1 || at == last {
			h = sha256.Sum256(append(append([]byte{1}, sibling...), h[:]...))
			for at%2 == 0 && at != 0 {
				at, last = at/2, last/2
			}
		} else {
			h = sha256.Sum256(append(append([]byte{1}, h[:]...), sibling...))
		}
		at, last = at/2, last/2
	}
	if last != 0 || h != root {
		t.Fatalf("leads to %x, want %x", h, root)
	}
	msg := append(append([]byte{0x84, 0x6a}, "Signature1"...), 0x58, byte(len(protected)))
	msg = append(append(append(msg, protected...), 0x40, 0x58, 32), h[:]...)
	if !ed25519.Verify(newKey(1).Public().(ed25519.PublicKey), msg, sig) {
		t.Fatal("the signature does not verify")
	}
}

func TestReceiptRefused(t *testing.T) {
	m, l := single("a"), newLog(9)
	good := must(tree.SignReceipt(newKey(1), m, l.proof(l.head(m, 9, 1), 4)))
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		if _, err := tree.CheckReceipt(bad, m); !errors.Is(err, tree.ErrHead) && !errors.Is(err, tree.ErrProof) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
	}
	for name, tc := range map[string]struct {
		receipt []byte
		mesh    record.Signed[record.Mesh]
	}{
		"another mesh":    {good, single("b")},
		"a quorum of two": {good, mesh("a")},
		"a stranger":      {must(tree.SignReceipt(newKey(9), m, l.proof(l.head(m, 9, 9), 4))), m},
		"a proof":         {must(l.proof(l.head(m, 9, 1), 4).MarshalText()), m},
		"cut":             {good[:len(good)-1], m},
		"longer":          {append(bytes.Clone(good), 0), m},
		"empty":           {nil, m},
	} {
		if _, err := tree.CheckReceipt(tc.receipt, tc.mesh); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzReceipt(f *testing.F) {
	m, l := single("a"), newLog(9)
	f.Add(must(tree.SignReceipt(newKey(1), m, l.proof(l.head(m, 9, 1), 4))))
	f.Add(must(tree.SignReceipt(newKey(1), m, l.proof(l.head(m, 1, 1), 0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := tree.CheckReceipt(b, m); err == nil && got.Entry.Value.Seq != got.Index {
			t.Fatalf("proved an entry that is not there: %+v", got)
		}
	})
}
