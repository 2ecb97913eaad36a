package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/wire"
)

// tight is a store that has no room while it is full; what it would not take then can be
// fetched later.
type tight struct {
	*blob.Store
	mu   sync.Mutex
	full bool
	away map[record.Ref][]byte
}

func (s *tight) fill(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

func (s *tight) PutAll(until record.Millis, blobs ...[]byte) ([]record.Ref, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		for _, b := range blobs {
			s.away[blob.Sum(b)] = b
		}
		return nil, fmt.Errorf("put: %w", blob.ErrFull)
	}
	return s.Store.PutAll(until, blobs...)
}

func (s *tight) Fetch(_ context.Context, ref record.Ref, _ int64, _ func(int64), _ ...record.NodeID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return fmt.Errorf("fetch: %w", blob.ErrFull)
	}
	if b, ok := s.away[ref]; ok {
		_, err := s.Store.PutBytes(b)
		return err
	}
	return blob.ErrMissing
}

// TestFullAtSettlement: that a gateway's disk is full when a run ends costs its provider
// nothing, and the outputs are fetched once there is room.
func TestFullAtSettlement(t *testing.T) {
	c := newTown(t)
	s := &tight{Store: c.blobs, away: map[record.Ref][]byte{}}
	c.gate.cfg.Blobs = s
	var outputs record.Ref
	v := &villain{ask: 1000, lie: func(r *record.Receipt) { outputs = r.Outputs }, hook: func(verb string, _ int64) error {
		s.fill(verb == "start")
		return nil
	}}
	v.open(c)
	q := c.request(0)
	if _, err := c.submit(q); err != nil {
		t.Fatal(err)
	}
	if kinds, last := c.end(q); last.Reason != record.Finished || c.earned(v.key.ID()) == 0 {
		t.Fatalf("ended with %v, %v after %v; the provider earned %v", last.Reason, last.Err, kinds, c.earned(v.key.ID()))
	}
	collect := func(full bool) (debts int) {
		s.fill(full)
		c.gate.sweep(c.gate.now())
		c.gate.work.Wait()
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		return len(c.gate.debts)
	}
	if n := collect(true); n != 1 || c.blobs.Has(outputs) {
		t.Errorf("%d debts while it is full", n)
	}
	if n := collect(false); n != 0 || !c.blobs.Has(outputs) || !c.gate.MayRead(c.tenant.ID(), outputs) {
		t.Errorf("%d debts once there is room, the manifest is here: %v", n, c.blobs.Has(outputs))
	}
}

// TestFlood: a run that talks without end is heard at a bounded rate, and settled.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 5000
		c := newTown(t)
		v := &villain{ask: 1000}
		v.open(c)
		var took time.Duration
		wire.HandleStream(v.mux, wire.Start, func(ctx context.Context, who wire.Caller, q wire.StartRequest, send func(wire.LeaseEvent) error) error {
			begin := time.Now()
			for i := range events {
				if err := send(wire.LeaseEvent{Done: uint64(i), Total: 1, Text: "x"}); err != nil {
					return err
				}
			}
			took = time.Since(begin)
			return v.start(ctx, who, q, send)
		})
		q := c.request(0)
		if _, err := c.submit(q); err != nil {
			t.Fatal(err)
		}
		if _, last := c.end(q); last.Reason != record.Finished {
			t.Errorf("ended with %v, %v", last.Reason, last.Err)
		}
		if least := (events - burst - 10) * beat; took < least {
			t.Errorf("%d events in %v, want no less than %v", events, took, least)
		}
	})
}
