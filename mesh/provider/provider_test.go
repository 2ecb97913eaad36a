package provider

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

func newKey(t *testing.T) identity.Key {
	t.Helper()
	k, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// start returns a provider that believes itself running, with its blobs on disk.
func start(t *testing.T, slots uint32) *Provider {
	t.Helper()
	blobs, err := blob.Open(t.TempDir(), nil, blob.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	p, err := New(Config{Key: newKey(t), Blobs: blobs, Policy: policy.Policy{Slots: slots}})
	if err != nil {
		t.Fatal(err)
	}
	p.life = t.Context()
	return p
}

// TestManyReads reads a chunk at a time from more blobs than a run may hold open.
func TestManyReads(t *testing.T) {
	p := start(t, 1)
	r := &run{p: p, reads: map[string]record.Blob{}}
	var names []string
	for i := range 3 * maxOpened {
		ref, err := p.cfg.Blobs.PutBytes(bytes.Repeat([]byte{byte(i)}, 40<<10))
		if err != nil {
			t.Fatal(err)
		}
		b := record.Blob{Ref: ref, Size: 40 << 10}
		if i%2 == 0 {
			b.Key = make([]byte, 32)
		}
		names = append(names, r.name(b).Blob)
	}
	for off := int64(0); off < 40<<10; off += 8 << 10 {
		for i, name := range names {
			at, err := r.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			var b [1]byte
			if _, err := at.ReadAt(b[:], off); err != nil {
				t.Fatal(err)
			}
			if i%2 == 1 && b[0] != byte(i) {
				t.Fatalf("blob %d at %d has %d", i, off, b[0])
			}
			if len(r.opened) > maxOpened {
				t.Fatalf("%d blobs are open, want at most %d", len(r.opened), maxOpened)
			}
		}
	}
	if r.close(); len(r.opened) != 0 {
		t.Error("close left readers open")
	}
}

// TestOutputOfStoppedRun: what was printed before the tenant stopped the run is kept,
// however much it is.
func TestOutputOfStoppedRun(t *testing.T) {
	p := start(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	r := &run{p: p, ctx: ctx, outputs: map[string]record.Blob{}}
	w, err := r.Create("stdout")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	b := make([]byte, 3<<20)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || r.outputs["stdout"].Size != 3<<20 {
		t.Errorf("closed with %v, stored %d bytes", err, r.outputs["stdout"].Size)
	}
}

// TestBidsAtOnce asks from many sides at once: no more bids than slots.
func TestBidsAtOnce(t *testing.T) {
	const slots = 5
	p := start(t, slots)
	gateway, tenant := newKey(t), newKey(t)
	job, err := record.Sign(tenant, record.Job{Tier: record.Bronze, Delegate: gateway.ID(), Shards: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		got int
	)
	for range 50 {
		wg.Go(func() {
			r, err := p.bid(t.Context(), wire.Caller{ID: gateway.ID()}, wire.Solicitation{Job: job, N: 1 << 31})
			if err != nil && !wire.Is(err, wire.Unavailable) {
				t.Errorf("bid: %v", err)
			}
			mu.Lock()
			got += len(r.Bids)
			mu.Unlock()
		})
	}
	wg.Wait()
	if got != slots || len(p.holds) != slots || p.bidding != 0 {
		t.Errorf("%d bids, %d holds, %d being signed, for %d slots", got, len(p.holds), p.bidding, slots)
	}
}

// TestHostileFolder: a folder that lies is the tenant's fault, never the node's.
func TestHostileFolder(t *testing.T) {
	pack := []sandbox.Input{{Blob: "x", Size: 100}}
	for name, tc := range map[string]struct {
		file record.TreeFile
		ok   bool
	}{
		"whole pack":         {record.TreeFile{Path: "a/b", Size: 100}, true},
		"empty, of no pack":  {record.TreeFile{Path: "a", Pack: 9}, true},
		"leaves the folder":  {record.TreeFile{Path: "../a", Size: 1}, false},
		"absolute":           {record.TreeFile{Path: "/a", Size: 1}, false},
		"no name":            {record.TreeFile{Size: 1}, false},
		"other pack":         {record.TreeFile{Path: "a", Pack: 1, Size: 1}, false},
		"pack that wraps":    {record.TreeFile{Path: "a", Pack: 1<<32 - 1, Size: 1}, false},
		"behind the pack":    {record.TreeFile{Path: "a", Offset: 101, Size: 1}, false},
		"longer than it":     {record.TreeFile{Path: "a", Offset: 99, Size: 2}, false},
		"sum that overflows": {record.TreeFile{Path: "a", Offset: 50, Size: 1<<64 - 10}, false},
	} {
		if _, err := lies(tc.file, pack); (err == nil) != tc.ok || err != nil && !errors.Is(err, errBody) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := &run{p: start(t, 1), reads: map[string]record.Blob{}}
	ref, err := r.p.cfg.Blobs.PutBytes([]byte("no tree"))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]record.Blob{
		"no CBOR":     {Ref: ref, Size: 7},
		"too long":    {Ref: ref, Size: 1 << 40},
		"bad key":     {Ref: ref, Size: 7, Key: []byte("short")},
		"other bytes": {Ref: ref, Size: 7, Key: make([]byte, 32)},
	} {
		if err := r.unfold(record.Input{Name: "x", Dir: true, Blob: b}, map[string]sandbox.Input{}); !errors.Is(err, errBody) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEndedLeases: a receipt that nobody heard waits for a day, others for ten minutes.
func TestEndedLeases(t *testing.T) {
	p := start(t, 1)
	now := time.Now()
	p.cfg.Now = func() time.Time { return now }
	for i, told := range []bool{true, false} {
		l := &lease{finish: make(chan struct{}), endedAt: p.now(), told: told}
		close(l.finish)
		p.leases[record.Ref{byte(i)}] = l
	}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{9 * time.Minute, 2}, {2 * time.Minute, 1}, {23 * time.Hour, 1}, {time.Hour, 0}} {
		now = now.Add(step.after)
		if p.forget(); len(p.leases) != step.left {
			t.Errorf("%v later %d leases answer, want %d", step.after, len(p.leases), step.left)
		}
	}
}

// TestLateListener hears how far the run is, what follows, and the end.
func TestLateListener(t *testing.T) {
	p := start(t, 1)
	key := newKey(t)
	job, err := record.Sign(key, record.Job{Delegate: key.ID()})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := record.Sign(key, record.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	l := &lease{signed: signed, job: job, ears: map[chan *wire.LeaseEvent]bool{}, finish: make(chan struct{})}
	p.leases[signed.Ref()] = l
	l.say(wire.LeaseEvent{Done: 3, Total: 9})
	l.say(wire.LeaseEvent{Channel: wire.Stdout, Data: []byte("x")})
	receipt := record.Signed[record.Receipt]{}
	l.end = &wire.LeaseEvent{Receipt: &receipt}
	close(l.finish)
	var got []wire.LeaseEvent
	err = p.start(t.Context(), wire.Caller{ID: key.ID()}, wire.StartRequest{Lease: signed}, func(e wire.LeaseEvent) error {
		got = append(got, e)
		return nil
	})
	if err != nil || len(got) != 2 || got[0].Done != 3 || got[1].Receipt == nil || !l.told {
		t.Errorf("heard %+v, %v, told %v", got, err, l.told)
	}
	l.told = false
	gone := errors.New("hung up")
	err = p.start(t.Context(), wire.Caller{ID: key.ID()}, wire.StartRequest{Lease: signed}, func(wire.LeaseEvent) error { return gone })
	if !errors.Is(err, gone) || l.told {
		t.Errorf("a listener who left: %v, told %v", err, l.told)
	}
}
