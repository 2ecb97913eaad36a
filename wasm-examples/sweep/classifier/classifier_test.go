package classifier_test

import (
	"errors"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
	"idlemesh/wasm-examples/sweep/classifier"
)

func session(t *testing.T, vram uint64) *gpu.Session {
	s := gpu.New(cpu.New(0), 0).Session(vram, kernel.Reference{FLOPS: 1e12, Bandwidth: 1e12})
	t.Cleanup(func() { s.Close() })
	return s
}

func train(t *testing.T, rate float32) classifier.Result {
	t.Helper()
	last := 0
	r, err := classifier.Train(session(t, 0), rate, 90, func(done int) { last = done })
	if err != nil {
		t.Fatal(err)
	}
	if last != 90 {
		t.Errorf("the last progress says %d of 90 steps", last)
	}
	return r
}

func TestARateInTheMiddleIsBest(t *testing.T) {
	slow, right, fast := train(t, 0.001), train(t, 1), train(t, 100)
	if right.Accuracy < 0.65 || right.Loss > 1 {
		t.Errorf("at rate 1 it learns nothing: %+v", right)
	}
	if slow.Loss < 1.5*right.Loss || fast.Loss < 1.5*right.Loss {
		t.Errorf("loss is %.3f, %.3f, %.3f at rates 0.001, 1, 100: nothing to find out", slow.Loss, right.Loss, fast.Loss)
	}
}

func TestItRepeats(t *testing.T) {
	if a, b := train(t, 0.3), train(t, 0.3); a != b {
		t.Errorf("trained twice: %+v and %+v", a, b)
	}
}

func TestSmallDevice(t *testing.T) {
	if _, err := classifier.Train(session(t, 4096), 1, 1, func(int) {}); !errors.Is(err, gpu.ErrQuota) {
		t.Errorf("on 4 KiB: %v, want ErrQuota", err)
	}
}
