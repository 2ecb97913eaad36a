package record

import "math"

// An Advert says what a provider sells until it expires, at most 30 s later.
type Advert struct {
	Seq     uint64   `cbor:"1,keyasint"`
	Expires Millis   `cbor:"2,keyasint"`
	Ask     Amount   `cbor:"3,keyasint"` // per hour of this device
	Region  string   `cbor:"4,keyasint,omitempty"`
	Device  Device   `cbor:"5,keyasint"`
	Slots   uint32   `cbor:"6,keyasint"` // tasks the node runs at once
	Free    uint32   `cbor:"7,keyasint"` // of them, not in use
	Windows []Window `cbor:"8,keyasint"` // concrete, UTC; the calendar stays at home
	Tiers   []Tier   `cbor:"9,keyasint"`
	Grade   []string `cbor:"10,keyasint,omitempty"` // sandbox layers that are missing
	// Bench shows the device's speed, by the same key. Without one a device that is not
	// simulated counts as the slowest.
	Bench *Signed[Bench] `cbor:"11,keyasint,omitempty"`
}

// Type implements Record.
func (Advert) Type() Type { return "idlemesh/advert" }

// A Device is the part of kernel.Info that is advertised.
type Device struct {
	Model     string `cbor:"1,keyasint" json:"model"`
	Backend   string `cbor:"2,keyasint" json:"backend"`
	VRAM      uint64 `cbor:"3,keyasint" json:"vram"`  // bytes
	Speed     uint32 `cbor:"4,keyasint" json:"speed"` // thousandths of the reference GPU
	Simulated bool   `cbor:"5,keyasint,omitempty" json:"simulated,omitempty"`
}

// A Bench is what a provider measured of its device, each figure a second.
type Bench struct {
	Model     string `cbor:"1,keyasint" json:"model"`
	Backend   string `cbor:"2,keyasint" json:"backend"`
	Hardware  string `cbor:"3,keyasint" json:"hardware"`         // what it holds for: chip, how many, driver
	FLOPS     uint64 `cbor:"4,keyasint" json:"flops"`            // binary32 operations of a large product
	Bandwidth uint64 `cbor:"5,keyasint" json:"bandwidth"`        // bytes of device memory
	Tokens    uint64 `cbor:"6,keyasint" json:"millitokens"`      // thousandths of a token of a model of 1.1e9 weights in 8 bits
	Write     uint64 `cbor:"7,keyasint" json:"host_to_device"`   // bytes
	Read      uint64 `cbor:"8,keyasint" json:"device_to_host"`   // bytes
	At        Millis `cbor:"9,keyasint" json:"measured_unix_ms"` // by the provider's clock
	Took      Millis `cbor:"10,keyasint" json:"took_ms"`
}

// Type implements Record.
func (Bench) Type() Type { return "idlemesh/bench" }

// Speed is what was measured in thousandths of the reference GPU of p, at least 1: the
// lower of its rates of computing and of moving, so that no mix of kernels is slower.
func (b Bench) Speed(p Params) uint32 {
	s := min(MulDiv(b.FLOPS, 1000, p.FLOPS), MulDiv(b.Bandwidth, 1000, p.Bandwidth))
	return uint32(max(1, min(s, math.MaxUint32)))
}

// Proven is the highest speed that an advert by the key of by may name for its device.
// Simulated devices prove nothing: what they earn is the mesh file's to say.
func (a Advert) Proven(by PublicKey, p Params) uint32 {
	switch b := a.Bench; {
	case a.Device.Simulated:
		return math.MaxUint32
	case b == nil || b.Key != by || b.Value.Model != a.Device.Model || b.Value.Backend != a.Device.Backend:
		return 1
	default:
		return b.Value.Speed(p)
	}
}

// A Bid is a binding offer of one device for one task of a job until it expires.
type Bid struct {
	Job      Ref    `cbor:"1,keyasint"`
	Device   Device `cbor:"2,keyasint"`
	Ask      Amount `cbor:"3,keyasint"` // per hour of this device, never above the advert's
	Window   Window `cbor:"4,keyasint"`
	Expires  Millis `cbor:"5,keyasint"`
	HandBack Millis `cbor:"6,keyasint"` // the owner gets his device back within this
	Nonce    uint64 `cbor:"7,keyasint"` // tells bids of one node for one job apart
}

// Type implements Record.
func (Bid) Type() Type { return "idlemesh/bid" }

// A Lease accepts a bid. The provider's signature is on the Bid inside, the
// tenant's or his delegate's around it: signed by both, with no further round trip.
// There is one lease a job, shard and attempt, whoever signs.
type Lease struct {
	Bid     Signed[Bid] `cbor:"1,keyasint"`
	Job     Ref         `cbor:"2,keyasint"`
	Shard   uint32      `cbor:"3,keyasint"`
	Attempt uint32      `cbor:"4,keyasint"`          // from 1
	Epoch   uint32      `cbor:"5,keyasint"`          // of the job's supervisor; 0 until one adopts it
	Rate    Amount      `cbor:"6,keyasint"`          // per hour of reference-GPU work, from the auction
	Reserve Amount      `cbor:"7,keyasint"`          // part of the escrow that this lease may use
	Beacon  Ref         `cbor:"8,keyasint,omitzero"` // that broke a tie
}

