package account

import (
	"cmp"

	"idlemesh/ledger/record"
)

// State is what the rules may look at: the ledger's indexes, or maps in a test. A
// state that is not there is its zero value and no error.
type State interface {
	Mesh() record.Mesh
	Balance(ID) (Balance, error)
	Job(record.Ref) (Job, error)
	Task(Task) (TaskState, error)
	Lease(record.Ref) (Lease, error)
	// Deposited reports whether a deposit has named this external reference.
	Deposited(external string) (bool, error)
	// Minted is the sum of the deposits of a day (see Day).
	Minted(day uint32) (record.Amount, error)
	// Fact fills into with what is remembered under a name, from its record.Encode form;
	// where there is nothing it leaves into as it is.
	Fact(n Name, into any) error
}

// A Job is what the rules remember of a job.
type Job struct {
	Tenant record.NodeID `cbor:"1,keyasint" json:"tenant"`
	Terms  record.Job    `cbor:"2,keyasint" json:"terms"`
	Open   uint32        `cbor:"3,keyasint" json:"open"`            // leases that have not ended
	Leases uint32        `cbor:"4,keyasint" json:"leases"`          // ever made
	Done   uint32        `cbor:"5,keyasint" json:"done"`            // tasks with a paid receipt
	Paid   record.Amount `cbor:"6,keyasint" json:"paid"`            // so far, fees included
	Why    record.Reason `cbor:"7,keyasint" json:"why"`             // 0 while the escrow is open
	Added  record.Amount `cbor:"8,keyasint,omitempty" json:"added"` // to the escrow, later
	// Cancelled is whether the tenant wants no more of it.
	Cancelled bool `cbor:"9,keyasint,omitempty" json:"cancelled"`
	// Epoch counts how often the job was adopted, and Adopter is the gateway that did it
	// last; zero while it is the one that the tenant named.
	Epoch   uint32        `cbor:"10,keyasint,omitempty" json:"epoch"`
	Adopter record.NodeID `cbor:"11,keyasint,omitzero" json:"adopter,omitzero"`
}

// Known reports whether the job has ever had an escrow.
func (j Job) Known() bool { return j.Terms.Shards > 0 }

// Closed reports whether the escrow has been closed.
func (j Job) Closed() bool { return j.Why != 0 }

// supervisor is the gateway that acts for the tenant.
func (j Job) supervisor() record.NodeID { return cmp.Or(j.Adopter, j.Terms.Delegate) }

func (j Job) parties() []Party {
	return []Party{{j.Tenant, Payer}, {j.supervisor(), Delegate}}
}

// A Task names one shard of a job.
type Task struct {
	Job   record.Ref
	Shard uint32
}

// A TaskState is what the rules remember of a task.
type TaskState struct {
	Attempts uint32     `cbor:"1,keyasint" json:"attempts"` // leases ever made for it
	Lease    record.Ref `cbor:"2,keyasint" json:"lease"`    // the last of them
	Open     bool       `cbor:"3,keyasint" json:"open"`     // the last has not ended
	Done     bool       `cbor:"4,keyasint" json:"done"`     // it ended with a paid receipt
}

// A Lease is what the rules remember of a lease.
type Lease struct {
	Job      record.Ref    `cbor:"1,keyasint" json:"job"`
	Shard    uint32        `cbor:"2,keyasint" json:"shard"`
	Attempt  uint32        `cbor:"3,keyasint" json:"attempt"`
	Epoch    uint32        `cbor:"4,keyasint" json:"epoch"`
	Provider record.NodeID `cbor:"5,keyasint" json:"provider"`
	Rate     record.Amount `cbor:"6,keyasint" json:"rate"`
	Reserve  record.Amount `cbor:"7,keyasint" json:"reserve"`
	State    LeaseState    `cbor:"8,keyasint" json:"state"`
	Paid     record.Amount `cbor:"9,keyasint" json:"paid"`
	// Account is the provider's where it is registered, and Payee its owner's where it
	// has one: as they were when the lease began.
	Account record.NodeID `cbor:"10,keyasint,omitzero" json:"account,omitzero"`
	Payee   record.NodeID `cbor:"11,keyasint,omitzero" json:"payee,omitzero"`
	// N, Vouched and Work are those of the highest voucher posted. Vouched is paid
	// whatever becomes of the lease.
	N       uint32        `cbor:"12,keyasint,omitempty" json:"vouchers"`
	Vouched record.Amount `cbor:"13,keyasint,omitempty" json:"vouched"`
	Work    record.Work   `cbor:"14,keyasint,omitempty" json:"vouched_work"`
	// Under is the gateway whose delegation the lease draws on; zero where it is the job's
	// own.
	Under record.NodeID `cbor:"15,keyasint,omitzero" json:"under,omitzero"`
}

// account is the provider's account.
func (l Lease) account() record.NodeID { return cmp.Or(l.Account, l.Provider) }

// payee is the account that is paid.
func (l Lease) payee() record.NodeID { return cmp.Or(l.Payee, l.account()) }

// other returns id where it is not what it is by default, else zero.
func other(id, usual record.NodeID) record.NodeID {
	if id == usual {
		return record.NodeID{}
	}
	return id
}

// A LeaseState says what has become of a lease.
type LeaseState uint8

// Lease states; the zero one is of a lease that is not there.
const (
	Running LeaseState = iota + 1
	Settled            // by a receipt that is paid
	Lost               // by a receipt of a run that the node ended
	Cut                // without a receipt
)

var leaseStates = [...]string{Running: "running", Settled: "settled", Lost: "lost", Cut: "cut"}

// String returns the state's name.
func (s LeaseState) String() string {
	if s == 0 || int(s) >= len(leaseStates) {
		return "unknown"
	}
	return leaseStates[s]
}

// MarshalText returns the state's name.
func (s LeaseState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Effects are what an entry does: the legs, and every state that they leave behind.
// The ledger stores them and an auditor recomputes them.
type Effects struct {
	Legs     []Leg
	Balances []Changed // one an account, in the order of first touch

	// Job, Task and Lease name what the entry is about; the states beside them are
	// nil where it changes nothing.
	Job      record.Ref
	JobAfter *Job

	Task      Task
	TaskAfter *TaskState

	Lease      record.Ref
	LeaseAfter *Lease

	// External is the reference that a deposit uses up, Day its day and Minted the
	// day's sum after it.
	External string
	Day      uint32
	Minted   record.Amount

	Facts []Fact // to be remembered, each name once

	Parties []Party // whom it concerns besides its author
}

// A Party is somebody whom an entry concerns, and as what.
type Party struct {
	ID   record.NodeID
	Role Role
}

// A Role is a set of parts that a party has in an entry.
type Role uint8

// Roles.
const (
	Author   Role = 1 << iota // signed the entry
	Payer                     // the tenant of its job, or who receives a deposit
	Delegate                  // the gateway that may spend for the tenant
	Seller                    // the provider of its lease
)

// A Changed is an account's balance before and after an entry.
type Changed struct {
	Account       ID
	Before, After Balance
}

// Day numbers the UTC days since the Unix epoch, by which deposits are capped.
func Day(t record.Millis) uint32 { return uint32(max(t, 0) / 86_400_000) }
