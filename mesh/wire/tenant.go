package wire

import "idlemesh/ledger/record"

// A JobRequest brings a tenant's signed job and its sealed body.
type JobRequest struct {
	Job  record.Signed[record.Job] `cbor:"1,keyasint"`
	Body []byte                    `cbor:"2,keyasint"` // sealed record.Body
}

// Admitted answers Submit: the job is in escrow and will be supervised.
type Admitted struct {
	Job   record.Ref `cbor:"1,keyasint"`
	Entry uint64     `cbor:"2,keyasint"`
	Known bool       `cbor:"3,keyasint,omitempty"` // it was admitted before
}

// A JobQuery names a job.
type JobQuery struct {
	Job record.Ref `cbor:"1,keyasint"`
}

// Object implements Owned.
func (q JobQuery) Object() record.Ref { return q.Job }

// A CancelRequest brings a tenant's signed wish to end his job.
type CancelRequest struct {
	Cancel record.Signed[record.Cancel] `cbor:"1,keyasint"`
}

// Object implements Owned.
func (q CancelRequest) Object() record.Ref { return q.Cancel.Value.Job }

// A WatchRequest asks for a job's events: those kept, then those to come.
type WatchRequest struct {
	Job record.Ref `cbor:"1,keyasint"`
	// Output asks for stdout, stderr and log lines as they appear.
	Output bool `cbor:"2,keyasint,omitempty"`
}

// Object implements Owned.
func (q WatchRequest) Object() record.Ref { return q.Job }

// A Kind says what a JobEvent tells.
type Kind uint8

// Kinds. Progress and Said are sent to those who watch at the moment and not kept.
const (
	Opened    Kind = iota + 1 // the escrow is open
	Auctioned                 // bids were asked for: Auction
	Leased                    // a task has a provider
	Progress                  // a task says how far it is
	Said                      // a task wrote to stdout, stderr or its log
	Lost                      // a provider was lost; the task goes elsewhere
	Settled                   // a task has its receipt and is paid
	Ended                     // the job has ended; nothing follows
	Waiting                   // nobody free yet: Auction says why
)

// A JobEvent is one thing that happened to a job.
type JobEvent struct {
	Kind    Kind                           `cbor:"1,keyasint"`
	Time    record.Millis                  `cbor:"2,keyasint"` // by the gateway's clock
	Shard   uint32                         `cbor:"3,keyasint,omitempty"`
	Attempt uint32                         `cbor:"4,keyasint,omitempty"`
	Node    record.NodeID                  `cbor:"5,keyasint,omitzero"`
	Device  *record.Device                 `cbor:"6,keyasint,omitempty"`
	RTT     record.Millis                  `cbor:"7,keyasint,omitempty"`
	Rate    record.Amount                  `cbor:"8,keyasint,omitempty"`
	Price   record.Amount                  `cbor:"9,keyasint,omitempty"`
	Done    uint64                         `cbor:"10,keyasint,omitempty"`
	Total   uint64                         `cbor:"11,keyasint,omitempty"`
	Text    string                         `cbor:"12,keyasint,omitempty"`
	Stream  Channel                        `cbor:"13,keyasint,omitempty"`
	Offset  uint64                         `cbor:"14,keyasint,omitempty"` // of Data in its stream
	Data    []byte                         `cbor:"15,keyasint,omitempty"`
	Receipt *record.Signed[record.Receipt] `cbor:"16,keyasint,omitempty"`
	Entry   uint64                         `cbor:"17,keyasint,omitempty"` // index in the log
	Auction *Auction                       `cbor:"18,keyasint,omitempty"`
	Reason  record.Reason                  `cbor:"19,keyasint,omitempty"`
	Err     *Error                         `cbor:"20,keyasint,omitempty"` // why it ended badly
}

// An Auction is what one round of bids came to.
type Auction struct {
	Nodes  uint32        `cbor:"1,keyasint"` // known
	Fit    uint32        `cbor:"2,keyasint"`
	Bids   uint32        `cbor:"3,keyasint"`
	Won    uint32        `cbor:"4,keyasint"`
	Took   record.Millis `cbor:"5,keyasint"`
	Others []Count       `cbor:"6,keyasint,omitempty"` // why the others do not fit
}

