package client

import (
	"context"
	"fmt"
	"iter"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/wire"
)

// Query yields entries of the log, unchecked: Prove checks one.
func (c *Client) Query(ctx context.Context, q wire.QueryRequest) iter.Seq2[wire.Row, error] {
	return wire.AskStream(ctx, c.keepers, wire.Query, q)
}

// Prove returns a proof that the entry at index is in the log, checked under the mesh
// file's keys.
func (c *Client) Prove(ctx context.Context, index uint64) (tree.Proof, error) {
	rep, err := wire.Ask(ctx, c.keepers, wire.Prove, wire.ProveRequest{Index: index})
	if err != nil {
		return tree.Proof{}, err
	}
	var p tree.Proof
	err = p.UnmarshalText([]byte(rep.Proof))
	if err == nil {
		_, err = tree.Check(p, c.mesh)
	}
	if err == nil && p.Index != index {
		err = fmt.Errorf("the keeper proved entry %d", p.Index)
	}
	if err != nil {
		return p, wire.Refuse(wire.Unverified, fmt.Sprintf("prove entry %d: %v", index, err))
	}
	return p, nil
}

// Receipt returns a proof as a COSE Receipt (RFC 9942), checked under the mesh file's
// keys.
func (c *Client) Receipt(ctx context.Context, index uint64) ([]byte, tree.Proven, error) {
	rep, err := wire.Ask(ctx, c.keepers, wire.Prove, wire.ProveRequest{Index: index, COSE: true})
	if err != nil {
		return nil, tree.Proven{}, err
	}
	got, err := tree.CheckReceipt(rep.Receipt, c.mesh)
	if err == nil && got.Index != index {
		err = fmt.Errorf("the keeper proved entry %d", got.Index)
	}
	if err != nil {
		return nil, got, wire.Refuse(wire.Unverified, fmt.Sprintf("prove entry %d: %v", index, err))
	}
	return rep.Receipt, got, nil
}

// HeadAt is the tree head that the log had at a size it has reached; zero means now.
func (c *Client) HeadAt(ctx context.Context, size uint64) (wire.HeadReply, error) {
	return wire.Ask(ctx, c.keepers, wire.Head, wire.HeadRequest{Size: size})
}

// Consistency returns the path that proves the log of older entries to be the beginning
// of that of newer ones. tree.CheckConsistency checks it.
func (c *Client) Consistency(ctx context.Context, older, newer uint64) ([]record.Ref, error) {
	rep, err := wire.Ask(ctx, c.keepers, wire.Consistency, wire.ConsistencyRequest{Older: older, Newer: newer})
	return rep.Path, err
}

// Tile returns a C2SP tlog-tile of the log, or an entry bundle, unchecked.
func (c *Client) Tile(ctx context.Context, q wire.TileRequest) ([]byte, error) {
	rep, err := wire.Ask(ctx, c.keepers, wire.Tile, q)
	return rep.Data, err
}

// Backup has a keeper of which the caller is the operator copy its ledger to a folder on
// its own machine, and returns the tree head that the copy has at least.
func (c *Client) Backup(ctx context.Context, id record.NodeID, dir string) (wire.HeadReply, error) {
	return wire.Call(ctx, c.end, id, wire.Backup, wire.BackupRequest{Dir: dir})
}
