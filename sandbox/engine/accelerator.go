package engine

import (
	"context"

	"idlemesh/gpu/kernel"
)

// An Accelerator is the device as one run has it; Close frees all the run left.
// Spent may be called at any time, the rest by one goroutine.
type Accelerator interface {
	Alloc(size uint64) (kernel.Buffer, error)
	Free(kernel.Buffer) error
	// Load returns a read-only buffer of size bytes, which fill gives piece by piece, unless
	// one of that name is on the device already.
	Load(name string, size uint64, fill func(off uint64, p []byte) error) (kernel.Buffer, error)
	Write(b kernel.Buffer, off uint64, p []byte) error
	Read(b kernel.Buffer, off uint64, p []byte) error
	Submit(cmds []kernel.Command) (kernel.Event, error)
	Wait(context.Context, kernel.Event) error
	Spent() kernel.Spent
	Close() error
}

// An OpenFunc opens a run's Accelerator, with a quota of vram bytes (zero means all
// the device has) and metered against ref.
type OpenFunc func(vram uint64, ref kernel.Reference) Accelerator
