// Package simgpu pretends to be a GPU of some model: its name, memory and speed,
// computed on the processor.
//
// It serves `meshctl dev` and tests. Every Info says Simulated, and a mesh pays
// for simulated work only where its parameters allow it. A Backend is safe for
// concurrent use as far as cpu's is.
package simgpu

import (
	"fmt"
	"strings"

	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

// HostMemory is what a simulated card really holds at most: buffers beyond it are
// refused, whatever memory the model has.
const HostMemory = 1 << 30

// A Model is one simulated card.
type Model struct {
	Name  string
	VRAM  uint64 // bytes
	Speed uint32 // thousandths of the reference GPU
}

// Models lists the cards that New knows.
var Models = [...]Model{
	{"rtx4090", 24 << 30, 1000},
	{"rtx3090", 24 << 30, 430},
	{"rtx3060", 12 << 30, 155},
	{"a4000", 16 << 30, 230},
	{"l4", 24 << 30, 365},
	{"t4", 16 << 30, 98},
	{"a100", 80 << 30, 1450},
	{"h100", 80 << 30, 2500},
}

// A Backend computes on the processor and says it is simulated.
type Backend struct {
	*cpu.Backend
	model Model
}

// New returns the simulated card of that name.
func New(name string) (*Backend, error) {
	var names []string
	for _, m := range Models {
		if m.Name == name {
			return &Backend{cpu.New(HostMemory), m}, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("no simulated model %q: have %s", name, strings.Join(names, ", "))
}

// Info describes the simulated card.
func (b *Backend) Info() kernel.Info {
	return kernel.Info{Model: b.model.Name, Backend: "simulated", VRAM: b.model.VRAM, Speed: b.model.Speed, Simulated: true}
}