// A Count is a reason and for how many nodes it holds.
type Count struct {
	N   uint32 `cbor:"1,keyasint" json:"nodes"`
	Why string `cbor:"2,keyasint" json:"why"`
}

// A JobsRequest asks for the caller's jobs, the newest first.
type JobsRequest struct {
	// Prefix is the start of a job's Ref in letters. Empty means all.
	Prefix string `cbor:"1,keyasint,omitempty"`
	Limit  uint32 `cbor:"2,keyasint"` // zero means 1,000
	// Labels that a job must have.
	Labels map[string]string `cbor:"3,keyasint,omitempty"`
}

// A JobInfo is a job at one moment.
type JobInfo struct {
	Job     record.Ref        `cbor:"1,keyasint"`
	Terms   record.Job        `cbor:"2,keyasint"`
	Name    string            `cbor:"3,keyasint,omitempty"`
	Labels  map[string]string `cbor:"4,keyasint,omitempty"`
	Created record.Millis     `cbor:"5,keyasint"` // ledger time
	Ended   record.Millis     `cbor:"6,keyasint,omitempty"`
	Reason  record.Reason     `cbor:"7,keyasint,omitempty"` // once it ended
	Spent   record.Amount     `cbor:"8,keyasint"`
	Entry   uint64            `cbor:"9,keyasint"` // that admitted it
	Waiting uint32            `cbor:"10,keyasint"`
	Running uint32            `cbor:"11,keyasint"`
	Done    uint32            `cbor:"12,keyasint"`
	Failed  uint32            `cbor:"13,keyasint"`
	Err     *Error            `cbor:"14,keyasint,omitempty"` // why it ended badly
}

// A TaskInfo is a task at one moment.
type TaskInfo struct {
	Shard   uint32                         `cbor:"1,keyasint"`
	Attempt uint32                         `cbor:"2,keyasint"`
	State   string                         `cbor:"3,keyasint"` // waiting, running, done, failed
	Node    record.NodeID                  `cbor:"4,keyasint,omitzero"`
	Device  *record.Device                 `cbor:"5,keyasint,omitempty"`
	Rate    record.Amount                  `cbor:"6,keyasint,omitempty"`
	Price   record.Amount                  `cbor:"7,keyasint,omitempty"`
	Done    uint64                         `cbor:"8,keyasint,omitempty"`
	Total   uint64                         `cbor:"9,keyasint,omitempty"`
	Text    string                         `cbor:"10,keyasint,omitempty"`
	Receipt *record.Signed[record.Receipt] `cbor:"11,keyasint,omitempty"`
	Entry   uint64                         `cbor:"12,keyasint,omitempty"` // that settled it
	Lease   record.Ref                     `cbor:"13,keyasint,omitzero"`
}

// A QuoteRequest asks what terms would meet, without submitting them.
type QuoteRequest struct {
	Terms record.Job `cbor:"1,keyasint"`
}

// A QuoteReply says who would fit and for how much.
type QuoteReply struct {
	Auction Auction       `cbor:"1,keyasint"`
	Low     record.Amount `cbor:"2,keyasint"` // rate per hour of reference-GPU work
	High    record.Amount `cbor:"3,keyasint"`
	// Err is why nobody would, with the nearest relaxation.
	Err *Error `cbor:"4,keyasint,omitempty"`
}

// A NodesRequest asks for the providers that a gateway knows.
type NodesRequest struct{}

// A NodeInfo is a provider as a gateway sees it.
type NodeInfo struct {
	ID    record.NodeID `cbor:"1,keyasint" json:"node"`
	Offer Offer         `cbor:"2,keyasint" json:"offer"`
	RTT   record.Millis `cbor:"3,keyasint" json:"rtt_ms"` // -1 is unknown
	Q     uint32        `cbor:"4,keyasint" json:"reliability_ppm"`
	Seen  record.Millis `cbor:"5,keyasint" json:"seen_ms"`
}

// A Channel is where a task's words went.
type Channel uint8

// Channels.
const (
	Stdout Channel = iota + 1
	Stderr
	Log
)
