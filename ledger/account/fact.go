package account

import (
	"crypto/sha256"

	"idlemesh/ledger/record"
)

// A Name names one thing that the rules remember beside balances, jobs and leases.
type Name struct {
	Kind FactKind
	Of   [32]byte // an account, or a hash
}

// A FactKind says what a fact is about. Numbers are for ever.
type FactKind uint8

// Kinds of facts, with what is remembered of each.
const (
	FactUsed       FactKind = iota + 1 // an external reference, by its hash: bool
	FactVesting                        // of an account: Vesting
	FactLeaving                        // of an account: Leaving
	FactWithdrawal                     // of a withdrawal: Withdrawal
	FactKey                            // of a key: KeyState
	FactHolder                         // of a registered account: Holder
	FactOwner                          // of an account that is owned: its owner's, a record.NodeID
	FactDelegation                     // of a job and a gateway, by their hash: Mandate
	FactParams                         // of the mesh, under zero: Schedule
)

// A Fact is what an entry leaves to be remembered. Its value is one that
// record.Encode takes.
type Fact struct {
	Name  Name
	Value any
}

// A Vesting is what an account's holdback consists of, the oldest day first.
type Vesting struct {
	Days []VestDay `cbor:"1,keyasint"`
}

// A VestDay is what the payouts of one day held back: payable linearly over the days
// that follow it.
type VestDay struct {
	Day  uint32        `cbor:"1,keyasint" json:"day"`  // see Day
	Span uint32        `cbor:"2,keyasint" json:"span"` // days
	Held record.Amount `cbor:"3,keyasint" json:"held"` // at first
	Left record.Amount `cbor:"4,keyasint" json:"left"` // not paid out or slashed
}

// A Leaving is what an account takes back of its bond, the oldest first.
type Leaving struct {
	Parts []LeavingPart `cbor:"1,keyasint"`
}

// A LeavingPart is payable from Ripe on, in ledger time.
type LeavingPart struct {
	Amount record.Amount `cbor:"1,keyasint" json:"amount"`
	Ripe   record.Millis `cbor:"2,keyasint" json:"ripe"`
}

// A Withdrawal is one that waits for the mint, or has ended.
type Withdrawal struct {
	From   ID            `cbor:"1,keyasint"`
	Amount record.Amount `cbor:"2,keyasint"`
	Ended  bool          `cbor:"3,keyasint,omitempty"`
}

// remember appends a fact.
func (f *Effects) remember(kind FactKind, of [32]byte, value any) {
	f.Facts = append(f.Facts, Fact{Name{kind, of}, value})
}

// once refuses an external reference that has been used, and uses it. Deposits have
// theirs apart, as entries of other kinds have.
func (f *Effects) once(s State, kind record.EntryType, external string) error {
	if external == "" || len(external) > maxText {
		return refuse(ErrEntry, "external reference of %d bytes: want 1 to %d", len(external), maxText)
	}
	name := Name{FactUsed, sha256.Sum256([]byte(kind.String() + ":" + external))}
	var used bool
	if err := s.Fact(name, &used); err != nil {
		return err
	}
	if used {
		return refuse(ErrOnce, "external reference %q has its %v", external, kind)
	}
	f.remember(name.Kind, name.Of, true)
	return nil
}
