package client

import (
	"context"
	"fmt"
	"net"

	"idlemesh/ledger/record"
	"idlemesh/mesh"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// Join fetches the mesh file with that id from whoever answers at addr, host:port. It
// need not be a node that one knows, since the file is checked against its hash.
func Join(ctx context.Context, key identity.Key, addr string, id record.Ref) (record.Signed[record.Mesh], error) {
	var none record.Signed[record.Mesh]
	pc, err := net.ListenUDP("udp", nil)
	if err != nil {
		return none, fmt.Errorf("join: %w", err)
	}
	cert, err := key.Certificate()
	if err != nil {
		pc.Close()
		return none, fmt.Errorf("join: %w", err)
	}
	end, err := mesh.New(pc, cert, mesh.Config{})
	if err != nil {
		pc.Close()
		return none, fmt.Errorf("join: %w", err)
	}
	defer end.Close()
	who, err := end.Meet(ctx, mesh.Host(addr), mesh.Control)
	if err != nil {
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		return none, &wire.Error{Code: wire.Unavailable, Text: fmt.Sprintf("join: %v", err),
			Next: "check the address, and that a node of the mesh runs there"}
	}
	rep, err := wire.Call(ctx, end, who, wire.MeshFile, wire.MeshRequest{})
	if err != nil {
		return none, fmt.Errorf("join: %w", err)
	}
	if got := rep.File.Ref(); got != id {
		return none, &wire.Error{Code: wire.Unverified, Text: fmt.Sprintf("join: the node at %s is of another mesh: %s", addr, got),
			Next: "ask whoever runs the mesh for its ADDR#MESHID"}
	}
	return rep.File, nil
}
