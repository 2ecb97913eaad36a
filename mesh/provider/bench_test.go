package provider

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/gpu/kernel"
	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
	"idlemesh/sandbox/frame"
)

// measuring starts workers that measure at once, and counts them; with nothing to tell
// they never end.
func measuring(n *int, m kernel.Measured) sandbox.StartFunc {
	return func(context.Context) (*sandbox.Process, error) {
		*n++
		agent, own := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			c := frame.NewConn(own)
			defer c.Close()
			for {
				f, err := c.Receive()
				switch {
				case err != nil:
					return
				case f.Type == frame.TypeSetup:
					info, _ := cbor.Marshal(kernel.Info{Model: "cpu", Backend: "cpu"})
					c.Send(frame.TypeHello, 0, frame.Hello{Device: info, Hardware: "this chip"})
				case f.Type == frame.TypeMeasure && m.FLOPS > 0:
					b, _ := cbor.Marshal(m)
					c.Send(frame.TypeMeasured, 0, frame.Measured{End: true, Result: b})
				}
			}
		}()
		return &sandbox.Process{Conn: agent, Kill: own.Close, Wait: func() error { <-done; return nil }}, nil
	}
}

// TestGauge: what is advertised comes from the file where that holds for this device,
// else from one measurement, which the file then keeps.
func TestGauge(t *testing.T) {
	m := kernel.Measured{FLOPS: 200e9, Bandwidth: 20e9} // 10 and 40 ‰
	bench := func(key identity.Key, change func(*record.Bench)) []byte {
		b := record.Bench{Model: "cpu", Backend: "cpu", Hardware: "this chip", FLOPS: 600e9, Bandwidth: 10e9, At: record.At(time.Now())} // 30 and 20 ‰
		change(&b)
		s, err := record.Sign(key, b)
		if err != nil {
			t.Fatal(err)
		}
		return s.Raw()
	}
	same, stranger := func(*record.Bench) {}, newKey(t)
	for name, tc := range map[string]struct {
		file      func(identity.Key) []byte
		gauge     time.Duration
		change    func(*Provider)
		speed     uint32
		measuring int
	}{
		"nothing, and no time": {speed: 1},
		"nothing":              {gauge: time.Second, speed: 10, measuring: 1},
		"a bench":              {file: func(k identity.Key) []byte { return bench(k, same) }, gauge: time.Second, speed: 20},
		"another's bench":      {file: func(identity.Key) []byte { return bench(stranger, same) }, gauge: time.Second, speed: 10, measuring: 1},
		"other hardware": {file: func(k identity.Key) []byte { return bench(k, func(b *record.Bench) { b.Hardware = "that chip" }) },
			gauge: time.Second, speed: 10, measuring: 1},
		"too old": {file: func(k identity.Key) []byte {
			return bench(k, func(b *record.Bench) { b.At -= record.Span(31 * 24 * time.Hour) })
		},
			gauge: time.Second, speed: 10, measuring: 1},
		"of tomorrow": {file: func(k identity.Key) []byte {
			return bench(k, func(b *record.Bench) { b.At += record.Span(24 * time.Hour) })
		},
			gauge: time.Second, speed: 10, measuring: 1},
		"nonsense":                 {file: func(identity.Key) []byte { return []byte("nonsense") }, gauge: time.Second, speed: 10, measuring: 1},
		"endless":                  {file: func(identity.Key) []byte { return make([]byte, maxBench+1) }, gauge: time.Second, speed: 10, measuring: 1},
		"not for sale":             {gauge: time.Second, change: func(p *Provider) { p.claim.State = policy.Reclaimed }, speed: 1},
		"at work":                  {gauge: time.Second, change: func(p *Provider) { p.running = 1 }, speed: 1},
		"simulated, a model's own": {gauge: time.Second, change: func(p *Provider) { p.device.Simulated, p.device.Speed = true, 77 }, speed: 77},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			key, path := newKey(t), filepath.Join(t.TempDir(), "bench")
			if tc.file != nil {
				if err := os.WriteFile(path, tc.file(key), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			open := func() *Provider {
				p, err := New(Config{Key: key, Bench: path, Gauge: tc.gauge, Mesh: record.Mesh{Params: record.DefaultParams()},
					Pool: sandbox.NewPool(sandbox.Config{Start: measuring(&n, m)})})
				if err != nil {
					t.Fatal(err)
				}
				p.device, p.hardware = record.Device{Model: "cpu", Backend: "cpu", Speed: 1}, "this chip"
				if tc.change != nil {
					tc.change(p)
				}
				p.gauge(t.Context())
				p.gauge(t.Context())
				return p
			}
			for range 2 { // the second time after a restart
				p := open()
				a := record.Advert{Device: p.device, Bench: p.bench}
				if p.device.Speed != tc.speed || n != tc.measuring || p.device.Speed > a.Proven(key.PublicKey(), record.DefaultParams()) {
					t.Errorf("speed %d after %d measurements, want %d after %d", p.device.Speed, n, tc.speed, tc.measuring)
				}
			}
		})
	}
}

// TestGaugeFollows: what the command measures while the node runs is advertised.
func TestGaugeFollows(t *testing.T) {
	p := start(t, 1)
	p.cfg.Bench, p.cfg.Mesh.Params = filepath.Join(t.TempDir(), "bench"), record.DefaultParams()
	p.gauge(t.Context())
	for i, flops := range []uint64{200e9, 400e9} {
		b, err := record.Sign(p.cfg.Key, record.Bench{FLOPS: flops, Bandwidth: 500e9, At: record.At(time.Now())})
		if err != nil {
			t.Fatal(err)
		}
		if err := StoreBench(p.cfg.Bench, b); err != nil {
			t.Fatal(err)
		}
		p.gauge(t.Context())
		if want := uint32(10 * (i + 1)); p.device.Speed != want {
			t.Errorf("speed %d, want %d", p.device.Speed, want)
		}
	}
}

// TestGaugeYields: nothing is sold while the device is measured, and an owner who takes it
// back ends that; it is measured when he has done.
func TestGaugeYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p, err := New(Config{Key: newKey(t), Gauge: time.Second, Policy: policy.Policy{Slots: 2}, Mesh: record.Mesh{Params: record.DefaultParams()},
			Pool: sandbox.NewPool(sandbox.Config{Start: measuring(&n, kernel.Measured{})})})
		if err != nil {
			t.Fatal(err)
		}
		p.life, p.device = t.Context(), record.Device{Model: "cpu", Backend: "cpu", Speed: 1}
		gateway := newKey(t)
		job, err := record.Sign(newKey(t), record.Job{Tier: record.Bronze, Delegate: gateway.ID(), Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.gauge(t.Context())
		}()
		synctest.Wait()
		if _, err := p.bid(t.Context(), wire.Caller{ID: gateway.ID()}, wire.Solicitation{Job: job, N: 1}); !wire.Is(err, wire.Unavailable) {
			t.Errorf("a bid while it is measured: %v", err)
		}
		if o, err := p.obey(t.Context(), wire.Caller{}, wire.WishRequest{Wish: uint8(policy.Pause)}); err != nil || o.State != policy.Reclaimed.String() {
			t.Errorf("pause: %+v, %v", o, err)
		}
		<-done
		if p.bench != nil || p.gauged || n != 1 {
			t.Errorf("after a pause: bench %v, tried %v, %d workers", p.bench, p.gauged, n)
		}
		p.gauge(t.Context()) // still paused
		if n != 1 {
			t.Error("it was measured while its owner has it")
		}
	})
}
