package sandbox_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"idlemesh/sandbox"
)

// TestProcessCap lets guests nest calls and ask for memory in a small worker: they are
// stopped before it dies.
func TestProcessCap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are capped on Linux only")
	}
	p := openPool(t, sandbox.Config{Memory: 200 << 20})
	wasm := guest{code: call(0)}.wasm()
	res, err := p.Execute(t.Context(), "mallory", spec(wasm), newHost(wasm))
	if err != nil || res.End != sandbox.Trapped || !strings.Contains(res.Error, "nest too deep") {
		t.Errorf("Execute = %+v, %v", res, err)
	}
	g := guest{pages: 16_000}
	s := spec(g.wasm())
	s.Limits.Memory = 2 << 30
	if res, err := p.Execute(t.Context(), "mallory", s, newHost(g.wasm())); err != nil || res.End != sandbox.OverLimit {
		t.Errorf("memory at the start beyond the process: %+v, %v", res, err)
	}
	hello := printing(1, "hello").wasm()
	if res, err := p.Execute(t.Context(), "alice", spec(hello), newHost(hello)); err != nil || res.End != sandbox.Exited {
		t.Errorf("a small run under the cap: %+v, %v", res, err)
	}
}

// BenchmarkStart is how long a tenant's first job waits where there is no spare.
func BenchmarkStart(b *testing.B) {
	wasm := guest{}.wasm()
	for b.Loop() {
		p := sandbox.NewPool(sandbox.Config{})
		if res, err := p.Execute(b.Context(), "alice", spec(wasm), newHost(wasm)); err != nil || res.End != sandbox.Exited {
			b.Fatal(res, err)
		}
		stopped(b, p)
	}
}

// BenchmarkIdle reports the resident memory of a spare worker.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		p := sandbox.NewPool(sandbox.Config{})
		if _, err := p.Probe(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(childrenRSS(b))/(1<<20), "MB")
		stopped(b, p)
	}
}

// stopped ends p's workers and waits for them.
func stopped(b *testing.B, p *sandbox.Pool) {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		b.Fatal(err)
	}
}

// childrenRSS sums the resident bytes of this process's children.
func childrenRSS(b *testing.B) (sum int) {
	for _, pid := range children(b) {
		status, _ := os.ReadFile("/proc/" + pid + "/status")
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		if f := strings.Fields(rest); len(f) > 0 {
			kb, _ := strconv.Atoi(f[0])
			sum += kb << 10
		}
	}
	return sum
}
