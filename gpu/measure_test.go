package gpu_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
)

// TestMeasure measures as briefly as can be: all is measured, nothing stays.
func TestMeasure(t *testing.T) {
	d := gpu.New(cpu.New(256<<20), 0)
	var steps []gpu.Step
	m, err := d.Measure(t.Context(), 1, func(s gpu.Step) { steps = append(steps, s) })
	if err != nil {
		t.Fatal(err)
	}
	if m.FLOPS == 0 || m.Bandwidth == 0 || m.Tokens == 0 || m.Write == 0 || m.Read == 0 {
		t.Errorf("Measure = %+v, want all of it", m)
	}
	for i, s := range steps {
		if s.Done != i || s.Total != 5 || s.Name == "" {
			t.Errorf("step %d is %+v", i, s)
		}
	}
	if b, err := d.Session(0, ref).Alloc(256 << 20); err != nil {
		t.Errorf("something stayed in memory: %v %v", b, err)
	}
	t.Logf("%+v", m)
}

func TestMeasureEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := gpu.New(cpu.New(256<<20), 0)
	_, err := d.Measure(ctx, time.Millisecond, func(s gpu.Step) {
		if s.Done == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Measure = %v, want the context's end", err)
	}
	if _, err := gpu.New(cpu.New(1<<20), 0).Measure(t.Context(), 1, nil); !errors.Is(err, gpu.ErrQuota) {
		t.Errorf("a device of a megabyte: %v, want ErrQuota", err)
	}
}
