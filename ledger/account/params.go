package account

import "idlemesh/ledger/record"

// notice is how far ahead a change of parameters is at least, in ledger time.
const notice = dayMillis

// A Schedule is how the mesh's parameters have changed.
type Schedule struct {
	N    uint32         `cbor:"1,keyasint"`           // changes so far
	Now  *record.Params `cbor:"2,keyasint,omitempty"` // in force until From; nil is the mesh file's
	Next record.Params  `cbor:"3,keyasint"`
	From record.Millis  `cbor:"4,keyasint"`
}

// At returns the parameters of a ledger time, where file has those of the mesh file.
func (c Schedule) At(file record.Params, now record.Millis) record.Params {
	switch {
	case c.N > 0 && now >= c.From:
		return c.Next
	case c.Now != nil:
		return *c.Now
	}
	return file
}

// A ruled is a state whose mesh has the parameters that are in force.
type ruled struct {
	State
	mesh record.Mesh
}

func (r ruled) Mesh() record.Mesh { return r.mesh }

// inForce puts the parameters of a time into a state.
func inForce(s State, now record.Millis) (State, error) {
	var c Schedule
	if err := s.Fact(Name{Kind: FactParams}, &c); err != nil || c.N == 0 {
		return s, err
	}
	m := s.Mesh()
	m.Params = c.At(m.Params, now)
	return ruled{s, m}, nil
}

// change gives the mesh other parameters, with notice and a quorum of keepers. One that
// has not come into force is replaced, with notice of its own.
func change(t turn, e record.Entry) (Effects, error) {
	c := *e.Change
	var s Schedule
	if err := t.Fact(Name{Kind: FactParams}, &s); err != nil {
		return Effects{}, err
	}
	if err := approved(t.file(), e); err != nil {
		return Effects{}, err
	}
	p := c.Params
	switch {
	case c.N <= s.N:
		return Effects{}, refuse(ErrOnce, "change %d has been made", c.N)
	case c.N != s.N+1:
		return Effects{}, refuse(ErrEntry, "change %d where %d is next", c.N, s.N+1)
	case c.From < t.now+notice:
		return Effects{}, refuse(ErrEntry, "a change comes into force a day ahead at the soonest")
	case p.FLOPS == 0 || p.Bandwidth == 0 || p.GuestDiv == 0 || p.Reserve == 0:
		return Effects{}, refuse(ErrEntry, "the reference GPU and the reserve are above 0")
	case p.Holdback > 1e6 || p.Fee > 1e6 || p.Slash > 1e6 || p.VestDays > maxVest || p.Unbond < 0 || p.Unbond > maxVest*dayMillis:
		return Effects{}, refuse(ErrEntry, "shares are at most 1,000,000 ppm, times at most %d days", maxVest)
	}
	now := t.Mesh().Params
	f := Effects{}
	f.remember(FactParams, [32]byte{}, Schedule{N: c.N, Now: &now, Next: p, From: c.From})
	return f, nil
}

// file is the mesh as its file has it, which is what keepers approve changes of.
func (t turn) file() record.Mesh {
	if r, ok := t.State.(ruled); ok {
		return r.State.Mesh()
	}
	return t.Mesh()
}
