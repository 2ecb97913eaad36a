package wire

import "idlemesh/ledger/record"

// An AppendRequest brings entries. Those of one author and stream are in order.
type AppendRequest struct {
	Entries []record.Raw `cbor:"1,keyasint"`
	// Direct is set by a keeper that passes on what it was asked: it goes no further.
	Direct bool `cbor:"2,keyasint,omitempty"`
}

// Appended answers entry by entry. Taken entries are durable.
type Appended struct {
	Results []AppendResult `cbor:"1,keyasint"`
	Size    uint64         `cbor:"2,keyasint"` // of the log now
	Root    record.Ref     `cbor:"3,keyasint"` // of its tree
	// Promise is a record.Signed[tree.Promise] of the keeper that ordered them, for those
	// that were taken.
	Promise record.Raw `cbor:"4,keyasint,omitempty"`
}

// An AppendResult is what became of one entry.
type AppendResult struct {
	Index uint64        `cbor:"1,keyasint"`
	Time  record.Millis `cbor:"2,keyasint,omitempty"` // ledger time
	Known bool          `cbor:"3,keyasint,omitempty"` // it was there already and took no number
	Err   *Error        `cbor:"4,keyasint,omitempty"` // it was refused and took no number
	// Want is the sequence number that its stream goes on with, after a refusal for
	// the number alone.
	Want *uint64 `cbor:"5,keyasint,omitempty"`
}

// A HeadRequest asks for the newest tree head, or for one that the log had.
type HeadRequest struct {
	Size uint64 `cbor:"1,keyasint,omitempty"` // zero means the newest
}

// A HeadReply brings it.
type HeadReply struct {
	Size uint64     `cbor:"1,keyasint"`
	Root record.Ref `cbor:"2,keyasint"`
	Note string     `cbor:"3,keyasint"` // C2SP tlog-checkpoint with the keepers' signatures
}

// A ConsistencyRequest names two sizes that the log has had.
type ConsistencyRequest struct {
	Older uint64 `cbor:"1,keyasint"`
	Newer uint64 `cbor:"2,keyasint"`
}

// A ConsistencyReply brings the path of RFC 6962 that proves the older log to be the
// beginning of the newer.
type ConsistencyReply struct {
	Path []record.Ref `cbor:"1,keyasint"`
}

// A TileRequest names a C2SP tlog-tile, or an entry bundle.
type TileRequest struct {
	Level   uint8  `cbor:"1,keyasint"`
	Index   uint64 `cbor:"2,keyasint"`
	Width   uint16 `cbor:"3,keyasint"`           // 1 to 256
	Entries bool   `cbor:"4,keyasint,omitempty"` // the bundle of that index, not a tile
}

// A TileReply brings it.
type TileReply struct {
	Data []byte `cbor:"1,keyasint"`
}

// A BackupRequest names a folder on the keeper's machine that does not exist.
type BackupRequest struct {
	Dir string `cbor:"1,keyasint"`
}

// A ProveRequest names an entry.
type ProveRequest struct {
	Index uint64 `cbor:"1,keyasint"`
	COSE  bool   `cbor:"2,keyasint,omitempty"` // as a COSE Receipt
}

// A ProveReply brings the proof: its text form is a C2SP tlog-proof.
type ProveReply struct {
	Proof   string `cbor:"1,keyasint"`
	Receipt []byte `cbor:"2,keyasint,omitempty"` // in its place, if asked for
}

