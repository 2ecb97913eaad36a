// Package record defines the nouns that are signed: Job, Advert, Bid, Lease,
// Voucher, Receipt, Entry, and the Mesh they belong to.
//
// The same canonical CBOR bytes travel between nodes and rest in the ledger, so
// a signature made by one party is checked once and everywhere. Records are
// plain values: this package does no I/O and starts no goroutines. It holds no
// rule: what an entry does to balances is ledger/account, who wins a job is
// mesh/market.
package record

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
)

// A PublicKey is a party's Ed25519 key.
type PublicKey [ed25519.PublicKeySize]byte

// ID names the key's party.
func (k PublicKey) ID() NodeID { return sha256.Sum256(k[:]) }

// String returns the 52-letter form.
func (k PublicKey) String() string { return letters(k[:]) }

// MarshalText returns the 52-letter form.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the 52-letter form.
func (k *PublicKey) UnmarshalText(b []byte) error { return parse(k[:], "key", string(b)) }

// A NodeID is the SHA-256 hash of a party's Ed25519 public key. It names nodes,
// tenants and accounts alike.
type NodeID [32]byte

// IDOf returns the NodeID of pub.
func IDOf(pub ed25519.PublicKey) NodeID { return sha256.Sum256(pub) }

// ParseNodeID reads the 52-letter form.
func ParseNodeID(s string) (id NodeID, err error) { return id, parse(id[:], "node id", s) }

// String returns the 52-letter form, which is also the TLS server name.
func (id NodeID) String() string { return letters(id[:]) }

// Short returns the 12-letter form that people read.
func (id NodeID) Short() string { return id.String()[:12] }

// MarshalText returns the 52-letter form.
func (id NodeID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the 52-letter form.
func (id *NodeID) UnmarshalText(b []byte) error { return parse(id[:], "node id", string(b)) }

// A Ref is the hash of a blob (BLAKE3) or of a signed record's bytes (SHA-256).
type Ref [32]byte

// ParseRef reads the 52-letter form.
func ParseRef(s string) (r Ref, err error) { return r, parse(r[:], "reference", s) }

// String returns the 52-letter form.
func (r Ref) String() string { return letters(r[:]) }

// JobID returns the form in which people read a job's Ref: j- and 8 letters.
func (r Ref) JobID() string { return "j-" + r.String()[:8] }

// MarshalText returns the 52-letter form.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the 52-letter form.
func (r *Ref) UnmarshalText(b []byte) error { return parse(r[:], "reference", string(b)) }

var text = base32.StdEncoding.WithPadding(base32.NoPadding)

func letters(b []byte) string { return strings.ToLower(text.EncodeToString(b)) }

func parse(into []byte, what, s string) error {
	b, err := text.DecodeString(strings.ToUpper(s))
	if err != nil || len(b) != len(into) || letters(b) != s {
		return fmt.Errorf("%q is not a %s: want 52 letters a-z, 2-7", s, what)
	}
	copy(into, b)
	return nil
}

// A Millis is a time in milliseconds since the Unix epoch, or a span of them.
type Millis int64

// At returns t as Millis.
func At(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Span returns d as Millis, rounded down.
func Span(d time.Duration) Millis { return Millis(d.Milliseconds()) }

// WholeHour rounds m up to a full hour. Blobs are kept until such times: each pin that
// says something new costs a sync, and what many jobs share is to be pinned once an hour.
func (m Millis) WholeHour() Millis {
	const hour = 3_600_000
	return (m + hour - 1) / hour * hour
}

// Time returns m as a time in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Duration returns m as a span.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// A Work is metered work in nanoseconds of the reference GPU: 1e6 of them are one
// work unit.
type Work uint64

// String returns work in reference-GPU milliseconds.
func (w Work) String() string { return fmt.Sprintf("%d.%03d", w/1e6, w/1e3%1e3) }

// A Tier is a promise about latency and preemption.
type Tier uint8

// Tiers, best promise last.
const (
	Bronze Tier = iota + 1 // preemptible
	Silver                 // on demand
	Gold                   // reserved
)

var tiers = [...]string{Bronze: "bronze", Silver: "silver", Gold: "gold"}

// ParseTier reads a tier's name.
func ParseTier(s string) (Tier, error) {
	for t, name := range tiers {
		if name == s && s != "" {
			return Tier(t), nil
		}
	}
	return 0, fmt.Errorf("%q is not a tier: want bronze, silver or gold", s)
}

// String returns the tier's name.
func (t Tier) String() string {
	if t < Bronze || t > Gold {
		return fmt.Sprintf("tier %d", uint8(t))
	}
	return tiers[t]
}

// MarshalText returns the tier's name.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the tier's name.
func (t *Tier) UnmarshalText(b []byte) (err error) {
	*t, err = ParseTier(string(b))
	return err
}

// A Window is the half-open interval [From, Until) in which a device is for sale.
type Window struct {
	From  Millis `cbor:"1,keyasint" json:"from"`
	Until Millis `cbor:"2,keyasint" json:"until"`
}
