package node

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"idlemesh/ledger"
	"idlemesh/ledger/quorum"
	"idlemesh/ledger/record"
	"idlemesh/mesh"
	"idlemesh/mesh/wire"
)

// share keeps l together with the mesh file's other keepers.
func (n *Node) share(l *ledger.Ledger, c ledger.Config) (err error) {
	n.quorum, err = quorum.Open(filepath.Join(n.cfg.Dir, "quorum"), quorum.Config{
		Ledger: l, Key: n.key, Mesh: n.mesh, Heartbeat: n.cfg.Heartbeat, FS: c.FS, MinFree: c.MinFree, Now: c.Now, Log: c.Log,
		Open: func(ctx context.Context, to record.NodeID) (io.ReadWriteCloser, error) {
			return n.end.Open(ctx, to, mesh.Raft)
		},
	})
	if err != nil {
		return err
	}
	n.closers = append(n.closers, n.quorum.Close)
	n.runs = append(n.runs, n.quorum.Run)
	wire.HandleStream(&n.mux, wire.Quorum, n.keepers)
	wire.Handle(&n.mux, wire.Seat, n.seat)
	return nil
}

// shares reports whether this node is one of several keepers.
func (n *Node) shares() bool { return n.cfg.Keeper && len(n.mesh.Value.Keepers) > 1 }

func (n *Node) protocols() []string {
	all := []string{mesh.Control, mesh.Blob}
	if n.shares() {
		all = append(all, mesh.Raft)
	}
	return all
}

func (n *Node) handlers() map[string]mesh.Handler {
	all := map[string]mesh.Handler{mesh.Control: n.serve, mesh.Blob: n.blobs.Serve}
	if n.quorum != nil {
		all[mesh.Raft] = n.quorum.Serve
	}
	return all
}

func (n *Node) keepers(ctx context.Context, _ wire.Caller, _ wire.QuorumRequest, send func(wire.KeeperInfo) error) error {
	for _, s := range n.quorum.Members(ctx) {
		err := send(wire.KeeperInfo{ID: s.ID, Member: s.Member, Votes: s.Votes, Leads: s.Leads, Up: s.Up, Size: s.Size, Ahead: record.Span(s.Ahead)})
		if err != nil {
			return err
		}
	}
	return nil
}

// seat changes the members here, where this keeper leads, or where another does.
func (n *Node) seat(ctx context.Context, _ wire.Caller, q wire.SeatRequest) (ok wire.Ack, err error) {
	if err := q.Check(n.mesh, record.At(n.cfg.Now())); err != nil {
		return ok, err
	}
	if s := q.Seating.Value; s.Remove {
		err = n.quorum.Remove(ctx, s.Keeper)
	} else {
		err = n.quorum.Add(ctx, s.Keeper)
	}
	var follows *quorum.NotLeaderError
	switch {
	case errors.As(err, &follows) && !q.Direct:
		q.Direct = true
		return wire.Call(ctx, n.end, follows.Leader, wire.Seat, q)
	case errors.Is(err, quorum.ErrMember):
		err = wire.Refuse(wire.Invalid, err.Error())
	case errors.Is(err, ledger.ErrUnordered):
		err = wire.Refuse(wire.Unavailable, err.Error())
	}
	return ok, err
}
