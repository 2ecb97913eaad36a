package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Fresh returns once this keeper's ledger has all that any keeper had acknowledged when
// it was called: what is read then is no older. Without a leader it is an error, and
// what is read may be old.
func (m *Member) Fresh(ctx context.Context) error {
	size, err := m.fresh(ctx)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	for {
		grown := m.cfg.Ledger.Grown()
		if m.cfg.Ledger.Head().Size >= size {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("read: %w", context.Cause(ctx))
		}
	}
}

// fresh is the size that the leader's ledger has, or had since the call.
func (m *Member) fresh(ctx context.Context) (uint64, error) {
	r, err := m.leading()
	if err == nil {
		return m.lead(r)
	}
	var follows *NotLeaderError
	if !errors.As(err, &follows) {
		return 0, err
	}
	rep, err := call[ask, readReply](ctx, m, follows.Leader, forRead, ask{})
	if err == nil && rep.Why != "" {
		err = errors.New(rep.Why)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	return rep.Size, nil
}

// lead verifies that this keeper still leads, and returns how far its ledger is.
func (m *Member) lead(r *raft.Raft) (uint64, error) {
	term := r.CurrentTerm()
	m.mu.Lock()
	known := m.term == term
	m.mu.Unlock()
	if !known { // what earlier leaders acknowledged may not be applied yet
		if err := r.Barrier(changeTime).Error(); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrNoLeader, err)
		}
	}
	size := m.cfg.Ledger.Head().Size
	if err := r.VerifyLeader().Error(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	if r.CurrentTerm() != term {
		return 0, ErrNoLeader
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = term
	return size, nil
}

// A readReply is a leader's answer to a follower that is asked to read.
type readReply struct {
	Size uint64 `cbor:"1,keyasint"`
	Why  string `cbor:"2,keyasint,omitempty"` // why not
}

func (m *Member) read() readReply {
	r, err := m.leading()
	if err != nil {
		return readReply{Why: err.Error()}
	}
	size, err := m.lead(r)
	if err != nil {
		return readReply{Why: err.Error()}
	}
	return readReply{Size: size}
}
