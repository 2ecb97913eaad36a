package node_test

import (
	"bytes"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/wire"
)

// TestCauseOutlivesGateway: why a job ended badly is told by the next gateway as by the
// first, to its tenant alone.
func TestCauseOutlivesGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0))
		c := m.Rich()
		time.Sleep(20 * time.Second)
		far := steps(1)
		far.Needs.Region = "atlantis"
		lost := steps(300)
		lost.Retries = 0
		jobs := map[record.Ref]record.Reason{submit(t, c, far): record.Expired}
		job := submit(t, c, lost)
		jobs[job] = record.GivenUp
		until(t, c, job, wire.Progress)
		m.Sellers[0].Stop()
		before := map[record.Ref]wire.JobEvent{}
		for job, why := range jobs {
			e := first(until(t, c, job, wire.Ended), wire.Ended)
			if e.Reason != why || e.Err == nil || e.Err.Text == "" || e.Err.Next == "" {
				t.Errorf("ended %v, %+v, want %v", e.Reason, e.Err, why)
			}
			before[job] = e
		}
		m.Gate.Stop()
		m.Gate.Start()
		c = m.Client(m.Tenant)
		for job, was := range before {
			e := first(until(t, c, job, wire.Ended), wire.Ended)
			if e.Reason != was.Reason || !reflect.DeepEqual(e.Err, was.Err) {
				t.Errorf("after the restart it ended %v, %+v; before %v, %+v", e.Reason, e.Err, was.Reason, was.Err)
			}
		}
		for i, err := range c.Jobs(t.Context(), wire.JobsRequest{}) {
			if err != nil || !reflect.DeepEqual(i.Err, before[i.Job].Err) {
				t.Errorf("the list says %+v, %v", i.Err, err)
			}
		}
		unsaid(t, c, before)
	})
}

// unsaid checks that the public log says nothing of why jobs ended but a reason.
func unsaid(t *testing.T, c *client.Client, ends map[record.Ref]wire.JobEvent) {
	t.Helper()
	for row, err := range c.Query(t.Context(), wire.QueryRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range ends {
			if bytes.Contains(row.Entry, []byte(e.Err.Text)) {
				t.Errorf("entry %d says %q", row.Index, e.Err.Text)
			}
		}
	}
}
