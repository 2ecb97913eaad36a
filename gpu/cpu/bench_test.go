package cpu

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"idlemesh/gpu/kernel"
)

func BenchmarkSgemm(b *testing.B) {
	for _, n := range []int{256, 1024, 2048} {
		for _, threads := range []int{1, 2} {
			beside(b, fmt.Sprintf("n=%d/threads=%d", n, threads), threads, kernel.Command{
				Op: kernel.Gemm, M: uint32(n), N: uint32(n), K: uint32(n),
			}, 2e-9*float64(n)*float64(n)*float64(n), "GFLOP/s")
		}
	}
}

func BenchmarkGemv(b *testing.B) {
	const n, k = 4096, 4096
	for _, threads := range []int{1, 2} {
		for _, flags := range []uint16{kernel.TransB, 0} {
			name := fmt.Sprintf("%s/threads=%d", map[uint16]string{0: "rows", kernel.TransB: "columns"}[flags], threads)
			beside(b, name, threads, kernel.Command{Op: kernel.Gemm, Flags: flags, M: 1, N: n, K: k}, 4e-9*n*k, "GB/s")
		}
	}
}

func BenchmarkRows(b *testing.B) {
	const n = 4096
	for name, op := range map[string]kernel.Op{"softmax": kernel.Softmax, "rmsnorm": kernel.RMSNorm, "swiglu": kernel.SwiGLU} {
		beside(b, name, 1, kernel.Command{Op: op, M: 1, N: n, K: 1}, 1e-6*n, "Mwords/s")
	}
}

// beside measures a command with and without vector kernels: work done a second.
func beside(b *testing.B, name string, threads int, c kernel.Command, work float64, unit string) {
	for _, vectors := range []bool{true, false} {
		if vectors && !hasVectors() || !vectors && threads > 1 {
			continue
		}
		b.Run(name+map[bool]string{true: "", false: "/plain"}[vectors], func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			d, c := New(0), c
			d.vectors = vectors
			r := rand.New(rand.NewPCG(1, 1))
			for i, o := range []*kernel.Operand{&c.Dst, &c.A, &c.B} {
				o.Buffer, _ = d.Alloc(uint64(4 * []uint32{c.M * c.N, c.M * max(c.K, c.N), c.K * c.N}[i]))
				for j := range d.bufs[o.Buffer] {
					floats(d.bufs[o.Buffer])[j] = r.Float32()
				}
			}
			for b.Loop() {
				if err := d.Launch(nil, []kernel.Command{c}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(work*float64(b.N)/b.Elapsed().Seconds(), unit)
			b.ReportMetric(0, "ns/op")
		})
	}
}
