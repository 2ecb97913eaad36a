package gateway

import (
	"math"
	"strings"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

func newKey(t testing.TB) identity.Key {
	t.Helper()
	k, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign[T record.Record](t testing.TB, k identity.Key, v T) record.Signed[T] {
	t.Helper()
	s, err := record.Sign(k, v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLyingReceipt lists what a provider may not claim: the ledger would pay for it.
func TestLyingReceipt(t *testing.T) {
	node, gateway := newKey(t), newKey(t)
	device := record.Device{Model: "card", Speed: 2000}
	bid := sign(t, node, record.Bid{Device: device})
	c := carried{
		lease: sign(t, gateway, record.Lease{Bid: bid, Job: record.Ref{1}, Shard: 3, Attempt: 2}),
		terms: record.Job{Limits: record.Limits{Wall: 60_000}},
		body:  record.Body{Module: record.Blob{Ref: record.Ref{2}}, Inputs: []record.Input{{Blob: record.Blob{Ref: record.Ref{3}}}}},
		took:  10_000,
	}
	honest := record.Receipt{Lease: c.lease.Ref(), Job: record.Ref{1}, Shard: 3, Attempt: 2, Module: record.Ref{2}, Inputs: c.body.InputsRef(),
		Outputs: record.Ref{4}, Device: device, End: record.Exited, Usage: record.Usage{Meter: record.CPUTime, Work: 20e9}}
	for name, tc := range map[string]struct {
		change func(*record.Receipt, *carried)
		ok     bool
	}{
		"honest":                        {func(*record.Receipt, *carried) {}, true},
		"small products are fast":       {func(r *record.Receipt, _ *carried) { r.Usage.Work = 100e9 }, true},
		"a hundred times its speed":     {func(r *record.Receipt, _ *carried) { r.Usage.Work = 2000e9 }, false},
		"all that 64 bits hold":         {func(r *record.Receipt, _ *carried) { r.Usage.Work = math.MaxUint64 }, false},
		"work after the limit":          {func(r *record.Receipt, c *carried) { c.took, r.Usage.Work = 3_600_000, 2000e9 }, false},
		"a slow device in its cache":    {func(r *record.Receipt, c *carried) { slow(t, r, c, 1); r.Usage.Work = 9e9 }, true},
		"a slow device as a card":       {func(r *record.Receipt, c *carried) { slow(t, r, c, 1); r.Usage.Work = 11e9 }, false},
		"a clock that went back":        {func(r *record.Receipt, c *carried) { c.took = -5000 }, false},
		"another lease":                 {func(r *record.Receipt, _ *carried) { r.Lease[0]++ }, false},
		"another shard":                 {func(r *record.Receipt, _ *carried) { r.Shard++ }, false},
		"another module":                {func(r *record.Receipt, _ *carried) { r.Module[0]++ }, false},
		"other inputs":                  {func(r *record.Receipt, _ *carried) { r.Inputs[0]++ }, false},
		"another device":                {func(r *record.Receipt, _ *carried) { r.Device.Speed++ }, false},
		"no end":                        {func(r *record.Receipt, _ *carried) { r.End = 0 }, false},
		"unknown end":                   {func(r *record.Receipt, _ *carried) { r.End = 200 }, false},
		"no meter":                      {func(r *record.Receipt, _ *carried) { r.Usage.Meter = 0 }, false},
		"no outputs":                    {func(r *record.Receipt, _ *carried) { r.Outputs = record.Ref{} }, false},
		"lost, so no outputs":           {func(r *record.Receipt, _ *carried) { r.Outputs, r.End = record.Ref{}, record.NodeLost }, true},
		"cancelled by nobody":           {func(r *record.Receipt, _ *carried) { r.End = record.Cancelled }, false},
		"cancelled":                     {func(r *record.Receipt, c *carried) { r.End, c.stop = record.Cancelled, true }, true},
		"out of time after ten seconds": {func(r *record.Receipt, _ *carried) { r.End = record.TimedOut }, false},
		"out of time":                   {func(r *record.Receipt, c *carried) { r.End, c.took = record.TimedOut, 60_000 }, true},
	} {
		r, c := honest, c
		tc.change(&r, &c)
		if err := c.check(r); (err == nil) != tc.ok || err != nil && !wire.Is(err, wire.Unverified) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// slow makes the lease one of a device of that speed.
func slow(t *testing.T, r *record.Receipt, c *carried, speed uint32) {
	k := newKey(t)
	r.Device.Speed = speed
	l := c.lease.Value
	l.Bid = sign(t, k, record.Bid{Device: r.Device})
	c.lease = sign(t, k, l)
	r.Lease = c.lease.Ref()
}

func TestLyingManifest(t *testing.T) {
	c := carried{terms: record.Job{Limits: record.Limits{Output: 100}}}
	asked := c
	asked.body.Record = true
	size := func(ref record.Ref) (int64, bool) { return int64(ref[0]), ref[0] != 0 }
	of := func(n byte) record.Blob { return record.Blob{Ref: record.Ref{n}, Size: uint64(n)} }
	files := func(names ...string) (m record.Manifest) {
		for _, n := range names {
			m.Outputs = append(m.Outputs, record.Output{Name: n, Blob: of(1)})
		}
		return m
	}
	for name, tc := range map[string]struct {
		m  record.Manifest
		ok bool
	}{
		"nothing":            {record.Manifest{}, true},
		"files":              {files("a", "b/c"), true},
		"the log comes free": {record.Manifest{Stdout: of(100), Log: of(90)}, true},
		"twice":              {files("a", "a"), false},
		"out of order":       {files("b", "a"), false},
		"leaves the folder":  {files("../a"), false},
		"absolute":           {files("/etc/passwd"), false},
		"no name":            {files(""), false},
		"the folder itself":  {files("."), false},
		"too much":           {record.Manifest{Stdout: of(60), Stderr: of(41)}, false},
		"not here":           {record.Manifest{Stdout: record.Blob{Size: 5}}, false},
		"another size":       {record.Manifest{Stdout: record.Blob{Ref: record.Ref{7}, Size: 8}}, false},
		"half a key":         {record.Manifest{Stdout: record.Blob{Ref: record.Ref{7}, Size: 7, Key: make([]byte, 16)}}, false},
		"a measure":          {record.Manifest{Metrics: []record.Metric{{Name: "loss", Value: -0.5}}}, true},
		"no number":          {record.Manifest{Metrics: []record.Metric{{Name: "loss", Value: math.NaN()}}}, false},
		"no finite number":   {record.Manifest{Metrics: []record.Metric{{Name: "loss", Value: math.Inf(-1)}}}, false},
		"a long story":       {record.Manifest{Error: strings.Repeat("x", maxError+1)}, false},
	} {
		if err := c.checkManifest(tc.m, size); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := record.Manifest{Stdout: of(100), Transcript: of(90)}
	if err := c.checkManifest(m, size); err == nil {
		t.Error("a transcript that nobody asked for is taken")
	}
	if err := asked.checkManifest(m, size); err != nil {
		t.Errorf("a transcript that was asked for: %v", err)
	}
	m.Transcript.Size = maxTranscript + 1
	if err := asked.checkManifest(m, func(record.Ref) (int64, bool) { return maxTranscript + 1, true }); err == nil {
		t.Error("a transcript of any length is taken")
	}
}

func TestHostileEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		e  wire.LeaseEvent
		ok bool
	}{
		"stdout":         {wire.LeaseEvent{Channel: wire.Stdout, Data: make([]byte, maxSaid)}, true},
		"more than fits": {wire.LeaseEvent{Channel: wire.Stdout, Data: make([]byte, maxSaid+1)}, false},
		"no channel":     {wire.LeaseEvent{Channel: wire.Log + 1}, false},
		"long text":      {wire.LeaseEvent{Text: strings.Repeat("x", maxText+1)}, false},
	} {
		if err := checkEvent(tc.e); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSlowWatcher: what waits for him is bounded in bytes, and what he reads makes room.
func TestSlowWatcher(t *testing.T) {
	e := &ear{queue: make(chan *wire.JobEvent, maxQueued)}
	for range 100 {
		e.put(&wire.JobEvent{Data: make([]byte, maxSaid)})
	}
	if n := len(e.queue); n != maxHeard/maxSaid {
		t.Errorf("%d events wait", n)
	}
	e.bytes.Add(-int64(len((<-e.queue).Data)))
	if e.put(&wire.JobEvent{Data: make([]byte, maxSaid)}); len(e.queue) != maxHeard/maxSaid {
		t.Error("no room after a read")
	}
	for range 2 * maxQueued {
		e.put(&wire.JobEvent{})
	}
	if len(e.queue) != maxQueued {
		t.Errorf("%d events wait", len(e.queue))
	}
}
