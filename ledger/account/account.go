// Package account holds the rules of money: which balances an entry moves, and
// when it may not.
//
// It is a pure function of state, ledger time and entry, without Pebble, so that it
// can be fuzzed, checked against an oracle and run by an auditor over a file. Package
// ledger stores what Apply returns; nobody else computes a balance.
package account

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"idlemesh/ledger/record"
)

// A Kind says what an account is for. Numbers are for ever.
type Kind uint8

// Account kinds. Mint alone may be overdrawn.
const (
	Tenant    Kind = iota + 1 // what a party may spend
	Escrow                    // what a job may spend; its owner is the job
	Provider                  // what a party has earned
	Holdback                  // earned, but not yet payable
	Stake                     // bond of a party
	Insurance                 // of the mesh; no owner
	Fees                      // of the mesh; no owner
	Mint                      // where credits come from; no owner
)

var kinds = [...]string{Tenant: "tenant", Escrow: "escrow", Provider: "provider", Holdback: "holdback",
	Stake: "stake", Insurance: "insurance", Fees: "fees", Mint: "mint"}

// String returns the kind's name.
func (k Kind) String() string {
	if k < Tenant || k > Mint {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kinds[k]
}

// ParseKind reads a kind's name.
func ParseKind(s string) (Kind, error) {
	for k, name := range kinds {
		if name == s && s != "" {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("%q is not a kind of account: want one of %s", s, strings.Join(kinds[1:], ", "))
}

// An ID names one account: a party's, a job's escrow, or one of the mesh's own,
// whose owner is zero.
type ID struct {
	Kind  Kind     `cbor:"1,keyasint"`
	Owner [32]byte `cbor:"2,keyasint"`
}

// String returns the kind, a colon and the owner's 52 letters.
func (id ID) String() string {
	if id.Owner == [32]byte{} {
		return id.Kind.String()
	}
	return id.Kind.String() + ":" + record.Ref(id.Owner).String()
}

// MarshalText returns the String form.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// A Balance has debits and credits, pending and posted.
type Balance struct {
	DebitsPending  record.Amount `cbor:"1,keyasint" json:"debits_pending"`
	DebitsPosted   record.Amount `cbor:"2,keyasint" json:"debits_posted"`
	CreditsPending record.Amount `cbor:"3,keyasint" json:"credits_pending"`
	CreditsPosted  record.Amount `cbor:"4,keyasint" json:"credits_posted"`
}

// Free is what may still be spent. It is 0 where debits are more than credits, as
// they are for the mint.
func (b Balance) Free() record.Amount {
	out, carry := bits.Add64(uint64(b.DebitsPosted), uint64(b.DebitsPending), 0)
	if carry != 0 || uint64(b.CreditsPosted) < out {
		return 0
	}
	return b.CreditsPosted - record.Amount(out)
}

// AppendBinary appends the 32 bytes that the ledger stores.
func (b Balance) AppendBinary(to []byte) ([]byte, error) {
	for _, a := range [...]record.Amount{b.DebitsPending, b.DebitsPosted, b.CreditsPending, b.CreditsPosted} {
		to = binary.BigEndian.AppendUint64(to, uint64(a))
	}
	return to, nil
}

// UnmarshalBinary reads what AppendBinary wrote.
func (b *Balance) UnmarshalBinary(p []byte) error {
	if len(p) != 32 {
		return fmt.Errorf("balance of %d bytes: want 32", len(p))
	}
	for i, a := range [...]*record.Amount{&b.DebitsPending, &b.DebitsPosted, &b.CreditsPending, &b.CreditsPosted} {
		*a = record.Amount(binary.BigEndian.Uint64(p[8*i:]))
	}
	return nil
}

// A Move says what a Leg does with its amount.
type Move uint8

// Moves.
const (
	Post    Move = iota + 1 // from debit to credit, now
	Reserve                 // pending on both sides
	Release                 // ends what Reserve made pending; nothing is paid
)

// A Leg moves an amount between two accounts; every Leg balances by itself.
type Leg struct {
	Debit, Credit ID
	Amount        record.Amount
	Move          Move
}

// Charge returns what work costs at rate µcredits per hour of reference-GPU work,
// rounded down. It is given the cumulative work, never a difference, so rounding does
// not drift. A charge above the largest Amount is the largest Amount.
func Charge(rate record.Amount, work record.Work) record.Amount {
	const hour = 3600 * 1e9 // Work is in nanoseconds
	return record.Amount(record.MulDiv(uint64(rate), uint64(work), hour))
}

// share returns ppm of a, rounded down.
func share(a record.Amount, ppm uint32) record.Amount {
	return record.Amount(record.MulDiv(uint64(a), uint64(min(ppm, 1e6)), 1e6))
}

// errOverflow means that an account's turnover no longer fits 64 bits.
var errOverflow = errors.New("balance would overflow")

// apply returns b after one side of a leg.
func (b Balance) apply(l Leg, debit bool) (Balance, error) {
	pending, posted := &b.CreditsPending, &b.CreditsPosted
	if debit {
		pending, posted = &b.DebitsPending, &b.DebitsPosted
	}
	var over uint64
	switch l.Move {
	case Post:
		*posted, over = add(*posted, l.Amount)
	case Reserve:
		*pending, over = add(*pending, l.Amount)
	case Release:
		var less uint64
		less, over = bits.Sub64(uint64(*pending), uint64(l.Amount), 0)
		*pending = record.Amount(less)
	}
	if over != 0 {
		return b, errOverflow
	}
	return b, nil
}

func add(a, b record.Amount) (record.Amount, uint64) {
	sum, carry := bits.Add64(uint64(a), uint64(b), 0)
	return record.Amount(sum), carry
}
