package record

import (
	"crypto/sha256"
	"fmt"
)

// A Job is the public terms under which a tenant asks the mesh to run a module. Its
// ID is the Ref of the signed bytes, so the same signed job sent a thousand times is
// one job. What is run is in the sealed Body.
type Job struct {
	Body      Ref    `cbor:"1,keyasint"` // of the sealed body, as stored
	Shards    uint32 `cbor:"2,keyasint"` // tasks, at least 1
	Tier      Tier   `cbor:"3,keyasint"`
	MaxPrice  Amount `cbor:"4,keyasint"` // per hour of reference-GPU work
	MaxTotal  Amount `cbor:"5,keyasint"` // for the whole job; held in escrow
	Needs     Needs  `cbor:"6,keyasint"`
	Limits    Limits `cbor:"7,keyasint"`
	Retries   uint32 `cbor:"8,keyasint"`  // more attempts a task gets when a node loses it
	Retention Millis `cbor:"9,keyasint"`  // outputs and logs are kept so long after the end
	Expires   Millis `cbor:"10,keyasint"` // no task starts later
	Nonce     []byte `cbor:"11,keyasint"` // 16 bytes
	// Delegate may sign leases and vouchers up to MaxTotal while the tenant is
	// away: the gateway that the tenant submits to.
	Delegate NodeID `cbor:"12,keyasint"`
}

// Type implements Record.
func (Job) Type() Type { return "idlemesh/job" }

// Needs are the hard constraints of a job. Zero fields ask for nothing.
type Needs struct {
	Region      string `cbor:"1,keyasint,omitempty" json:"region,omitempty"`
	Model       string `cbor:"2,keyasint,omitempty" json:"gpu,omitempty"`      // of the device
	VRAM        uint64 `cbor:"3,keyasint,omitempty" json:"min_vram,omitempty"` // bytes
	Near        NodeID `cbor:"4,keyasint,omitzero" json:"near,omitzero"`       // RTT is measured from this gateway
	MaxRTT      Millis `cbor:"5,keyasint,omitempty" json:"max_rtt,omitempty"`
	Reliability uint32 `cbor:"6,keyasint,omitempty" json:"min_reliability,omitempty"` // ppm
}

// Limits bound one task.
type Limits struct {
	Memory uint64 `cbor:"1,keyasint"`           // bytes of guest memory
	Wall   uint64 `cbor:"2,keyasint"`           // milliseconds
	Output uint64 `cbor:"3,keyasint"`           // bytes, stdout and stderr included
	VRAM   uint64 `cbor:"4,keyasint"`           // bytes
	Fuel   uint64 `cbor:"5,keyasint,omitempty"` // of the guest's own work; zero is no limit
}

// A Body is what a job runs. It is sealed to the tenant, the delegate and the
// providers that hold a lease; the public log has only its Ref.
type Body struct {
	Name   string            `cbor:"1,keyasint,omitempty"` // of the module, for people
	Module Blob              `cbor:"2,keyasint"`
	Inputs []Input           `cbor:"3,keyasint,omitempty"`
	Args   []string          `cbor:"4,keyasint,omitempty"`
	Env    map[string]string `cbor:"5,keyasint,omitempty"`
	Labels map[string]string `cbor:"6,keyasint,omitempty"`
	Seed   []byte            `cbor:"7,keyasint"` // 32 bytes
	// Record asks for transcripts, from which tasks can be replayed.
	Record bool `cbor:"8,keyasint,omitempty"`
}

// TaskSeed is what all chance in a task comes from: shards differ, attempts are equal.
func (b Body) TaskSeed(job Ref, shard uint32) []byte {
	h := sha256.New()
	h.Write(b.Seed)
	h.Write(job[:])
	fmt.Fprintf(h, "shard %d", shard)
	return h.Sum(nil)
}

// Blobs lists what a body needs: the module, the inputs and the packs of folders.
func (b Body) Blobs() []Blob {
	list := []Blob{b.Module}
	for _, in := range b.Inputs {
		list = append(append(list, in.Blob), in.Packs...)
	}
	return list
}

// InputsRef names all inputs at once, as a Receipt does: SHA-256 of their Refs in order.
func (b Body) InputsRef() Ref {
	h := sha256.New()
	for _, x := range b.Blobs()[1:] {
		h.Write(x.Ref[:])
	}
	return Ref(h.Sum(nil))
}

// An Input is what a module finds at /in/Name: a file, or a folder.
type Input struct {
	Name  string `cbor:"1,keyasint"`
	Blob  Blob   `cbor:"2,keyasint"`           // the file, or a folder's encoded Tree
	Packs []Blob `cbor:"3,keyasint,omitempty"` // a folder's contents; nil for a file
	Dir   bool   `cbor:"4,keyasint,omitempty"`
}

// A Tree lists the files of a folder, sorted by path.
type Tree struct {
	Files []TreeFile `cbor:"1,keyasint"`
}

// A TreeFile is one file: where its bytes lie in the folder's packs.
type TreeFile struct {
	_      struct{} `cbor:",toarray"`
	Path   string   // slash-separated, relative, clean
	Pack   uint32
	Offset uint64
	Size   uint64
}

// A Blob names stored bytes and says how to read them.
type Blob struct {
	Ref  Ref    `cbor:"1,keyasint"` // BLAKE3 of what is stored
	Size uint64 `cbor:"2,keyasint"` // bytes, the same stored and read
	// Key decrypts (AES-256-CTR from a zero counter; each key is used for one
	// content only). Nil means that the blob is stored as it is.
	Key []byte `cbor:"3,keyasint,omitempty"`
}

// A Manifest lists what a task left. It is sealed to the tenant and the delegate.
type Manifest struct {
	Outputs []Output `cbor:"1,keyasint,omitempty"` // sorted by name
	Stdout  Blob     `cbor:"2,keyasint,omitzero"`
	Stderr  Blob     `cbor:"3,keyasint,omitzero"`
	Log     Blob     `cbor:"4,keyasint,omitzero"`  // what the guest logged, a line each
	Metrics []Metric `cbor:"5,keyasint,omitempty"` // last value of each
	Error   string   `cbor:"6,keyasint,omitempty"` // why it ended, when not by itself
	// Transcript is what the task heard from outside; the receipt's Root is BLAKE3 of it.
	Transcript Blob `cbor:"7,keyasint,omitzero"`
}

// An Output is a file the module wrote under /out.
type Output struct {
	Name string `cbor:"1,keyasint"`
	Blob Blob   `cbor:"2,keyasint"`
}

// A Metric is a number the guest reported.
type Metric struct {
	Name  string  `cbor:"1,keyasint" json:"name"`
	Value float64 `cbor:"2,keyasint" json:"value"`
}