// A QueryRequest selects entries; its zero value selects all.
type QueryRequest struct {
	Account record.NodeID    `cbor:"1,keyasint,omitzero"`
	Author  record.NodeID    `cbor:"2,keyasint,omitzero"`
	Node    record.NodeID    `cbor:"3,keyasint,omitzero"` // the provider of a lease
	Job     record.Ref       `cbor:"4,keyasint,omitzero"`
	Lease   record.Ref       `cbor:"5,keyasint,omitzero"`
	Hash    record.Ref       `cbor:"6,keyasint,omitzero"` // of the signed entry
	Kind    record.EntryType `cbor:"7,keyasint,omitempty"`
	Since   record.Millis    `cbor:"8,keyasint,omitempty"`
	Until   record.Millis    `cbor:"9,keyasint,omitempty"`
	From    uint64           `cbor:"10,keyasint,omitempty"` // index
	Limit   uint32           `cbor:"11,keyasint,omitempty"` // zero means all
	Reverse bool             `cbor:"12,keyasint,omitempty"` // newest first
	Size    uint64           `cbor:"13,keyasint,omitempty"` // of the log that is asked about; zero means all there is
	// Follow waits for entries to come, until the caller leaves. Reverse, Size and Limit
	// then mean nothing.
	Follow bool `cbor:"14,keyasint,omitempty"`
	// Whole takes the escrows of Account's jobs for his, and adds the mesh's own moves.
	Whole bool `cbor:"15,keyasint,omitempty"`
}

// A Row is an entry and its place.
type Row struct {
	Index uint64        `cbor:"1,keyasint"`
	Time  record.Millis `cbor:"2,keyasint"`
	Entry record.Raw    `cbor:"3,keyasint"`
	Moves []Move        `cbor:"4,keyasint,omitempty"`
	Job   record.Ref    `cbor:"5,keyasint,omitzero"`  // if Whole was asked for
	Pays  bool          `cbor:"6,keyasint,omitempty"` // the job is the account's
}

// A Move is what an entry did to one account.
type Move struct {
	Account string        `cbor:"1,keyasint" json:"account"` // kind:owner
	Debit   record.Amount `cbor:"2,keyasint,omitempty" json:"debit_ucr"`
	Credit  record.Amount `cbor:"3,keyasint,omitempty" json:"credit_ucr"`
	Balance record.Amount `cbor:"4,keyasint,omitempty" json:"balance_ucr"` // free, after
}

// A FollowRequest says from which entry on.
type FollowRequest struct {
	From uint64 `cbor:"1,keyasint"`
}

// A Leaf is a log leaf as the tree hashes it.
type Leaf struct {
	Index uint64 `cbor:"1,keyasint"`
	Raw   []byte `cbor:"2,keyasint"` // encoded record.Leaf
}

// A BalanceRequest names a party.
type BalanceRequest struct {
	Of record.NodeID `cbor:"1,keyasint"`
	At uint64        `cbor:"2,keyasint,omitempty"` // size of the log that is asked about; zero means now
}

// A BalanceReply is what a party may spend, has earned, and what is bound.
type BalanceReply struct {
	Free   record.Amount `cbor:"1,keyasint" json:"free_ucr"`
	Earned record.Amount `cbor:"3,keyasint" json:"earned_ucr"`
	Held   record.Amount `cbor:"4,keyasint" json:"held_ucr"` // back from earnings
	Staked record.Amount `cbor:"5,keyasint" json:"staked_ucr"`
	// Pending is what withdrawals hold until the mint ends them.
	Pending record.Amount `cbor:"6,keyasint" json:"pending_ucr"`
	// Account is the one that a key acts or acted for; of any other account it is itself.
	Account record.NodeID `cbor:"7,keyasint" json:"account"`

	Accounts []Account `cbor:"10,keyasint,omitempty" json:"accounts,omitempty"` // that have ever moved
}

// An Account is one of a party's accounts.
type Account struct {
	Account string        `cbor:"1,keyasint" json:"account"` // kind:owner
	Debit   record.Amount `cbor:"2,keyasint,omitempty" json:"debit_ucr"`
	Credit  record.Amount `cbor:"3,keyasint,omitempty" json:"credit_ucr"`
	Bound   record.Amount `cbor:"4,keyasint,omitempty" json:"bound_ucr"` // debits that are pending
}
