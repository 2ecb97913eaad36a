package tree

import (
	"errors"
	"fmt"

	"idlemesh/ledger/record"
)

// A Promise is a keeper's word for entries that it has acknowledged, until a tree head
// over them is there that counts: each stands at its index in every log of at least Size
// entries, and there is such a log by the deadline. Signed, it is a submitter's evidence
// against the keeper should that not be so.
type Promise struct {
	Mesh     record.Ref    `cbor:"1,keyasint"`
	Entries  []Promised    `cbor:"2,keyasint"`
	Size     uint64        `cbor:"3,keyasint"`
	Deadline record.Millis `cbor:"4,keyasint"` // in ledger time
}

// A Promised is one entry and its place.
type Promised struct {
	Entry record.Ref `cbor:"1,keyasint"` // hash of the signed entry
	Index uint64     `cbor:"2,keyasint"`
}

// Type implements record.Record.
func (Promise) Type() record.Type { return "idlemesh/promise" }

var (
	// ErrPromise is returned for a promise that no keeper of the mesh has made.
	ErrPromise = errors.New("promise does not verify")
	// ErrBreach is returned for a promise that was not kept.
	ErrBreach = errors.New("a keeper has broken its promise")
)

// OpenPromise verifies a promise of one of mesh's keepers.
func OpenPromise(raw record.Raw, mesh record.Signed[record.Mesh]) (record.Signed[Promise], error) {
	p, err := record.Open[Promise](raw)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrPromise, err)
	}
	if _, ok := mesh.Value.Keeper(p.By()); !ok || p.Value.Mesh != mesh.Ref() {
		return p, fmt.Errorf("%w: not by a keeper of this mesh", ErrPromise)
	}
	for _, e := range p.Value.Entries {
		if e.Index >= p.Value.Size {
			return p, fmt.Errorf("%w: index %d in a log of %d", ErrPromise, e.Index, p.Value.Size)
		}
	}
	return p, nil
}

// Breach returns an ErrBreach when what was proven cannot be with the promise kept: a
// log long enough has another entry at a promised index, or ledger time is past the
// deadline in a log that is too short. The promise and the proof are then the evidence.
func (p Promise) Breach(x Proven) error {
	if x.Head.Size < p.Size {
		if x.Time > p.Deadline {
			return fmt.Errorf("%w: the log has %d entries at %v, and %d were promised by %v", ErrBreach, x.Head.Size, x.Time.Time(), p.Size, p.Deadline.Time())
		}
		return nil
	}
	for _, e := range p.Entries {
		if e.Index == x.Index && e.Entry != x.Entry.Ref() {
			return fmt.Errorf("%w: entry %d is %v, and %v was promised", ErrBreach, x.Index, x.Entry.Ref(), e.Entry)
		}
	}
	return nil
}
