package wire

import "idlemesh/ledger/record"

// A Role is a set of what a peer is to this mesh, or to the object of a request.
type Role uint16

// Roles.
const (
	Anyone   Role = 1 << iota // any key that completed the handshake
	Gateway                   // in the mesh file
	Keeper                    // in the mesh file
	Owner                     // of the object that the request names
	Operator                  // of the node that is asked
)

// RolesIn returns the roles that mesh file m gives to id.
func RolesIn(m record.Mesh, id record.NodeID) Role {
	r := Anyone
	if _, ok := m.Gateway(id); ok {
		r |= Gateway
	}
	if _, ok := m.Keeper(id); ok {
		r |= Keeper
	}
	return r
}

// Owned is a request about something that somebody owns. Verbs that name Owner
// have such bodies.
type Owned interface{ Object() record.Ref }

// allowed is the whole of authorisation, and a function of its arguments.
func allowed(may, has Role) bool { return may&has != 0 }