// Type implements Record.
func (Lease) Type() Type { return "idlemesh/lease" }

// A Voucher promises the cumulative amount for the cumulative work of a lease.
type Voucher struct {
	Lease   Ref    `cbor:"1,keyasint"`
	Epoch   uint32 `cbor:"2,keyasint"`
	N       uint32 `cbor:"3,keyasint"` // from 1
	Amount  Amount `cbor:"4,keyasint"`
	Work    Work   `cbor:"5,keyasint"`
	Receipt Ref    `cbor:"6,keyasint,omitzero"` // that the last voucher pays
}

// Type implements Record.
func (Voucher) Type() Type { return "idlemesh/voucher" }

// A Receipt is the provider's statement of what a lease came to.
type Receipt struct {
	Lease   Ref    `cbor:"1,keyasint"`
	Job     Ref    `cbor:"2,keyasint"`
	Shard   uint32 `cbor:"3,keyasint"`
	Attempt uint32 `cbor:"4,keyasint"`
	Module  Ref    `cbor:"5,keyasint"`          // the blob that was run
	Inputs  Ref    `cbor:"6,keyasint"`          // SHA-256 of the input blobs' Refs in order
	Outputs Ref    `cbor:"7,keyasint,omitzero"` // the sealed Manifest, a blob
	Device  Device `cbor:"8,keyasint"`
	Exit    uint32 `cbor:"9,keyasint"`
	End     End    `cbor:"10,keyasint"`
	Usage   Usage  `cbor:"11,keyasint"`
	Started Millis `cbor:"12,keyasint"` // by the provider's clock
	Phases  Phases `cbor:"13,keyasint"`
	Root    Ref    `cbor:"14,keyasint,omitzero"` // of the transcript, if the job asked for one
	// Ran lists the versions that the run depends on: engine, rewriter, kernels.
	Ran string `cbor:"15,keyasint"`
}

// Type implements Record.
func (Receipt) Type() Type { return "idlemesh/receipt" }

// Usage is what one task consumed.
type Usage struct {
	Work   Work   `cbor:"1,keyasint" json:"work_ns"`   // what is paid
	Meter  Meter  `cbor:"2,keyasint" json:"meter"`     // how the guest's own work was measured
	Wall   uint64 `cbor:"3,keyasint" json:"wall_ms"`   // milliseconds
	CPU    uint64 `cbor:"4,keyasint" json:"cpu_ns"`    // of the guest, nanoseconds
	Fuel   uint64 `cbor:"5,keyasint" json:"fuel"`      // zero unless Meter is Fuel
	Kernel uint64 `cbor:"6,keyasint" json:"kernel_ns"` // the device was busy, nanoseconds
	FLOP   uint64 `cbor:"7,keyasint" json:"flop"`
	Bytes  uint64 `cbor:"8,keyasint" json:"bytes"`  // moved by kernels, from shapes
	Memory uint64 `cbor:"9,keyasint" json:"memory"` // guest memory at the end, bytes
}

// A Meter says how a guest's own work was measured.
type Meter uint8

// Meters.
const (
	CPUTime Meter = iota + 1 // measured processor time: differs from run to run
	Fuel                     // counted instructions: the same on every machine
)

// String returns the meter's name.
func (m Meter) String() string {
	if m == Fuel {
		return "fuel"
	}
	return "cpu-time"
}

// MarshalText returns the meter's name.
func (m Meter) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Phases are how long the parts of a task took, in milliseconds.
type Phases struct {
	Stage  Millis `cbor:"1,keyasint" json:"stage_ms"`
	Start  Millis `cbor:"2,keyasint" json:"start_ms"`
	Run    Millis `cbor:"3,keyasint" json:"run_ms"`
	Return Millis `cbor:"4,keyasint" json:"return_ms"`
}

// An End says why a task ended.
type End uint8

// Ends. What the guest, a limit or the tenant ended is paid; what the node ended
// is not.
const (
	Exited    End = iota + 1 // the module returned or called exit
	Trapped                  // unreachable, out of bounds, stack overflow
	OverLimit                // memory, output, files, device memory or fuel
	TimedOut                 // Limits.Wall
	Cancelled                // by the tenant
	BadModule                // it does not compile or link
	NodeLost                 // the node ended it: owner, crash, shutdown
)

var ends = [...]string{Exited: "exited", Trapped: "trapped", OverLimit: "over-limit", TimedOut: "timed-out",
	Cancelled: "cancelled", BadModule: "bad-module", NodeLost: "node-lost"}

// String returns the end's name.
func (e End) String() string {
	if int(e) >= len(ends) || e == 0 {
		return "unknown"
	}
	return ends[e]
}

// MarshalText returns the end's name.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Paid reports whether metered work is paid after this end.
func (e End) Paid() bool { return e >= Exited && e < NodeLost }
