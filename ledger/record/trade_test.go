package record

import (
	"crypto/ed25519"
	"testing"
)

// TestProven: a speed counts that a bench of this device by this key shows, and no more.
func TestProven(t *testing.T) {
	p := DefaultParams()
	for name, tc := range map[string]struct {
		device Device
		bench  *Bench
		by     int
		most   uint32
	}{
		"nothing measured":  {Device{Model: "m", Backend: "cuda"}, nil, 0, 1},
		"measured":          {Device{Model: "m", Backend: "cuda"}, &Bench{Model: "m", Backend: "cuda", FLOPS: 40e12, Bandwidth: 750e9}, 0, 1500},
		"computes slowly":   {Device{Model: "m", Backend: "cuda"}, &Bench{Model: "m", Backend: "cuda", FLOPS: 2e12, Bandwidth: 750e9}, 0, 100},
		"next to nothing":   {Device{Model: "m", Backend: "cuda"}, &Bench{Model: "m", Backend: "cuda"}, 0, 1},
		"beyond all bounds": {Device{Model: "m", Backend: "cuda"}, &Bench{Model: "m", Backend: "cuda", FLOPS: 1 << 63, Bandwidth: 1<<64 - 1}, 0, 461168601},
		"another's":         {Device{Model: "m", Backend: "cuda"}, &Bench{Model: "m", Backend: "cuda", FLOPS: 40e12, Bandwidth: 750e9}, 1, 1},
		"another card's":    {Device{Model: "m", Backend: "cuda"}, &Bench{Model: "n", Backend: "cuda", FLOPS: 40e12, Bandwidth: 750e9}, 0, 1},
		"another backend's": {Device{Model: "m", Backend: "cuda"}, &Bench{Model: "m", Backend: "cpu", FLOPS: 40e12, Bandwidth: 750e9}, 0, 1},
		"simulated":         {Device{Model: "m", Simulated: true}, nil, 0, 1<<32 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := Advert{Device: tc.device}
			if tc.bench != nil {
				b, err := Sign(testKey(byte(tc.by)), *tc.bench)
				if err != nil {
					t.Fatal(err)
				}
				a.Bench = &b
			}
			if got := a.Proven(PublicKey(testKey(0).Public().(ed25519.PublicKey)), p); got != tc.most {
				t.Errorf("Proven = %d, want %d", got, tc.most)
			}
		})
	}
}
