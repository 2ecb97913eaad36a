package quorum

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// Limits of one batch in the keepers' log.
const (
	maxEntries = 512
	maxBytes   = 1 << 20
	maxAppend  = 16 // batches that a leader sends at once
)

// skew is how far a batch's time may be from a keeper's clock.
const skew = 30 * time.Second

// A command is a batch as raft carries it.
type command struct {
	Time    record.Millis `cbor:"1,keyasint"`
	Entries []record.Raw  `cbor:"2,keyasint"`
}

// Order implements ledger.Orderer: it returns once a majority of keepers has the batch
// on disk and this one has applied it. A keeper that follows returns a *NotLeaderError.
func (m *Member) Order(_ context.Context, batch []record.Raw) ([]ledger.Outcome, error) {
	outs, err := m.order(batch)
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	return outs, nil
}

func (m *Member) order(batch []record.Raw) ([]ledger.Outcome, error) {
	r, err := m.leading()
	if err != nil {
		return nil, err
	}
	outs := make([]ledger.Outcome, len(batch))
	var sent []proposal
	for from := 0; from < len(batch); {
		n := fits(batch[from:])
		p, err := m.propose(r, batch[from:from+n], outs[from:from+n])
		if err != nil {
			return nil, err
		}
		sent = append(sent, p)
		from += n
	}
	for _, p := range sent {
		if err := m.await(p); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// fits is how many entries of batch go into one command; at least one.
func fits(batch []record.Raw) int {
	size := 0
	for i, raw := range batch {
		if size += len(raw); i > 0 && (size > maxBytes || i == maxEntries) {
			return i
		}
	}
	return len(batch)
}

// leading returns raft where this keeper leads.
func (m *Member) leading() (*raft.Raft, error) {
	if err := m.broken(); err != nil {
		return nil, err
	}
	r := m.running()
	if r == nil {
		return nil, ErrNoLeader
	}
	if r.State() == raft.Leader {
		return r, nil
	}
	if id, ok := m.Leader(); ok && id != m.id {
		return nil, &NotLeaderError{id}
	}
	return nil, ErrNoLeader
}

// A proposal is a command under way, and where its entries' outcomes go.
type proposal struct {
	future raft.ApplyFuture // nil where no entry was fit to be proposed
	good   []*ledger.Outcome
}

// propose gives raft what is fit of a batch. An entry that its own bytes refuse is
// never proposed: the others would refuse the whole command for it.
func (m *Member) propose(r *raft.Raft, batch []record.Raw, outs []ledger.Outcome) (proposal, error) {
	checked := ledger.Check(batch)
	var (
		p   proposal
		cmd command
	)
	for i := range batch {
		if outs[i].Err = checked.Err(i); outs[i].Err == nil {
			p.good, cmd.Entries = append(p.good, &outs[i]), append(cmd.Entries, batch[i])
		}
	}
	if len(p.good) == 0 {
		return p, nil
	}
	now := record.At(m.cfg.Now())
	if cmd.Time = max(now, m.cfg.Ledger.Time()); cmd.Time-now > record.Span(skew) {
		m.abdicate("its clock is behind ledger time")
		return p, fmt.Errorf("%w: the clock is %v behind", ErrClock, (cmd.Time - now).Duration())
	}
	data, err := record.Encode(cmd)
	if err != nil {
		return p, err
	}
	m.fsm.checked.put(data, checked.Good())
	p.future = r.Apply(data, 0)
	return p, nil
}

// await returns when the proposal is applied here, or its fate is unknown.
func (m *Member) await(p proposal) error {
	if p.future == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- p.future.Error() }() // ends with leadership at the latest
	stalled := time.NewTimer(m.cfg.Stall)
	defer stalled.Stop()
	var err error
	select {
	case err = <-done:
	case <-stalled.C:
		m.abdicate("the others do not take its batches")
		err = <-done
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	res, ok := p.future.Response().(result)
	if !ok || res.err == nil && len(res.outs) != len(p.good) {
		return errors.New("the batch was applied without its outcomes")
	}
	for i, o := range res.outs {
		*p.good[i] = o
	}
	return res.err
}

// abdicate falls silent for so long that another is elected. Raft has no other way: a
// leader whom the others still hear, but do not believe, would lead for ever.
func (m *Member) abdicate(why string) {
	m.cfg.Log.Warn("quorum: this keeper stops leading", "why", why)
	m.layer.mute(6 * m.cfg.Heartbeat)
}

// A checkedSet remembers batches that were verified and wait to be applied. It is
// bounded: a batch that it has dropped is verified again.
type checkedSet struct {
	mu    sync.Mutex
	sets  map[[32]byte]ledger.Checked
	order [][32]byte
}

const maxChecked = 4 * maxAppend

func (c *checkedSet) put(data []byte, b ledger.Checked) {
	sum := sha256.Sum256(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.sets = map[[32]byte]ledger.Checked{}
	}
	if len(c.order) == maxChecked {
		delete(c.sets, c.order[0])
		c.order = c.order[1:]
	}
	c.sets[sum], c.order = b, append(c.order, sum)
}

func (c *checkedSet) take(data []byte) (ledger.Checked, bool) {
	sum := sha256.Sum256(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.sets[sum]
	return b, ok
}
