package gateway

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// A story is what a lying provider tells of a run instead of working: it may change
// the receipt before it is signed, whose it is, and the manifest.
type story struct {
	receipt  func(*record.Receipt)
	manifest record.Manifest
	sealed   func([]byte) []byte // the manifest as it is sent
	stranger bool                // another's signature
	tell     func(ctx context.Context, send func(wire.LeaseEvent) error) error
}

// lying returns the Start of a provider that tells s.
func (v *villain) lying(s story) func(context.Context, wire.Caller, wire.StartRequest, func(wire.LeaseEvent) error) error {
	return func(ctx context.Context, _ wire.Caller, q wire.StartRequest, send func(wire.LeaseEvent) error) error {
		v.starts.Add(1)
		if s.tell != nil {
			return s.tell(ctx, send)
		}
		plain, err := record.Encode(s.manifest)
		if err != nil {
			return err
		}
		sealed, err := identity.NewSealer().Seal(plain, wire.SealManifest, v.gate.cfg.Key.PublicKey())
		if err != nil {
			return err
		}
		l := q.Lease.Value
		r := record.Receipt{Lease: q.Lease.Ref(), Job: l.Job, Shard: l.Shard, Attempt: l.Attempt, Inputs: record.Body{}.InputsRef(), Module: module.Ref,
			Outputs: blob.Sum(sealed), Device: card, End: record.Exited, Usage: record.Usage{Meter: record.CPUTime, Work: 5e8}}
		if s.receipt != nil {
			s.receipt(&r)
		}
		key := v.key
		if s.stranger {
			key = newKey(v.t)
		}
		signed := sign(v.t, key, r)
		if s.sealed != nil {
			sealed = s.sealed(sealed)
		}
		return send(wire.LeaseEvent{Receipt: &signed, Manifest: sealed})
	}
}

// TestLiars: whatever the cheapest provider tells, it is not paid, the other one is,
// and the job ends well.
func TestLiars(t *testing.T) {
	lostBlob := record.Blob{Ref: record.Ref{8}, Size: 5}
	for name, s := range map[string]story{
		"another lease":          {receipt: func(r *record.Receipt) { r.Lease[0]++ }},
		"another job":            {receipt: func(r *record.Receipt) { r.Job[0]++ }},
		"a shard that is not":    {receipt: func(r *record.Receipt) { r.Shard = 1 << 31 }},
		"another's signature":    {stranger: true},
		"all work there is":      {receipt: func(r *record.Receipt) { r.Usage.Work = 1<<64 - 1 }},
		"an hour in no time":     {receipt: func(r *record.Receipt) { r.Usage.Work = 3600e9 }},
		"outputs that are gone":  {manifest: record.Manifest{Stdout: lostBlob}},
		"a file that is gone":    {manifest: record.Manifest{Outputs: []record.Output{{Name: "a", Blob: lostBlob}}}},
		"a file outside":         {manifest: record.Manifest{Outputs: []record.Output{{Name: "../a", Blob: record.Blob{}}}}},
		"another manifest":       {sealed: func(b []byte) []byte { return append(b, 0) }},
		"no manifest":            {sealed: func([]byte) []byte { return nil }},
		"a manifest of nonsense": {receipt: func(r *record.Receipt) { r.Outputs = blob.Sum([]byte("x")) }, sealed: func([]byte) []byte { return []byte("x") }},
		"no end":                 {receipt: func(r *record.Receipt) { r.End = 0 }},
		"lost, after all":        {receipt: func(r *record.Receipt) { r.End, r.Outputs = record.NodeLost, record.Ref{} }},
		"that it gives up": {tell: func(_ context.Context, send func(wire.LeaseEvent) error) error {
			return send(wire.LeaseEvent{Lost: "x"})
		}},
		"a refusal": {tell: func(context.Context, func(wire.LeaseEvent) error) error {
			return wire.Refuse(wire.NotFound, "what lease?")
		}},
		"nothing, and hangs up": {tell: func(context.Context, func(wire.LeaseEvent) error) error { return nil }},
		"nothing, for ever":     {tell: func(ctx context.Context, _ func(wire.LeaseEvent) error) error { <-ctx.Done(); return ctx.Err() }},
		"more than anybody asks": {tell: func(_ context.Context, send func(wire.LeaseEvent) error) error {
			return send(wire.LeaseEvent{Channel: wire.Stdout, Data: bytes.Repeat([]byte("x"), maxSaid+1)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTown(t)
				liar, honest := &villain{ask: 1000}, &villain{ask: 2000}
				liar.open(c)
				honest.open(c)
				wire.HandleStream(liar.mux, wire.Start, liar.lying(s))
				q := c.request(1)
				if _, err := c.submit(q); err != nil {
					t.Fatal(err)
				}
				kinds, last := c.end(q)
				if last.Reason != record.Finished || last.Err != nil {
					t.Errorf("ended with %v, %v after %v", last.Reason, last.Err, kinds)
				}
				if liar.starts.Load() == 0 || c.earned(liar.key.ID()) != 0 || c.earned(honest.key.ID()) == 0 || honest.starts.Load() != 1 {
					t.Errorf("the liar ran %d times for %v, the other %d for %v", liar.starts.Load(), c.earned(liar.key.ID()),
						honest.starts.Load(), c.earned(honest.key.ID()))
				}
				if b := c.earned(c.tenant.ID()); b+c.earned(honest.key.ID()) != 5*record.Credit {
					t.Errorf("the tenant has %v", b)
				}
			})
		})
	}
}

