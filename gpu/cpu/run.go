package cpu

import (
	"fmt"
	"runtime"
	"sync"

	"idlemesh/gpu/kernel"
)

// A call is one command with its operands at hand: dst, a, b and d begin where the
// command's Dst, A, B and C do.
type call struct {
	c            *kernel.Command
	dst, a, b, d []uint32
	stop         <-chan struct{}
	vectors      bool
	scratch      *sync.Pool
}

func (o *call) run() error {
	m, n := int(o.c.M), int(o.c.N)
	switch o.c.Op {
	case kernel.Gemm:
		o.gemm()
	case kernel.RMSNorm:
		o.rows(m, 4*n, o.rmsnorm)
	case kernel.Softmax:
		o.rows(m, 20*n, o.softmax)
	case kernel.Add, kernel.Mul:
		o.spans(m*n, 1, o.pairwise)
	case kernel.SwiGLU:
		o.spans(m*n, 20, o.swiglu)
	case kernel.GetRows:
		o.rows(m, n, o.getRows)
	case kernel.RoPE:
		o.rope()
	case kernel.KVAppend:
		o.kvAppend()
	case kernel.Attention:
		o.attention()
	case kernel.ArgMax:
		o.rows(m, n, o.argmax)
	case kernel.TopK:
		o.rows(m, 4*n, o.topk)
	case kernel.Sample:
		o.rows(m, 40*n, o.sample)
	case kernel.Fill:
		o.spans(m*n, 1, o.fill)
	case kernel.Copy:
		o.rows(m, n, o.copy)
	default:
		return fmt.Errorf("cpu: no kernel %d", o.c.Op)
	}
	return nil
}

// Work is cut into blocks of about grain steps; fewer than that stay on one thread.
const grain = 1 << 16

// rows calls do for each i below n, on as many threads as pay off, where one call
// takes about cost steps. It ends early, leaving calls out, when told to stop.
func (o *call) rows(n, cost int, do func(i int)) {
	block := max(1, grain/max(cost, 1))
	o.blocks((n+block-1)/block, func(b int) {
		for i := b * block; i < min(n, (b+1)*block); i++ {
			do(i)
		}
	})
}

// blocks calls do for each block below n, in parallel where there are several, and
// waits.
func (o *call) blocks(n int, do func(b int)) {
	threads := min(n, runtime.GOMAXPROCS(0))
	if threads <= 1 {
		for b := range n {
			if stopped(o.stop) {
				return
			}
			do(b)
		}
		return
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range threads {
		wg.Go(func() {
			for b := range next {
				do(b)
			}
		})
	}
	for b := 0; b < n && !stopped(o.stop); b++ {
		next <- b
	}
	close(next)
	wg.Wait()
}

// row returns row i of a dense tensor.
func row(w []uint32, i, n int) []uint32 { return w[i*n : (i+1)*n] }

func frow(w []uint32, i, n int) []float32 { return floats(row(w, i, n)) }
