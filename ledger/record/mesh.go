package record

// A Mesh is the mesh file: who keeps the ledger, who admits jobs, and the rules'
// parameters. Commands show it as YAML; what is signed and stored is CBOR. Its Ref is
// the mesh id.
type Mesh struct {
	Name     string    `cbor:"1,keyasint"`
	Keepers  []Member  `cbor:"2,keyasint"`
	Quorum   uint8     `cbor:"3,keyasint"` // keepers that must sign a tree head
	Mint     PublicKey `cbor:"4,keyasint"`
	Gateways []Member  `cbor:"5,keyasint"`
	Params   Params    `cbor:"6,keyasint"`
	Created  Millis    `cbor:"7,keyasint"`
}

// Type implements Record.
func (Mesh) Type() Type { return "idlemesh/mesh" }

// A Member is a node that the mesh file names.
type Member struct {
	Key  PublicKey `cbor:"1,keyasint"`
	Addr string    `cbor:"2,keyasint,omitempty"` // host:port
}

// Gateway returns the gateway of that name.
func (m Mesh) Gateway(id NodeID) (Member, bool) { return member(m.Gateways, id) }

// Keeper returns the keeper of that name.
func (m Mesh) Keeper(id NodeID) (Member, bool) { return member(m.Keepers, id) }

func member(list []Member, id NodeID) (Member, bool) {
	for _, x := range list {
		if x.Key.ID() == id {
			return x, true
		}
	}
	return Member{}, false
}

// Params are the numbers that rules take; every pure rule gets them as an argument.
type Params struct {
	FLOPS     uint64 `cbor:"1,keyasint"` // of the reference GPU, per second
	Bandwidth uint64 `cbor:"2,keyasint"` // of the reference GPU, bytes per second
	GuestDiv  uint64 `cbor:"3,keyasint"` // so many guest CPU-ms, or million fuel, are one work unit
	Reserve   Amount `cbor:"4,keyasint"` // ceiling per hour of reference-GPU work, whatever a tenant offers
	Holdback  uint32 `cbor:"5,keyasint"` // ppm of a payout
	Fee       uint32 `cbor:"6,keyasint"` // ppm of a payout
	DailyMint Amount `cbor:"7,keyasint"` // deposits a day
	// AllowSimulated lets simulated devices earn.
	AllowSimulated bool `cbor:"8,keyasint"`
	// VestDays is over how many days what a day held back becomes payable, from the next
	// day on. Zero means all of it on the next day.
	VestDays uint32 `cbor:"9,keyasint,omitempty"`
	// Unbond is how long a bond that is taken back can still be slashed.
	Unbond Millis `cbor:"10,keyasint,omitempty"`
	// Slash is what proven evidence costs, in ppm of bond and holdback together.
	Slash uint32 `cbor:"11,keyasint,omitempty"`
}

// GuestWork is what fuel comes to as work: a unit of fuel is about a nanosecond of a
// guest, and by default 50 million of them are one millisecond of the reference GPU.
func (p Params) GuestWork(fuel uint64) Work { return Work(fuel / max(p.GuestDiv, 1)) }

// DefaultParams are what `mesh init` starts from.
func DefaultParams() Params {
	return Params{FLOPS: 20e12, Bandwidth: 500e9, GuestDiv: 50, Reserve: Credit / 2, DailyMint: 10_000 * Credit,
		VestDays: 30, Unbond: 7 * 86_400_000, Slash: 1e6}
}
