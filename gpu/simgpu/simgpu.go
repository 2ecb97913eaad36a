// Package simgpu pretends to be a fleet of GPUs: a model, VRAM, a speed, heat and
// an owner who comes and goes, computed on the processor.
//
// It serves `meshctl dev` and tests. Every Info says Simulated, and a mesh pays
// for simulated work only where its parameters allow it.
package simgpu

import (
	"fmt"

	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

// A Model is one simulated card.
type Model struct {
	Name  string
	VRAM  uint64 // bytes
	Speed uint32 // thousandths of the reference GPU
}

// A Backend computes on the processor and says it is simulated.
type Backend struct {
	*cpu.Backend
	model Model
}

var models = [...]Model{
	{"rtx4090", 24 << 30, 1000},
	{"rtx3060", 12 << 30, 400},
	{"t4", 16 << 30, 250},
}

// New returns the simulated card of that name.
func New(name string) (*Backend, error) {
	for _, m := range models {
		if m.Name == name {
			return &Backend{cpu.New(), m}, nil
		}
	}
	return nil, fmt.Errorf("no simulated model %q", name)
}

// Info describes the simulated card.
func (b *Backend) Info() kernel.Info {
	return kernel.Info{Model: b.model.Name, Backend: "simulated", VRAM: b.model.VRAM, Speed: b.model.Speed, Simulated: true}
}
