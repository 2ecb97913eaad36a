package record_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"idlemesh/ledger/record"
)

func key(b byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = b
	return ed25519.NewKeyFromSeed(seed)
}

func TestSignOpen(t *testing.T) {
	s, err := record.Sign(key(1), record.Voucher{N: 1, Amount: 7, Work: 9})
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.Open[record.Voucher](s.Raw())
	if err != nil || got.Value != s.Value || got.By() != s.By() || got.Ref() != s.Ref() {
		t.Fatalf("Open = %+v, %v", got, err)
	}
	if _, err := record.Open[record.Bid](s.Raw()); !errors.Is(err, record.ErrSignature) {
		t.Errorf("a voucher opened as a bid: %v", err)
	}
}

// TestEveryBitCounts flips each bit of a signed record: none may still open.
func TestEveryBitCounts(t *testing.T) {
	s, err := record.Sign(key(1), record.Voucher{N: 1, Amount: 7, Work: 9})
	if err != nil {
		t.Fatal(err)
	}
	raw := append(record.Raw(nil), s.Raw()...)
	for i := range len(raw) * 8 {
		raw[i/8] ^= 1 << (i % 8)
		if _, err := record.Open[record.Voucher](raw); err == nil {
			t.Errorf("bit %d changes nothing", i)
		}
		raw[i/8] ^= 1 << (i % 8)
	}
}

func TestDecodeRefusesOtherEncodings(t *testing.T) {
	for name, b := range map[string][]byte{
		"long integer":   {0xa1, 0x01, 0x18, 0x05},
		"unsorted keys":  {0xa2, 0x02, 0x01, 0x01, 0x01},
		"duplicate keys": {0xa2, 0x01, 0x01, 0x01, 0x01},
		"unknown key":    {0xa3, 0x01, 0x01, 0x02, 0x01, 0x09, 0x01},
		"missing key":    {0xa1, 0x01, 0x01},
		"trailing byte":  {0xa2, 0x01, 0x01, 0x02, 0x01, 0x00},
		"open length":    {0xbf, 0x01, 0x01, 0x02, 0x01, 0xff},
	} {
		var w record.Window
		if err := record.Decode(b, &w); err == nil {
			t.Errorf("%s: decoded %+v", name, w)
		}
	}
	var w record.Window
	if err := record.Decode([]byte{0xa2, 0x01, 0x01, 0x02, 0x02}, &w); err != nil || w.Until != 2 {
		t.Errorf("canonical: %+v, %v", w, err)
	}
}

func TestAmount(t *testing.T) {
	for in, want := range map[string]record.Amount{"0": 0, "1": 1e6, "0.40": 4e5, "0.000001": 1, "12.5": 125e5} {
		if got, err := record.ParseAmount(in); err != nil || got != want {
			t.Errorf("ParseAmount(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "0.0000001", "1_0", "0.+1", "99999999999999999999", "NaN"} {
		if got, err := record.ParseAmount(in); err == nil {
			t.Errorf("ParseAmount(%q) = %v", in, got)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, v := range []record.Entry{{V: 1, Kind: record.TypeDeposit, Deposit: &record.Deposit{Amount: 1, External: "x"}}} {
		s, err := record.Sign(key(2), v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(s.Raw()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := record.Open[record.Entry](b)
		if err != nil {
			return
		}
		if again, err := record.Open[record.Entry](s.Raw()); err != nil || again.Ref() != s.Ref() {
			t.Fatalf("opened once: %v", err)
		}
	})
}

// TestMemo opens the same bytes twice, then the same record under a signature that
// does not verify: what was verified once must not vouch for other bytes.
func TestMemo(t *testing.T) {
	s, err := record.Sign(key(3), record.Voucher{N: 2, Amount: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := record.Open[record.Voucher](s.Raw()); err != nil {
			t.Fatal(err)
		}
	}
	forged := append(record.Raw(nil), s.Raw()...)
	forged[len(forged)-1] ^= 1
	for range 2 {
		if _, err := record.Open[record.Voucher](forged); !errors.Is(err, record.ErrSignature) {
			t.Errorf("forged: %v", err)
		}
	}
}
