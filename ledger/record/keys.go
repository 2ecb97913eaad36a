package record

import "crypto/sha256"

// A Register makes an account of its author's key, with a key that can take it back when
// that one is lost or stolen. The account is named by the hash of this record for ever,
// whatever its keys become. What the key had by itself moves there.
type Register struct {
	Key      PublicKey `cbor:"1,keyasint"` // the author's
	Recovery PublicKey `cbor:"2,keyasint"` // kept elsewhere
}

// Account names the account.
func (r Register) Account() NodeID {
	b := append(append([]byte("idlemesh/account"), r.Key[:]...), r.Recovery[:]...)
	return sha256.Sum256(b)
}

// A Rotate gives an account another key after 24 hours of ledger time, unless the recovery
// key vetoes it.
type Rotate struct {
	Next Signed[Successor] `cbor:"1,keyasint"`
}

// A Successor is a key's consent to become an account's.
type Successor struct {
	Account NodeID `cbor:"1,keyasint"`
}

// Type implements Record.
func (Successor) Type() Type { return "idlemesh/successor" }

// A Veto by the recovery key ends a rotation that waits.
type Veto struct {
	Account NodeID `cbor:"1,keyasint"`
}

// A Revoke ends an account's key at once, and a rotation that waits with it. The recovery
// key may name the next one; the key itself may only end.
type Revoke struct {
	Account NodeID             `cbor:"1,keyasint"`
	Next    *Signed[Successor] `cbor:"2,keyasint,omitempty"`
}

// An Own makes its author the owner of a node, who is paid what it earns, or lets one go.
// Bond and holdback stay the node's.
type Own struct {
	Node *Signed[Owned] `cbor:"1,keyasint,omitempty"`
	Let  NodeID         `cbor:"2,keyasint,omitzero"` // the account of a node that is let go
}

// An Owned is a node's consent to be owned.
type Owned struct {
	Owner NodeID `cbor:"1,keyasint"` // the owner's account
}

// Type implements Record.
func (Owned) Type() Type { return "idlemesh/owned" }