// TestEndlessRun: one that says for ever that it is alive is lost an hour after the
// job's time limit.
func TestEndlessRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTown(t)
		liar, honest := &villain{ask: 1000}, &villain{ask: 2000}
		liar.open(c)
		honest.open(c)
		wire.HandleStream(liar.mux, wire.Start, liar.lying(story{tell: func(ctx context.Context, send func(wire.LeaseEvent) error) error {
			for ctx.Err() == nil {
				if err := send(wire.LeaseEvent{Beat: true}); err != nil {
					return err
				}
				time.Sleep(2 * time.Second)
			}
			return ctx.Err()
		}}))
		q := c.request(1)
		j := q.Job.Value
		j.Expires = record.At(time.Now().Add(3 * time.Hour))
		q.Job = sign(t, c.tenant, j)
		if _, err := c.submit(q); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + 30*time.Second)
		if c.gate.Busy() != 1 || honest.starts.Load() != 0 {
			t.Error("given up too early")
		}
		time.Sleep(40 * time.Second)
		honest.advertise(2)
		time.Sleep(5 * time.Second)
		if c.gate.Busy() != 0 || c.earned(liar.key.ID()) != 0 || c.earned(honest.key.ID()) == 0 {
			t.Errorf("%d jobs are open, the other ran %d times", c.gate.Busy(), honest.starts.Load())
		}
	})
}

// TestSilentBidders: those who do not answer an auction delay it by little.
func TestSilentBidders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTown(t)
		for range 5 {
			v := &villain{ask: 1000}
			v.open(c)
			wire.Handle(v.mux, wire.Solicit, func(ctx context.Context, _ wire.Caller, _ wire.Solicitation) (wire.BidReply, error) {
				<-ctx.Done()
				return wire.BidReply{}, ctx.Err()
			})
		}
		honest := &villain{ask: 2000}
		honest.open(c)
		q := c.request(0)
		begin := time.Now()
		if _, err := c.submit(q); err != nil {
			t.Fatal(err)
		}
		c.end(q)
		if d := time.Since(begin); d > 2*bidTime || c.earned(honest.key.ID()) == 0 {
			t.Errorf("after %v the one who answered has %v", d, c.earned(honest.key.ID()))
		}
	})
}
