package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"idlemesh/gpu/kernel"
)

// TestGemmIsOneChain holds the unrolled, packed and shared-out gemm to the table's
// definition, bit by bit, over shapes that end inside tiles, chains and bands.
func TestGemmIsOneChain(t *testing.T) {
	for _, s := range [][3]int{{1, 1, 1}, {1, 6, 385}, {1, 70, 1200}, {2, 5, 383}, {7, 9, 768}, {65, 13, 100}, {130, 20, 50}} {
		for flags := range uint16(4) {
			t.Run(fmt.Sprint(s, flags), func(t *testing.T) {
				m, n, k := s[0], s[1], s[2]
				a, b := inexact(1, m*k), inexact(2, k*n)
				ta, tb := flags&kernel.TransA != 0, flags&kernel.TransB != 0
				got := multiply(t, m, n, k, flags, a, b)
				for i := range m {
					for j := range n {
						var sum, part float32
						for p := range k {
							x, y := a[pick(ta, p*m+i, i*k+p)], b[pick(tb, j*k+p, p*n+j)]
							part = exact(x, y, part)
							if p%384 == 383 || p == k-1 {
								sum, part = sum+part, 0
							}
						}
						if got[i*n+j] != sum {
							t.Fatalf("element %d, %d is %x, want %x", i, j, got[i*n+j], sum)
						}
					}
				}
			})
		}
	}
}

func TestThreadsDoNotShow(t *testing.T) {
	a, b := inexact(3, 150*400), inexact(4, 400*170)
	want := multiply(t, 150, 170, 400, 0, a, b)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, threads := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(threads)
		if got := multiply(t, 150, 170, 400, 0, a, b); !slices.Equal(got, want) {
			t.Errorf("%d threads change the result", threads)
		}
	}
}

// inexact returns numbers whose sums round at every step.
func inexact(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 9))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(12)))
	}
	return v
}

func multiply(t *testing.T, m, n, k int, flags uint16, a, b []float32) []float32 {
	t.Helper()
	d := New(0)
	c := kernel.Command{Op: kernel.Gemm, Flags: flags, M: uint32(m), N: uint32(n), K: uint32(k)}
	for i, o := range []*kernel.Operand{&c.Dst, &c.A, &c.B} {
		o.Buffer, _ = d.Alloc(uint64(4 * []int{m * n, m * k, k * n}[i]))
	}
	copy(floats(d.bufs[c.A.Buffer]), a)
	copy(floats(d.bufs[c.B.Buffer]), b)
	if err := d.Launch(nil, []kernel.Command{c}); err != nil {
		t.Fatal(err)
	}
	return floats(d.bufs[c.Dst.Buffer])
}

func TestStopEndsALaunch(t *testing.T) {
	d := New(0)
	h, _ := d.Alloc(1 << 20)
	stop := make(chan struct{})
	close(stop)
	c := kernel.Command{Op: kernel.Fill, M: 1, N: 1 << 18, Dst: kernel.Operand{Buffer: h}, Params: [10]uint32{1}}
	if err := d.Launch(stop, []kernel.Command{c}); err != ErrStopped {
		t.Errorf("Launch = %v, want ErrStopped", err)
	}
	if d.bufs[h][0] != 0 {
		t.Error("a stopped launch still ran")
	}
}

func TestFreedMemoryIsZero(t *testing.T) {
	d := New(1 << 20)
	var kept [][]uint32
	fill := func() kernel.Buffer {
		h, err := d.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		words := d.bufs[h]
		for i := range words {
			words[i] = 7
		}
		kept = append(kept, words)
		return h
	}
	d.Free(fill())
	fill()
	d.Close()
	for i, words := range kept {
		if slices.ContainsFunc(words, func(w uint32) bool { return w != 0 }) {
			t.Errorf("buffer %d keeps its words", i)
		}
	}
	if _, err := d.Alloc(1 << 20); err != nil {
		t.Errorf("freed memory is still counted: %v", err)
	}
}

// TestGiantWindows runs commands that are small but for a kernel or a stride beyond all
// measure: what they take follows from what they cost.
func TestGiantWindows(t *testing.T) {
	const most = 1<<16 - 1
	d := New(0)
	h, _ := d.Alloc(4096)
	g, _ := d.Alloc(4096)
	wide, _ := d.Alloc(1 << 26)
	at := func(b kernel.Buffer) kernel.Operand { return kernel.Operand{Buffer: b} }
	for name, c := range map[string]kernel.Command{
		"pool": {Op: kernel.Pool2D, M: 1, Dst: at(h), A: at(g),
			Params: [10]uint32{4, 4, 8, 8, most | most<<16, 1 | 1<<16, (most - 1) | (most-1)<<16, 0, kernel.MaxOf}},
		"dilated pool": {Op: kernel.Pool2D, M: 1, Dst: at(h), A: at(g),
			Params: [10]uint32{4, 4, 8, 8, most | most<<16, 1 | 1<<16, 9 | 9<<16, most | most<<16, kernel.MeanOf}},
		"stride": {Op: kernel.Conv2DBackData, M: 1, N: 1000, K: 1, Dst: at(wide), A: at(h), B: at(g),
			Params: [10]uint32{4000, 4000, 1, 1, 1 | 1<<16, most | most<<16}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := d.Launch(nil, []kernel.Command{c}); err != nil {
				t.Error(err)
			}
		})
	}
}
