package record

import (
	"fmt"
	"strings"
)

// An EntryType says which body of an Entry is set.
type EntryType uint16

// Entry types. Numbers are for ever.
const (
	TypeDeposit EntryType = 1 // Deposit: the mint credits an account
	TypeJob     EntryType = 2 // Job: opens the job's escrow
	TypeLease   EntryType = 3 // Lease: reserves part of the escrow
	TypeSettle  EntryType = 4 // Settle: payout, holdback, fee and refund are its legs
	TypeCut     EntryType = 5 // Cut: ends a lease that came to nothing
	TypeClose   EntryType = 6 // Close: refunds what is left of the escrow
	// Money.
	TypeTransfer EntryType = 7  // Transfer: between parties, or from earned to free
	TypeWithdraw EntryType = 8  // Withdraw: pending until the mint ends it
	TypeConfirm  EntryType = 9  // Confirm: the mint has paid a withdrawal, or gives it back
	TypeStake    EntryType = 10 // Stake: adds to a bond
	TypeUnstake  EntryType = 11 // Unstake: takes back part of a bond
	TypeVest     EntryType = 12 // Vest: pays out what has become payable
	TypeReward   EntryType = 13 // Reward: from the mesh's own accounts
	TypeTopUp    EntryType = 14 // TopUp: more escrow for a job, or more reserve for a lease

	TypeCancel EntryType = 15 // Cancel: the tenant wants no more of a job
	// Keys.
	TypeRegister EntryType = 16 // Register: an account whose keys can change
	TypeRotate   EntryType = 17 // Rotate: another key, after a day
	TypeVeto     EntryType = 18 // Veto: by the recovery key
	TypeRevoke   EntryType = 19 // Revoke: ends a key at once
	TypeOwn      EntryType = 20 // Own: an owner of a node
	// Supervision.
	TypeVoucher  EntryType = 21 // Voucher: what a lease that runs has come to
	TypeDelegate EntryType = 22 // Delegation: another gateway may supervise a job
	TypeAdopt    EntryType = 23 // Adopt: it does
	TypeParams   EntryType = 24 // Change: the mesh's parameters from some time on
	// Disputes.
	TypeEvidence EntryType = 25 // Evidence: a keeper forked the log
)

var entryTypes = [...]string{TypeDeposit: "deposit", TypeJob: "job", TypeLease: "lease", TypeSettle: "settle",
	TypeCut: "lease-cut", TypeClose: "escrow-close",
	TypeTransfer: "transfer", TypeWithdraw: "withdraw", TypeConfirm: "withdraw-end", TypeStake: "stake", TypeUnstake: "unstake",
	TypeVest: "vest", TypeReward: "reward", TypeTopUp: "top-up", TypeCancel: "cancel",
	TypeRegister: "register", TypeRotate: "rotate", TypeVeto: "veto", TypeRevoke: "revoke", TypeOwn: "own",
	TypeVoucher: "voucher", TypeDelegate: "delegate", TypeAdopt: "adopt", TypeParams: "parameters", TypeEvidence: "evidence"}

// ParseEntryType reads a type's name.
func ParseEntryType(s string) (EntryType, error) {
	for t, name := range entryTypes {
		if name == s && s != "" {
			return EntryType(t), nil
		}
	}
	return 0, fmt.Errorf("%q is not a kind of entry: want %s", s, strings.Join(entryTypes[1:], ", "))
}

// String returns the type's name.
func (t EntryType) String() string {
	if t == 0 || int(t) >= len(entryTypes) {
		return "unknown"
	}
	return entryTypes[t]
}

