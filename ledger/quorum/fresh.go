package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Fresh returns once this keeper's ledger has all that any keeper had acknowledged when
// it was called: what is read then is no older. Without a leader it is an error, and
// what is read may be old.
func (m *Member) Fresh(ctx context.Context) error {
	size, err := m.fresh(ctx)
	if err == nil {
		err = m.cfg.Ledger.Await(ctx, size)
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// fresh is the size that the leader's ledger has, or had since the call.
func (m *Member) fresh(ctx context.Context) (uint64, error) {
	r, err := m.leading()
	if err == nil {
		return m.lead(ctx, r)
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

// lead verifies that this keeper still leads, and returns how far its ledger is. A
// follower may have applied what this one has committed and not yet applied, and somebody
// may have read it there: so all that is committed must be applied here first.
func (m *Member) lead(ctx context.Context, r *raft.Raft) (uint64, error) {
	term := r.CurrentTerm()
	m.mu.Lock()
	known := m.term == term
	m.mu.Unlock()
	if !known { // what earlier leaders acknowledged may not be applied yet
		if err := r.Barrier(changeTime).Error(); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrNoLeader, err)
		}
	}
	if err := m.applied(ctx, r.CommitIndex()); err != nil {
		return 0, err
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

// applied returns once the ledger has every batch up to index of raft's log. Raft's own
// mark says only what it has handed over.
func (m *Member) applied(ctx context.Context, index uint64) error {
	last, err := m.logs.lastCommand(index)
	if err != nil {
		return err
	}
	for m.cfg.Ledger.Mark() < last {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// A readReply is a leader's answer to a follower that is asked to read.
type readReply struct {
	Size uint64 `cbor:"1,keyasint"`
	Why  string `cbor:"2,keyasint,omitempty"` // why not
}

func (m *Member) read(ctx context.Context) readReply {
	r, err := m.leading()
	if err != nil {
		return readReply{Why: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	size, err := m.lead(ctx, r)
	if err != nil {
		return readReply{Why: err.Error()}
	}
	return readReply{Size: size}
}
