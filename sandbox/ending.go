package sandbox

import (
	"fmt"
	"slices"

	"idlemesh/sandbox/transcript"
)

// Transcript is the output that a recorded run leaves its transcript in.
const Transcript = "transcript"

// An Ending is what a recorded run came to: the Data of its transcript's End, CBOR. Two
// runs of one module by one Spec have one Ending, wherever they run.
type Ending struct {
	Exit    uint32   `cbor:"1,keyasint"`
	End     End      `cbor:"2,keyasint"`
	Fuel    uint64   `cbor:"3,keyasint"`
	Work    uint64   `cbor:"4,keyasint"` // nanoseconds of the reference GPU, of kernels
	FLOP    uint64   `cbor:"5,keyasint"`
	Bytes   uint64   `cbor:"6,keyasint"`
	Memory  uint64   `cbor:"7,keyasint"`
	Metrics []Metric `cbor:"8,keyasint,omitempty"`
	Outputs []Output `cbor:"9,keyasint,omitempty"` // sorted by name
}

// An Output is one that a run left, by the name that Host.Create got; "log" has a line
// for each event of the log: its level's number, a space, and the text.
type Output struct {
	Name string   `cbor:"1,keyasint"`
	Size uint64   `cbor:"2,keyasint"` // bytes
	Sum  [32]byte `cbor:"3,keyasint"` // BLAKE3
}

// Differs says in what other, a replay's, is not what e was; empty when it is the same.
func (e Ending) Differs(other Ending) string {
	for _, x := range [...]struct {
		what    string
		was, is uint64
	}{
		{"exit code", uint64(e.Exit), uint64(other.Exit)}, {"end", uint64(e.End), uint64(other.End)},
		{"fuel", e.Fuel, other.Fuel}, {"work", e.Work, other.Work}, {"FLOP", e.FLOP, other.FLOP},
		{"bytes of kernels", e.Bytes, other.Bytes}, {"memory", e.Memory, other.Memory},
		{"number of outputs", uint64(len(e.Outputs)), uint64(len(other.Outputs))},
	} {
		if x.was != x.is {
			return fmt.Sprintf("%s is %d, recorded is %d", x.what, x.is, x.was)
		}
	}
	for i, o := range e.Outputs {
		if o != other.Outputs[i] {
			return fmt.Sprintf("output %s has other bytes than were recorded", clip(o.Name, 80))
		}
	}
	if !slices.Equal(e.Metrics, other.Metrics) {
		return "metrics are others than were recorded"
	}
	return ""
}

// transcript is how many bytes the run's transcript may have.
func (s Spec) transcript() uint64 {
	if s.Record || s.Replay.Size > 0 {
		return transcript.Max
	}
	return 0
}
