package record

// A Delegation lets a gateway beside the job's own take the job over, and spend for its
// author, the tenant, while it does.
type Delegation struct {
	Gateway NodeID `cbor:"1,keyasint"`
	Job     Ref    `cbor:"2,keyasint"`
	Amount  Amount `cbor:"3,keyasint"` // that its leases may reserve and pay
	Rate    Amount `cbor:"4,keyasint"` // the most that they may pay an hour of reference-GPU work
	Expires Millis `cbor:"5,keyasint"` // no lease of it begins later, in ledger time
}

// An Adopt makes its author, a gateway, the supervisor of a job. Only the first of an
// epoch counts; leases, vouchers and ends of the epochs before are refused from then on.
type Adopt struct {
	Job   Ref    `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"` // the job's, plus one
}

// A Change gives the mesh other parameters, with notice. It needs a quorum of keepers.
type Change struct {
	N      uint32 `cbor:"1,keyasint"` // of the mesh's changes, from 1
	Params Params `cbor:"2,keyasint"`
	From   Millis `cbor:"3,keyasint"` // ledger time; at least a day ahead
}
