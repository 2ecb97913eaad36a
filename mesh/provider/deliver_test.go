package provider

import (
	"context"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

// pipe opens streams to one store.
type pipe struct {
	to   *blob.Store
	from record.NodeID
}

func (p pipe) Open(ctx context.Context, _ record.NodeID, _ string) (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	go p.to.Serve(context.WithoutCancel(ctx), p.from, there)
	return here, nil
}

// TestFullGateway: a gateway that has no room is told the receipt all the same, and finds
// the outputs where they are.
func TestFullGateway(t *testing.T) {
	yes := func(record.NodeID, record.Ref, bool) bool { return true }
	for name, c := range map[string]blob.Config{
		"disk":  {May: yes, Size: 100},
		"share": {May: yes, Room: func(record.NodeID, record.Ref, int64) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, 1)
			gateway, err := blob.Open("", nil, c)
			if err != nil {
				t.Fatal(err)
			}
			if p.cfg.Blobs, err = blob.Open("", pipe{gateway, p.cfg.Key.ID()}, blob.Config{}); err != nil {
				t.Fatal(err)
			}
			out, err := p.cfg.Blobs.PutBytes(make([]byte, 5000))
			if err != nil {
				t.Fatal(err)
			}
			me := newKey(t).ID()
			n := noteOf(t, 1)
			n.Job = signed(t, record.Job{Delegate: me})
			l := &lease{signed: n.Lease, job: n.Job}
			sealed := []byte("sealed")
			r := *n.Receipt
			r.Outputs = blob.Sum(sealed)
			e, err := p.deliver(t.Context(), l, me, r, []record.Ref{out}, sealed)
			if err != nil || e.Receipt == nil || e.Receipt.Value.Outputs != r.Outputs || gateway.Has(out) {
				t.Fatalf("told %+v, %v", e, err)
			}
			p.leases[n.Lease.Ref()] = l
			l.told = true
			if !p.MayRead(me, out) || !p.MayRead(me, r.Outputs) || p.MayRead(record.NodeID{9}, out) {
				t.Error("the gateway, and nobody else, may fetch them")
			}
			if l.until() < l.endedAt+keepUntold {
				t.Error("they are forgotten in minutes")
			}
		})
	}
}

// TestMetricsThatAreNoNumbers are left out of the manifest.
func TestMetricsThatAreNoNumbers(t *testing.T) {
	p := start(t, 1)
	tenant := newKey(t)
	job, err := record.Sign(tenant, record.Job{})
	if err != nil {
		t.Fatal(err)
	}
	res := sandbox.Result{Metrics: []sandbox.Metric{{Name: "a", Value: math.NaN()}, {Name: "b", Value: 2}, {Name: "c", Value: math.Inf(1)}}}
	sealed, err := p.manifest(&run{}, &lease{job: job}, record.NodeID{}, res)
	if err != nil {
		t.Fatal(err)
	}
	opener, err := identity.NewOpener(tenant)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := opener.Open(sealed, wire.SealManifest)
	if err != nil {
		t.Fatal(err)
	}
	var m record.Manifest
	if err := record.Decode(plain, &m); err != nil || len(m.Metrics) != 1 || m.Metrics[0].Name != "b" {
		t.Errorf("metrics %+v, %v", m.Metrics, err)
	}
}

// TestProgressFlood: listeners hear of progress a few times a second, and the newest in
// the end.
func TestProgressFlood(t *testing.T) {
	l := &lease{ears: map[chan *wire.LeaseEvent]bool{}}
	c := make(chan *wire.LeaseEvent, ear)
	l.ears[c] = true
	begin := time.Now()
	for i := range 100_000 {
		l.say(wire.LeaseEvent{Done: uint64(i)})
	}
	if most := int(time.Since(begin)/hush) + 2; len(c) > most || len(c) == 0 || l.last.Done != 99_999 {
		t.Errorf("%d events were told, at most %d should; the newest is %d", len(c), most, l.last.Done)
	}
}
