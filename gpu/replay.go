package gpu

import (
	"math"
	"sync/atomic"

	"idlemesh/gpu/kernel"
)

// Replay names the device that computes nothing.
const Replay = "replay"

// An absent backend takes everything and gives nothing back.
type absent struct{ last atomic.Uint32 }

func (*absent) Info() kernel.Info {
	return kernel.Info{Model: "none", Backend: Replay, VRAM: math.MaxInt64}
}

func (a *absent) Alloc(uint64) (kernel.Buffer, error)          { return kernel.Buffer(a.last.Add(1)), nil }
func (*absent) Free(kernel.Buffer)                             {}
func (*absent) Write(kernel.Buffer, uint64, []byte) error      { return nil }
func (*absent) Read(kernel.Buffer, uint64, []byte) error       { return nil }
func (*absent) Launch(<-chan struct{}, []kernel.Command) error { return nil }
func (*absent) Close() error                                   { return nil }
