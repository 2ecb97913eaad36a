// Package nvml reads NVIDIA GPUs' sensors: load, others' processes, temperature, power,
// energy, ECC, throttling, MIG.
//
// It computes nothing on a GPU and needs no CUDA, so the agent may open it. What a
// driver cannot tell is Unknown, never zero; a call that it lacks is not made, and one
// device that answers nothing hides no other.
package nvml

import "errors"

// ErrNoDriver is in the error of Open when there is no NVML to load.
var ErrNoDriver = errors.New("no NVML driver")

// Unknown is the value of a field that the driver cannot tell.
const Unknown = -1

// A Sample is one device at one moment. Fields mean what the DCGM fields of these names do.
type Sample struct {
	Index  int // by PCI bus
	UUID   string
	Model  string
	Bus    string // PCI, such as 00000000:65:00.0
	Memory int64  // bytes that the card has
	Used   int64  // bytes of them

	Load        int   // percent of the last moments in which a kernel ran
	ForeignLoad int   // the part of it that is not ours
	Foreign     int   // processes that compute and are not ours; those that draw are not counted
	Celsius     int   // of the GPU
	Milliwatts  int   // now
	PowerLimit  int   // milliwatts
	Energy      int64 // millijoules since the driver was loaded
	ECC         int64 // uncorrected errors since then
	MIG         int   // 1 when the card is partitioned
	Display     int   // 1 when it drives a display

	Throttle []string // what holds its clocks down now; nil when nothing does or none can tell
}

// reasons are the bits of NVML's clocks event reasons that slow a card down.
var reasons = [...]struct {
	bit  uint64
	name string
}{
	{0x04, "power cap"}, {0x08, "hardware slowdown"}, {0x20, "thermal, by software"}, {0x40, "thermal, by hardware"}, {0x80, "power brake"},
}

func throttled(bits uint64) (why []string) {
	for _, r := range reasons {
		if bits&r.bit != 0 {
			why = append(why, r.name)
		}
	}
	return why
}
