package quorum

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// A machine is what raft drives: the ledger, which gets each committed batch once, at
// its index in raft's log. The ledger is durable and knows its place, so a restart
// neither repeats a batch nor skips one.
type machine struct {
	ledger  *ledger.Ledger
	halt    func(error)
	checked checkedSet
	ended   chan struct{}
	once    sync.Once
}

func newMachine(c Config, halt func(error)) *machine {
	return &machine{ledger: c.Ledger, halt: halt, ended: make(chan struct{})}
}

// stop lets a batch that waits for room on the disk wait no longer.
func (m *machine) stop() { m.once.Do(func() { close(m.ended) }) }

// A result is what raft hands to whoever proposed a batch.
type result struct {
	outs []ledger.Outcome
	err  error
}

// Apply implements raft.FSM.
func (m *machine) Apply(log *raft.Log) any {
	outs, err := m.place(log)
	return result{outs, err}
}

func (m *machine) place(log *raft.Log) ([]ledger.Outcome, error) {
	if log.Index <= m.ledger.Mark() {
		return nil, ledger.ErrPlaced
	}
	var cmd command
	if err := record.Decode(log.Data, &cmd); err != nil { // a majority stored it: all are of another release
		m.halt(fmt.Errorf("batch %d of the keepers' log: %w", log.Index, err))
		return nil, err
	}
	checked, ok := m.checked.take(log.Data)
	if !ok {
		checked = ledger.Check(cmd.Entries)
	}
	for {
		outs, err := m.ledger.Place(checked, ledger.Place{Mark: log.Index, Time: cmd.Time})
		switch {
		case err == nil, errors.Is(err, ledger.ErrPlaced):
			return outs, err
		case !errors.Is(err, ledger.ErrFull):
			m.halt(fmt.Errorf("apply batch %d of the keepers' log: %w", log.Index, err))
			return nil, err
		}
		// A committed batch cannot be refused: it waits for room.
		select {
		case <-time.After(roomInterval):
		case <-m.ended:
			return nil, err
		}
	}
}

// roomInterval is how often a batch that waits for room is tried again.
const roomInterval = 200 * time.Millisecond

// Snapshot implements raft.FSM. There is nothing to copy: see snapshots.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return durable{}, nil }

// Restore implements raft.FSM. The ledger took the copy's place when the copy was
// complete; see snapshots.
func (m *machine) Restore(r io.ReadCloser) error { return r.Close() }

// A durable is a snapshot of what is on disk already.
type durable struct{}

func (durable) Persist(s raft.SnapshotSink) error { return s.Close() }
func (durable) Release()                          {}
