package node_test

import (
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/node"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

// TestBusyGuest: a guest that never looks up is ended with its worker process, by its
// tenant or by its time limit. What it has worked by then is paid, and the next job
// finds a worker.
func TestBusyGuest(t *testing.T) {
	s := newSolo(t)
	s.mesh.Value.Params.GuestDiv, s.mesh.Value.Params.Reserve = 1, meshtest.Price
	var err error
	if s.mesh, err = record.Sign(s.key, s.mesh.Value); err != nil {
		t.Fatal(err)
	}
	s.start(t, node.Config{Workers: sandbox.Config{Device: "sim:rtx4090", Grace: 100 * time.Millisecond}})
	defer s.stop()
	if _, err := s.Deposit(t.Context(), s.tenant.ID(), 5*meshtest.Price, "test"); err != nil {
		t.Fatal(err)
	}
	endless := meshtest.Guest{Spin: 1 << 62}.Wasm()
	paid := record.Amount(0)
	for _, want := range []record.End{record.Cancelled, record.TimedOut} {
		r := client.Request{Module: endless, MaxPrice: meshtest.Price}
		if want == record.TimedOut {
			r.Limits.Wall = 500
		}
		job := submit(t, s.Client, r)
		until(t, s.Client, job, wire.Leased)
		if want == record.Cancelled {
			time.Sleep(500 * time.Millisecond) // it works: there is no other sign of it
			if err := s.Cancel(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		settled := first(until(t, s.Client, job, wire.Ended), wire.Settled)
		if settled.Receipt == nil || settled.Receipt.Value.End != want || settled.Price == 0 {
			t.Fatalf("want it %v: %+v", want, settled)
		}
		paid += settled.Price
	}
	done := first(until(t, s.Client, submit(t, s.Client, client.Request{Module: meshtest.Guest{}.Wasm(), MaxPrice: meshtest.Price}), wire.Ended), wire.Settled)
	if done.Receipt == nil || done.Receipt.Value.End != record.Exited {
		t.Errorf("the next job: %+v", done)
	}
	if b, err := s.Balance(t.Context(), s.tenant.ID()); err != nil || b.Free+paid+done.Price != 5*meshtest.Price {
		t.Errorf("the tenant has %v, paid %v, %v", b.Free, paid+done.Price, err)
	}
}
