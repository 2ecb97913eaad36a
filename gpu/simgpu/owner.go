package simgpu

import (
	"fmt"
	"math"
	"strings"
	"time"

	"idlemesh/gpu/nvml"
)

// An Owner pretends to use a simulated card, on and off: the last Works of every Every
// since Since. It shows what the sensors of a card in such use would; what the mesh's own
// tasks do to a card it does not pretend. It is a sensor as nvml.Sensor is.
type Owner struct {
	Since        time.Time
	Works, Every time.Duration
	Now          func() time.Time // nil means time.Now
}

// ParseOwner reads WORKS/EVERY, such as 20s/2m.
func ParseOwner(s string, now time.Time) (Owner, error) {
	works, every, ok := strings.Cut(s, "/")
	w, err := time.ParseDuration(works)
	e, err2 := time.ParseDuration(every)
	if !ok || err != nil || err2 != nil || w <= 0 || e <= w {
		return Owner{}, fmt.Errorf("%q is not WORKS/EVERY, such as 20s/2m", s)
	}
	return Owner{Since: now, Works: w, Every: e}, nil
}

// Read returns one sample, of the simulated card.
func (o Owner) Read([]int) ([]nvml.Sample, error) {
	now := o.Now
	if now == nil {
		now = time.Now
	}
	busy := now().Sub(o.Since)%o.Every - (o.Every - o.Works) // negative while he does nothing
	x := nvml.Sample{Model: "simulated", Memory: nvml.Unknown, Used: nvml.Unknown, PowerLimit: nvml.Unknown, Energy: nvml.Unknown,
		ECC: nvml.Unknown, MIG: nvml.Unknown, Display: nvml.Unknown, Celsius: cool, Milliwatts: 30_000}
	if busy >= 0 {
		x.Load, x.ForeignLoad, x.Foreign, x.Milliwatts = 90, 90, 1, 300_000
		x.Celsius += int((hot - cool) * (1 - math.Exp(-busy.Seconds()/60)))
	}
	return []nvml.Sample{x}, nil
}

// What a simulated card's temperature is in the end, in °C, without and with work; it
// takes about a minute to get there.
const cool, hot = 35, 78
