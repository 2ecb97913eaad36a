package simgpu_test

import (
	"errors"
	"strings"
	"testing"

	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kerneltest"
	"idlemesh/gpu/simgpu"
)

func TestConformance(t *testing.T) {
	b, err := simgpu.New("rtx4090")
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Run(t, b)
}

func TestSimulatedIsSaid(t *testing.T) {
	for _, m := range simgpu.Models {
		b, err := simgpu.New(m.Name)
		if err != nil {
			t.Fatal(err)
		}
		if info := b.Info(); !info.Simulated || info.Backend != "simulated" || info.VRAM != m.VRAM || info.Speed != m.Speed {
			t.Errorf("%s: Info = %+v", m.Name, info)
		}
	}
}

func TestHostMemoryIsNotTheCards(t *testing.T) {
	b, err := simgpu.New("h100")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Alloc(simgpu.HostMemory + 1); !errors.Is(err, cpu.ErrMemory) {
		t.Errorf("Alloc beyond the host's share = %v, want ErrMemory", err)
	}
}

func TestUnknownModel(t *testing.T) {
	if _, err := simgpu.New("rtx9999"); err == nil || !strings.Contains(err.Error(), "rtx4090") {
		t.Errorf("New = %v, want an error that lists the models", err)
	}
}