// MarshalText returns the type's name.
func (t EntryType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// An Entry is one line of the ledger, signed by its author. Exactly one body is set,
// the one that Kind names.
type Entry struct {
	V      uint16    `cbor:"1,keyasint"` // 1
	Kind   EntryType `cbor:"2,keyasint"`
	Stream Ref       `cbor:"3,keyasint,omitzero"` // a job; zero is the author's account
	Seq    uint64    `cbor:"4,keyasint"`          // from 0, gapless by author and stream
	Idem   Ref       `cbor:"5,keyasint"`          // same author, key and body: one entry
	// Approvals are those of keepers, where the body needs a quorum of them.
	Approvals []Signed[Approval] `cbor:"9,keyasint,omitempty"`

	Deposit *Deposit       `cbor:"10,keyasint,omitempty"`
	Job     *Signed[Job]   `cbor:"11,keyasint,omitempty"`
	Lease   *Signed[Lease] `cbor:"12,keyasint,omitempty"`
	Settle  *Settle        `cbor:"13,keyasint,omitempty"`
	Cut     *Cut           `cbor:"14,keyasint,omitempty"`
	Close   *Close         `cbor:"15,keyasint,omitempty"`

	Transfer *Transfer `cbor:"16,keyasint,omitempty"`
	Withdraw *Withdraw `cbor:"17,keyasint,omitempty"`
	Confirm  *Confirm  `cbor:"18,keyasint,omitempty"`
	Stake    *Stake    `cbor:"19,keyasint,omitempty"`
	Unstake  *Unstake  `cbor:"20,keyasint,omitempty"`
	Vest     *Vest     `cbor:"21,keyasint,omitempty"`
	Reward   *Reward   `cbor:"22,keyasint,omitempty"`
	TopUp    *TopUp    `cbor:"23,keyasint,omitempty"`

	Cancel   *Signed[Cancel] `cbor:"24,keyasint,omitempty"`
	Register *Register       `cbor:"25,keyasint,omitempty"`
	Rotate   *Rotate         `cbor:"26,keyasint,omitempty"`
	Veto     *Veto           `cbor:"27,keyasint,omitempty"`
	Revoke   *Revoke         `cbor:"28,keyasint,omitempty"`
	Own      *Own            `cbor:"29,keyasint,omitempty"`

	Voucher  *Signed[Voucher] `cbor:"30,keyasint,omitempty"`
	Delegate *Delegation      `cbor:"31,keyasint,omitempty"`
	Adopt    *Adopt           `cbor:"32,keyasint,omitempty"`
	Change   *Change          `cbor:"33,keyasint,omitempty"`

	Evidence *Evidence `cbor:"34,keyasint,omitempty"`
}

// Type implements Record.
func (Entry) Type() Type { return "idlemesh/entry" }

// A Deposit credits an account from the mint. Each external reference counts once.
type Deposit struct {
	To       NodeID `cbor:"1,keyasint"`
	Amount   Amount `cbor:"2,keyasint"`
	External string `cbor:"3,keyasint"` // at most 128 bytes
}

// A Settle ends a lease by its receipt and the last voucher.
type Settle struct {
	Receipt Signed[Receipt] `cbor:"1,keyasint"`
	Voucher Signed[Voucher] `cbor:"2,keyasint"`
	// Last closes the escrow too: no task is left.
	Last bool `cbor:"3,keyasint,omitempty"`
}

// A Cut ends a lease whose provider was lost: its reserve returns to the escrow.
type Cut struct {
	Lease Ref `cbor:"1,keyasint"`
}

// A Close ends a job and refunds what is left of its escrow. Leases must have ended.
type Close struct {
	Job Ref    `cbor:"1,keyasint"`
	Why Reason `cbor:"2,keyasint"`
	// Detail is the blob that says more, sealed to the tenant and his delegate.
	Detail Ref `cbor:"3,keyasint,omitzero"`
}

// A Cancel says that a tenant wants no more of his job: nothing is leased from then on,
// and what runs is stopped. It is his own signature that counts, whoever posts it.
type Cancel struct {
	Job Ref `cbor:"1,keyasint"`
}

// Type implements Record.
func (Cancel) Type() Type { return "idlemesh/cancel" }

// A Reason says why a job ended.
type Reason uint8

// Reasons.
const (
	Finished     Reason = iota + 1 // every task has its receipt
	GivenUp                        // a task had no attempt left
	Expired                        // nobody was found in time
	ByTenant                       // cancelled
	Unaffordable                   // the escrow cannot pay another attempt
)

var reasons = [...]string{Finished: "finished", GivenUp: "gave-up", Expired: "expired", ByTenant: "cancelled", Unaffordable: "out-of-funds"}

// String returns the reason's name.
func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasons) {
		return "unknown"
	}
	return reasons[r]
}

// MarshalText returns the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A Leaf is what the Merkle tree hashes: the ledger's time and the signed entry.
type Leaf struct {
	Time  Millis `cbor:"1,keyasint"` // of the ledger, monotonic
	Entry Raw    `cbor:"2,keyasint"` // a Signed[Entry]
}
