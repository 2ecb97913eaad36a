package wire

import "idlemesh/ledger/record"

// An AdvertRequest renews a provider's advert.
type AdvertRequest struct {
	Advert record.Signed[record.Advert] `cbor:"1,keyasint"`
}

// A Solicitation asks for up to N live bids, each with a reservation.
type Solicitation struct {
	Job record.Signed[record.Job] `cbor:"1,keyasint"`
	N   uint32                    `cbor:"2,keyasint"`
}

// A BidReply brings at most as many as asked for, at least one.
type BidReply struct {
	Bids []record.Signed[record.Bid] `cbor:"1,keyasint"`
}

// A StartRequest accepts a bid and starts the task. The body is sealed to this
// provider; blobs are fetched from the gateway.
type StartRequest struct {
	Lease record.Signed[record.Lease] `cbor:"1,keyasint"`
	Body  []byte                      `cbor:"2,keyasint"` // sealed record.Body
	Time  record.Millis               `cbor:"3,keyasint"` // the job's ledger time: where the guest's clock starts
}

// A LeaseEvent is something a running task said; the last one has the receipt.
type LeaseEvent struct {
	Done    uint64                         `cbor:"1,keyasint,omitempty"`
	Total   uint64                         `cbor:"2,keyasint,omitempty"`
	Text    string                         `cbor:"3,keyasint,omitempty"`
	Channel Channel                        `cbor:"4,keyasint,omitempty"`
	Offset  uint64                         `cbor:"5,keyasint,omitempty"`
	Data    []byte                         `cbor:"6,keyasint,omitempty"`
	Receipt *record.Signed[record.Receipt] `cbor:"7,keyasint,omitempty"`
	// Manifest is sealed to the tenant and the gateway; the receipt has its Ref.
	Manifest []byte `cbor:"8,keyasint,omitempty"`
	// Beat says only that the node is alive.
	Beat bool `cbor:"9,keyasint,omitempty"`
	// Lost says why the node has given the run up; nothing follows.
	Lost string `cbor:"10,keyasint,omitempty"`
}

// A StopRequest ends a lease's task, as the tenant wishes. Its receipt follows on the
// stream of Start.
type StopRequest struct {
	Lease record.Ref `cbor:"1,keyasint"`
}
