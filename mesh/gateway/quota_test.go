package gateway

import (
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// TestQuota: what is kept for one account is bounded, whatever it sends, and others have
// their own.
func TestQuota(t *testing.T) {
	c := newTown(t)
	g, me, other := c.gate, c.tenant.ID(), record.NodeID{7}
	g.cfg.Quota = 1000
	ref := func(n byte) record.Ref { return record.Ref{n, 99} }
	for _, x := range []struct {
		who  record.NodeID
		ref  byte
		size int64
		may  bool
	}{
		{me, 1, 1001, false}, {me, 1, 1 << 62, false}, {me, 1, 600, true}, {me, 1, 600, true}, // again is once
		{me, 2, 401, false}, {other, 2, 1000, true}, {me, 2, 400, true}, {me, 3, 1, false}, {me, 4, 0, true},
	} {
		if g.MayStore(x.who, ref(x.ref), x.size) != x.may {
			t.Errorf("%s sends %d bytes: want %v", x.who.Short(), x.size, x.may)
		}
	}
	q := c.request(0) // names a module of six bytes
	if _, err := c.submit(q); !wire.Is(err, wire.Funds) {
		t.Errorf("a job of more than its tenant may have here: %v", err)
	}
	if b := c.earned(me); b != 5*record.Credit {
		t.Errorf("the refused job has cost %v", 5*record.Credit-b)
	}
	g.sweep(g.now() + uploadFor + 1000)
	if len(g.shelves) != 0 {
		t.Errorf("%d shelves of what is no longer kept", len(g.shelves))
	}
	if _, err := c.submit(q); err != nil {
		t.Errorf("an hour later: %v", err)
	}
	if s := g.shelves[me]; s == nil || s.bytes != int64(module.Size) {
		t.Errorf("its job's module is not counted: %+v", s)
	}
}

// TestProviderHandsOver: a provider sends beside his share what his leases leave, and
// what a job has left is its tenant's from then on.
func TestProviderHandsOver(t *testing.T) {
	c := newTown(t)
	g, v, me := c.gate, record.NodeID{8}, c.tenant.ID()
	g.mu.Lock()
	g.cfg.Quota = 1000
	g.leases[record.Ref{1}] = tenure{nil, v, 5000}
	g.mu.Unlock()
	out := record.Blob{Ref: record.Ref{2}, Size: 5500}
	if !g.MayStore(v, out.Ref, int64(out.Size)) || g.MayStore(v, record.Ref{3}, 501) {
		t.Error("his leases' outputs are not what he may send more")
	}
	g.mu.Lock()
	g.handedLocked(v, me, g.now()+day, []record.Blob{out})
	a, b := g.shelves[v].bytes, g.shelves[me].bytes
	delete(g.leases, record.Ref{1})
	g.mu.Unlock()
	if a != 0 || b != 5500 {
		t.Errorf("the provider has %d bytes, the tenant %d", a, b)
	}
	if g.MayStore(me, record.Ref{4}, 1) {
		t.Error("a tenant whose outputs fill his share sends more")
	}
}

// TestEmptyNamesPinNothing: a blob that a job says is empty is not kept for it.
func TestEmptyNamesPinNothing(t *testing.T) {
	big := record.Blob{Ref: record.Ref{1}, Size: 0}
	if refs := refsOf([]record.Blob{big, module}); len(refs) != 1 || refs[0] != module.Ref {
		t.Errorf("pins %v", refs)
	}
}
