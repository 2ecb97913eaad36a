package identity_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
)

func party(t testing.TB) (identity.Key, *identity.Opener) {
	t.Helper()
	k, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	o, err := identity.NewOpener(k)
	if err != nil {
		t.Fatal(err)
	}
	return k, o
}

func TestSeal(t *testing.T) {
	a, openA := party(t)
	b, openB := party(t)
	_, openC := party(t)
	s := identity.NewSealer()
	doc := []byte("weights and measures")
	sealed, err := s.Seal(doc, "job", a.PublicKey(), b.PublicKey(), a.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		by      *identity.Opener
		context string
		err     error
	}{
		"first recipient":  {openA, "job", nil},
		"second recipient": {openB, "job", nil},
		"third party":      {openC, "job", identity.ErrSealed},
		"other context":    {openA, "bid", identity.ErrSealed},
		"empty context":    {openA, "", identity.ErrSealed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.by.Open(sealed, tc.context)
			if !errors.Is(err, tc.err) || tc.err == nil && !bytes.Equal(got, doc) {
				t.Errorf("Open = %q, %v; want %v", got, err, tc.err)
			}
		})
	}
	// A session of one set must not open for another: same sealer, fewer recipients.
	alone, err := s.Seal(doc, "job", a.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openB.Open(alone, "job"); !errors.Is(err, identity.ErrSealed) {
		t.Errorf("who is no longer a recipient: Open = %v", err)
	}
}

func TestSealRefusesEveryFlippedBit(t *testing.T) {
	k, warm := party(t)
	sealed, err := identity.NewSealer().Seal([]byte("0123456789"), "c", k.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := warm.Open(sealed, "c"); err != nil {
		t.Fatal(err)
	}
	for i := range len(sealed) * 8 {
		bad := bytes.Clone(sealed)
		bad[i/8] ^= 1 << (i % 8)
		if doc, err := warm.Open(bad, "c"); err == nil {
			t.Fatalf("bit %d flipped: opened %q", i, doc)
		}
	}
	for n := range sealed {
		if _, err := warm.Open(sealed[:n], "c"); err == nil {
			t.Fatalf("opened its first %d bytes", n)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	k, o := party(t)
	many := make([]record.PublicKey, 65)
	for i := range many {
		x, _ := party(t)
		many[i] = x.PublicKey()
	}
	for name, tc := range map[string]struct {
		doc []byte
		to  []record.PublicKey
	}{
		"nobody":            {nil, nil},
		"too many":          {nil, many},
		"too large":         {make([]byte, 4<<20+1), []record.PublicKey{k.PublicKey()}},
		"small-order key":   {nil, []record.PublicKey{{}}},
		"identity element":  {nil, []record.PublicKey{{1}}},
		"no point of curve": {nil, []record.PublicKey{{2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := identity.NewSealer().Seal(tc.doc, "", tc.to...); err == nil {
				t.Error("sealed")
			}
		})
	}
	largest, err := identity.NewSealer().Seal(make([]byte, 4<<20), "", append(many[:63:63], k.PublicKey())...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Open(largest, ""); err != nil {
		t.Errorf("the largest document: %v", err)
	}
	if _, err := o.Open(make([]byte, 5<<20), ""); err == nil {
		t.Error("opened 5 MiB")
	}
}

// wrap returns the session of a sealed document.
func wrap(t *testing.T, sealed []byte) string {
	t.Helper()
	var s identity.Sealed
	if err := record.Decode(sealed, &s); err != nil {
		t.Fatal(err)
	}
	return string(s.Wrap)
}

func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, o := party(t)
		s := identity.NewSealer()
		seal := func() string {
			b, err := s.Seal([]byte("x"), "", k.PublicKey())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.Open(b, ""); err != nil {
				t.Fatal(err)
			}
			return wrap(t, b)
		}
		first := seal()
		time.Sleep(59 * time.Minute)
		if seal() != first {
			t.Error("the session ended early")
		}
		time.Sleep(2 * time.Minute)
		if seal() == first {
			t.Error("the session lives for more than an hour")
		}
	})
}

func TestSealConcurrently(t *testing.T) {
	a, openA := party(t)
	b, openB := party(t)
	s := identity.NewSealer()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			to, by := a, openA
			if i%2 == 0 {
				to, by = b, openB
			}
			doc := fmt.Appendf(nil, "document %d", i)
			sealed, err := s.Seal(doc, "c", to.PublicKey())
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := by.Open(sealed, "c"); err != nil || !bytes.Equal(got, doc) {
				t.Errorf("Open = %q, %v; want %q", got, err, doc)
			}
		})
	}
	wg.Wait()
}

func FuzzOpen(f *testing.F) {
	k, o := party(f)
	sealed, err := identity.NewSealer().Seal([]byte("doc"), "c", k.PublicKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte{0xa3, 1, 0x40, 2, 0x40, 3, 0x40})
	f.Fuzz(func(t *testing.T, b []byte) {
		if doc, err := o.Open(b, "c"); err == nil && !bytes.Equal(b, sealed) {
			t.Errorf("opened %x to %q", b, doc)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	k, o := party(b)
	x, _ := party(b)
	s := identity.NewSealer()
	doc := make([]byte, 300)
	sealed, err := s.Seal(doc, "c", k.PublicKey(), x.PublicKey())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			identity.NewSealer().Seal(doc, "c", k.PublicKey(), x.PublicKey())
		}
	})
	b.Run("next", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Seal(doc, "c", k.PublicKey(), x.PublicKey())
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := o.Open(sealed, "c"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func ExampleSealer() {
	tenant, _ := identity.New()
	provider, _ := identity.New()
	sealed, err := identity.NewSealer().Seal([]byte("-prompt hello"), "job body", tenant.PublicKey(), provider.PublicKey())
	if err != nil {
		fmt.Println(err)
		return
	}
	open, _ := identity.NewOpener(provider)
	doc, err := open.Open(sealed, "job body")
	fmt.Println(string(doc), err)
	// Output: -prompt hello <nil>
}
