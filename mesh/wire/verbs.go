package wire

import (
	"idlemesh/ledger/record"
)

// The whole protocol. The last column is the authorisation table: what is not
// named is denied.
var (
	// A gateway answers tenants and providers.
	Submit    = Verb[JobRequest, Admitted]{"submit", Anyone} // the job's own signature says whose it is
	Watch     = Verb[WatchRequest, JobEvent]{"watch", Owner | Gateway}
	Jobs      = Verb[JobsRequest, JobInfo]{"jobs", Anyone} // each sees his own
	Tasks     = Verb[JobQuery, TaskInfo]{"tasks", Owner | Gateway}
	Cancel    = Verb[CancelRequest, Ack]{"cancel", Owner}
	Quote     = Verb[QuoteRequest, QuoteReply]{"quote", Anyone}
	Advertise = Verb[AdvertRequest, Ack]{"advertise", Anyone} // the advert's signature says whose it is
	Nodes     = Verb[NodesRequest, NodeInfo]{"nodes", Anyone}

	// A provider answers the gateways.
	Solicit = Verb[Solicitation, BidReply]{"solicit", Gateway}
	Start   = Verb[StartRequest, LeaseEvent]{"start", Gateway}
	Stop    = Verb[StopRequest, Ack]{"stop", Gateway}

	// A provider answers its owner.
	Wish = Verb[WishRequest, Offer]{"wish", Operator}

	// A keeper answers everybody: the log is public.
	Append  = Verb[AppendRequest, Appended]{"append", Anyone} // each entry's author is checked by its signature
	Head    = Verb[HeadRequest, HeadReply]{"head", Anyone}
	Prove   = Verb[ProveRequest, ProveReply]{"prove", Anyone}
	Query   = Verb[QueryRequest, Row]{"query", Anyone}
	Follow  = Verb[FollowRequest, Leaf]{"follow", Anyone}
	Balance = Verb[BalanceRequest, BalanceReply]{"balance", Anyone}
	Quorum  = Verb[QuorumRequest, KeeperInfo]{"quorum", Anyone}
	Seat    = Verb[SeatRequest, Ack]{"seat", Anyone} // a keeper's signature says who orders it

	Consistency = Verb[ConsistencyRequest, ConsistencyReply]{"consistency", Anyone}
	Tile        = Verb[TileRequest, TileReply]{"tile", Anyone}
	Backup      = Verb[BackupRequest, HeadReply]{"backup", Operator} // on the keeper's own disk

	// Every node answers.
	Status   = Verb[StatusRequest, StatusReply]{"status", Anyone}
	MeshFile = Verb[MeshRequest, MeshReply]{"mesh", Anyone}
)

// An Ack says only that it is done.
type Ack struct{}

// A StatusRequest asks what a node is and does.
type StatusRequest struct{}

// A StatusReply is what everybody may know of a node.
type StatusReply struct {
	ID      record.NodeID `cbor:"1,keyasint" json:"node"`
	Version string        `cbor:"2,keyasint" json:"version"`
	Roles   []string      `cbor:"3,keyasint" json:"roles"`
	Mesh    record.Ref    `cbor:"4,keyasint" json:"mesh"`
	Name    string        `cbor:"5,keyasint" json:"mesh_name"`
	Addr    string        `cbor:"6,keyasint" json:"addr"`
	Since   record.Millis `cbor:"7,keyasint" json:"since_ms"`
	Offer   *Offer        `cbor:"8,keyasint,omitempty" json:"offer,omitempty"`
	Jobs    uint32        `cbor:"9,keyasint,omitempty" json:"jobs"` // that it supervises, not ended
	Entries uint64        `cbor:"10,keyasint,omitempty" json:"entries"`
	// Ledger is the ledger's time, as a keeper has it now.
	Ledger record.Millis `cbor:"11,keyasint,omitempty" json:"ledger_time_ms,omitempty"`
}

// An Offer is what a provider sells now.
type Offer struct {
	Device  record.Device   `cbor:"1,keyasint" json:"device"`
	Ask     record.Amount   `cbor:"2,keyasint" json:"ask_ucr"` // per hour of this device
	Region  string          `cbor:"3,keyasint,omitempty" json:"region,omitempty"`
	Tiers   []record.Tier   `cbor:"4,keyasint" json:"tiers"`
	Slots   uint32          `cbor:"5,keyasint" json:"slots"`
	Leases  uint32          `cbor:"6,keyasint" json:"leases"` // running
	Open    bool            `cbor:"7,keyasint" json:"open"`
	Windows []record.Window `cbor:"8,keyasint,omitempty" json:"windows,omitempty"`
	Done    uint64          `cbor:"9,keyasint" json:"done"` // leases ended since the start
	Grade   []string        `cbor:"10,keyasint,omitempty" json:"missing_layers,omitempty"`
	State   string          `cbor:"11,keyasint,omitempty" json:"state,omitempty"` // free, draining, reclaimed
	Why     string          `cbor:"12,keyasint,omitempty" json:"why,omitempty"`   // it is not free
	// Measured is when the device's speed was, zero if it never was.
	Measured record.Millis `cbor:"13,keyasint,omitempty" json:"measured_unix_ms,omitempty"`
}

// A WishRequest is what a provider's owner asks for by hand: 0 sell, 1 drain, 2 pause.
type WishRequest struct {
	Wish uint8 `cbor:"1,keyasint"`
}

// A MeshRequest asks for the mesh file.
type MeshRequest struct{}

// A MeshReply brings it.
type MeshReply struct {
	File record.Signed[record.Mesh] `cbor:"1,keyasint"`
}
