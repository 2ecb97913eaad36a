package record

import "crypto/sha256"

// A Transfer moves credits to another party, or what its author has earned to what he
// may spend.
type Transfer struct {
	To     NodeID `cbor:"1,keyasint"` // an account, or a key of it
	Amount Amount `cbor:"2,keyasint"`
	Earned bool   `cbor:"3,keyasint,omitempty"` // from what he has earned
}

// A Withdraw asks the mint to pay credits out, outside. They stay pending until the mint
// confirms or cancels.
type Withdraw struct {
	Amount   Amount `cbor:"1,keyasint"`
	External string `cbor:"2,keyasint"`           // by which the mint knows the receiver; public, at most 128 bytes
	Earned   bool   `cbor:"3,keyasint,omitempty"` // from what he has earned
}

// A Confirm ends a withdrawal: the mint has paid it, or gives it back.
type Confirm struct {
	Withdrawal Ref    `cbor:"1,keyasint"` // its entry's Name
	Paid       bool   `cbor:"2,keyasint,omitempty"`
	External   string `cbor:"3,keyasint,omitempty"` // of the payment; counts once, at most 128 bytes
}

// A Stake adds to its author's bond.
type Stake struct {
	Amount Amount `cbor:"1,keyasint"`
	Earned bool   `cbor:"2,keyasint,omitempty"` // from what he has earned
}

// An Unstake takes back part of the bond. It can still be slashed until the mesh's Unbond
// has passed; then a Vest pays it out.
type Unstake struct {
	Amount Amount `cbor:"1,keyasint"`
}

// A Vest pays out what has become payable: of an account's holdback, and of its bond that
// was taken back. Anybody may write it.
type Vest struct {
	Of NodeID `cbor:"1,keyasint"`
}

// A Reward pays from the mesh's own accounts. It needs a quorum of keepers.
type Reward struct {
	To        NodeID `cbor:"1,keyasint"`
	Amount    Amount `cbor:"2,keyasint"`
	Insurance bool   `cbor:"3,keyasint,omitempty"` // from the insurance, not from the fees
	External  string `cbor:"4,keyasint"`           // what for; counts once, at most 128 bytes
}

// A TopUp adds to a job's escrow from its tenant's account or, where it names a lease, to
// what that lease may use from the escrow.
type TopUp struct {
	Job    Ref    `cbor:"1,keyasint"`
	Lease  Ref    `cbor:"2,keyasint,omitzero"`
	Amount Amount `cbor:"3,keyasint"`
}

// An Approval is a keeper's consent to what an entry does. It holds for that body in that
// mesh, whoever writes it.
type Approval struct {
	Matter Ref `cbor:"1,keyasint"` // see Matter
}

// Type implements Record.
func (Approval) Type() Type { return "idlemesh/approval" }

// Matter names what an entry does in a mesh, whoever writes it and when: the hash of the
// mesh and of the entry without its number, stream, key and approvals.
func Matter(m Mesh, e Entry) (Ref, error) {
	e.Seq, e.Stream, e.Idem, e.Approvals = 0, Ref{}, Ref{}, nil
	b, err := Encode([]any{m, e})
	return sha256.Sum256(b), err
}

// Name names an entry of an author before it has its number: by it a withdrawal is
// confirmed.
func (e Entry) Name(author NodeID) Ref {
	return sha256.Sum256(append(author[:], e.Idem[:]...))
}
