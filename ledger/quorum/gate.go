package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// A gate stands between raft and the other keepers: a follower stores no batch that it
// would not apply, so what a lying leader makes up finds no majority.
type gate struct {
	*raft.NetworkTransport
	m  *Member
	in chan raft.RPC
}

func newGate(m *Member) *gate {
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: m.layer, MaxPool: 3, Timeout: 10 * time.Second, Logger: logger(m.cfg.Log),
	})
	return &gate{NetworkTransport: t, m: m, in: make(chan raft.RPC)}
}

// Consumer implements raft.Transport.
func (g *gate) Consumer() <-chan raft.RPC { return g.in }

// run passes on what is good until ctx ends.
func (g *gate) run(ctx context.Context) {
	for {
		select {
		case rpc := <-g.NetworkTransport.Consumer():
			if err := g.judge(rpc); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			select {
			case g.in <- rpc:
			case <-ctx.Done():
				rpc.Respond(nil, raft.ErrTransportShutdown)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (g *gate) judge(rpc raft.RPC) error {
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok {
		return nil
	}
	for _, l := range req.Entries {
		if l.Type != raft.LogCommand {
			continue
		}
		fresh := l.Term == req.Term && l.Index > req.LeaderCommitIndex
		if err := g.m.judge(l.Data, fresh); err != nil {
			err = fmt.Errorf("batch %d of term %d: %w", l.Index, l.Term, err)
			g.m.cfg.Log.Warn("quorum: this keeper refuses what the leader sent", "err", err)
			return err
		}
	}
	return nil
}

// judge verifies one command, and remembers that it did. A batch that others may have
// waited with since before the leader's time need not be of this moment.
func (m *Member) judge(data []byte, fresh bool) error {
	var cmd command
	if err := record.Decode(data, &cmd); err != nil {
		return err
	}
	if err := onTime(cmd.Time, record.At(m.cfg.Now()), fresh); err != nil {
		return err
	}
	checked := ledger.Check(cmd.Entries)
	for i := range cmd.Entries {
		if err := checked.Err(i); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	m.fsm.checked.put(data, checked)
	return nil
}

// onTime is the rule for ledger time: no batch is from the future, and a fresh one is
// not from the past.
func onTime(batch, now record.Millis, fresh bool) error {
	ahead := (batch - now).Duration()
	switch {
	case ahead > skew:
		return fmt.Errorf("%w: the batch is %v ahead", ErrClock, ahead)
	case fresh && -ahead > skew:
		return fmt.Errorf("%w: the batch is %v behind", ErrClock, -ahead)
	}
	return nil
}

func (g *gate) close() error {
	g.CloseStreams()
	return g.NetworkTransport.Close()
}
