package record

import (
	"crypto/ed25519"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

func testKey(b byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = b
	return ed25519.NewKeyFromSeed(seed)
}

func mustSign[T Record](t testing.TB, k byte, v T) Signed[T] {
	t.Helper()
	s, err := Sign(testKey(k), v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// allKinds returns an entry of each kind.
func allKinds(t testing.TB) []Raw {
	job := mustSign(t, 1, Job{Shards: 1, Nonce: make([]byte, 16)})
	lease := mustSign(t, 2, Lease{Bid: mustSign(t, 3, Bid{Job: job.Ref()}), Job: job.Ref(), Attempt: 1, Rate: 5, Beacon: Ref{1}})
	cancel := mustSign(t, 1, Cancel{Job: job.Ref()})
	settle := &Settle{Receipt: mustSign(t, 3, Receipt{Lease: lease.Ref(), Ran: "x"}), Voucher: mustSign(t, 2, Voucher{N: 1}), Last: true}
	var raws []Raw
	for i, e := range []Entry{
		{Kind: TypeDeposit, Deposit: &Deposit{Amount: 1, External: "x"}}, {Kind: TypeJob, Job: &job, Stream: job.Ref()},
		{Kind: TypeLease, Lease: &lease}, {Kind: TypeSettle, Settle: settle},
		{Kind: TypeCut, Cut: &Cut{Lease: lease.Ref()}}, {Kind: TypeClose, Close: &Close{Job: job.Ref(), Why: GivenUp}},
		{Kind: TypeCancel, Cancel: &cancel},
	} {
		e.V, e.Seq = 1, uint64(i)
		raws = append(raws, mustSign(t, 4, e).Raw())
	}
	for kind := TypeTransfer; kind.String() != "unknown"; kind++ {
		raws = append(raws, sample(t, reflect.TypeFor[Signed[Entry]](), kind, true))
	}
	return raws
}

func TestOpenEntries(t *testing.T) {
	raws := allKinds(t)
	got, errs := OpenEntries(raws, true)
	for i, raw := range raws {
		want, err := Open[Entry](raw)
		if err != nil || errs[i] != nil || !reflect.DeepEqual(got[i], want) {
			t.Errorf("entry %d: %+v, %v; want %+v, %v", i, got[i], errs[i], want, err)
		}
	}
}

// TestOpenEntriesRefuses flips every byte of every entry, among two good ones: the
// batch refuses that one alone, as Open does.
func TestOpenEntriesRefuses(t *testing.T) {
	raws := allKinds(t)
	for i := range raws {
		for at := 0; at < len(raws[i]); at += 3 {
			bad := []Raw{raws[0], append(Raw(nil), raws[i]...), raws[2]}
			bad[1][at] ^= 0x10
			_, errs := OpenEntries(bad, true)
			for n, err := range errs {
				if (err != nil) != (n == 1) {
					t.Fatalf("byte %d of entry %d flipped: entry %d: %v", at, i, n, err)
				}
			}
		}
	}
}

// TestLooseTwins holds each loose type to the fields and tags of the one it stands for.
func TestLooseTwins(t *testing.T) {
	for _, pair := range [][2]any{{Entry{}, looseEntry{}}, {Lease{}, looseLease{}}, {Settle{}, looseSettle{}},
		{Rotate{}, looseRotate{}}, {Revoke{}, looseRevoke{}}, {Own{}, looseOwn{}}} {
		want, got := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1])
		if want.NumField() != got.NumField() {
			t.Errorf("%v has %d fields, %v %d", want, want.NumField(), got, got.NumField())
			continue
		}
		for i := range want.NumField() {
			w, g := want.Field(i), got.Field(i)
			same := w.Type == g.Type || strings.Contains(g.Type.String(), "loose")
			if w.Name != g.Name || w.Tag != g.Tag || !same {
				t.Errorf("%v: field %v, want %v", got, g, w)
			}
		}
	}
}

func BenchmarkOpenEntries(b *testing.B) {
	raws := allKinds(b)
	for len(raws) < 60 {
		raws = append(raws, raws[:6]...)
	}
	b.Run("together", func(b *testing.B) {
		for b.Loop() {
			OpenEntries(raws, true)
		}
		b.ReportMetric(float64(b.N*len(raws))/b.Elapsed().Seconds(), "entries/s")
	})
	b.Run("each", func(b *testing.B) {
		for b.Loop() {
			for _, raw := range raws {
				if _, err := Open[Entry](raw); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.N*len(raws))/b.Elapsed().Seconds(), "entries/s")
	})
}

// TestOpenVouchers opens many, of which some are forged, cut or something else.
func TestOpenVouchers(t *testing.T) {
	var raws []Raw
	for n := range uint32(40) {
		raws = append(raws, mustSign(t, byte(n%3), Voucher{N: n, Amount: Amount(n)}).Raw())
	}
	bad := map[int]Raw{3: raws[3][:len(raws[3])-1], 7: allKinds(t)[0], 9: nil, 20: append(Raw(nil), raws[20]...)}
	bad[20][len(bad[20])-2] ^= 1
	for i, raw := range bad {
		raws[i] = raw
	}
	got, errs := OpenVouchers(raws)
	for i := range raws {
		_, broken := bad[i]
		if (errs[i] != nil) != broken || !broken && (got[i].Value.N != uint32(i) || got[i].Key != mustSign(t, byte(i%3), Voucher{}).Key) {
			t.Errorf("voucher %d: %+v, %v", i, got[i].Value, errs[i])
		}
	}
}

// BenchmarkVouchers opens a second's vouchers of 10,000 leases: one core must be enough.
func BenchmarkVouchers(b *testing.B) {
	const leases = 10_000
	raws := make([]Raw, leases)
	for i := range raws {
		raws[i] = mustSign(b, byte(i%50), Voucher{Lease: Ref{byte(i), byte(i >> 8)}, N: 1, Amount: 7, Work: 9}).Raw()
	}
	for i := range seen {
		seen[i].Store(nil)
	}
	for b.Loop() {
		for from := 0; from < leases; from += 500 {
			_, errs := OpenVouchers(raws[from : from+500])
			if errs[0] != nil {
				b.Fatal(errs[0])
			}
		}
	}
	b.ReportMetric(float64(b.N*leases)/b.Elapsed().Seconds(), "vouchers/s")
}

// TestSmallOrder forges a signature of the neutral element's key, which every message
// fits: alone and among others it is refused.
func TestSmallOrder(t *testing.T) {
	neutral := make([]byte, ed25519.PublicKeySize)
	neutral[0] = 1
	payload, err := Encode(Entry{V: 1, Kind: TypeDeposit, Deposit: &Deposit{Amount: 1, External: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	head, err := Encode(protected{Alg: algEd25519, Key: neutral, Type: Entry{}.Type()})
	if err != nil {
		t.Fatal(err)
	}
	body, err := Encode(envelope{Protected: head, Unprotected: map[int64]cbor.RawMessage{}, Payload: payload, Signature: append(neutral, make([]byte, 32)...)})
	if err != nil {
		t.Fatal(err)
	}
	raw := append(Raw{tagSign1}, body...)
	if _, err := Open[Entry](raw); !errors.Is(err, ErrSignature) {
		t.Errorf("Open: %v", err)
	}
	_, errs := OpenEntries(append(allKinds(t), raw), true)
	for i, err := range errs {
		if (err != nil) != (i == len(errs)-1) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
}

// FuzzOpenEntries holds the batch to what Open says of each.
func FuzzOpenEntries(f *testing.F) {
	good := allKinds(f)
	for _, raw := range good {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := Open[Entry](b)
		got, errs := OpenEntries([]Raw{good[2], b}, true)
		if errs[0] != nil || (err == nil) != (errs[1] == nil) || err == nil && !reflect.DeepEqual(got[1], want) {
			t.Errorf("alone %v, among others %v", err, errs)
		}
	})
}
