package cpu

import (
	"fmt"
	"sync"

	"idlemesh/gpu/kernel"
)

// A call is one command with its operands at hand: dst, a, b and d begin where the
// command's Dst, A, B and C do. It is used again for the next one.
type call struct {
	c            *kernel.Command
	dst, a, b, d []uint32
	stop         <-chan struct{}
	vectors      bool
	threads      int
	team         *team
	scratch      *sync.Pool

	each  func(o *call, i int)      // of rows
	span  func(o *call, lo, hi int) // of spans
	n     int                       // rows or elements, for these
	size  int                       // how many of them make a block
	grid  grid
	p     product
	conv  convolution
	stats []float32 // of normBack: scale and mean of each row
	axes  axes
}

func (o *call) run() error {
	m, n := int(o.c.M), int(o.c.N)
	switch o.c.Op {
	case kernel.Gemm:
		o.gemm()
	case kernel.GemmQ8, kernel.GemmQ4, kernel.GemmI8:
		o.gemmBytes()
	case kernel.Quantize:
		o.spans(m*n/kernel.Block, 2*kernel.Block, (*call).quantize)
	case kernel.Conv2D:
		o.conv2d()
	case kernel.Pool2D:
		w := o.c.Window()
		o.rows(m*w.OutHigh, 2*w.OutWide*w.Kernel[0]*w.Kernel[1], (*call).pool2d)
	case kernel.LayerNorm:
		o.rows(m, 8*n, (*call).layernorm)
	case kernel.LogSoftmax:
		o.rows(m, 24*n, (*call).logSoftmax)
	case kernel.BatchNorm:
		o.rows(m*n, 2*int(o.c.K), (*call).batchnorm)
	case kernel.Unary:
		o.spans(m*n, 20, (*call).unary)
	case kernel.Binary:
		o.rows(m*n*int(o.c.K), 2*int(o.c.L), (*call).binary)
	case kernel.Reduce:
		o.rows(m*int(o.c.K), n, (*call).reduce)
	case kernel.Transpose:
		o.transpose()
	case kernel.Cast:
		o.cast()
	case kernel.Random:
		o.spans((m*n+3)/4, 80, (*call).random)
	case kernel.Conv2DBackData, kernel.Conv2DBackFilter, kernel.RMSNormBack, kernel.LayerNormBack, kernel.SoftmaxBack,
		kernel.CrossEntropy, kernel.CrossEntropyBack, kernel.UnaryBack, kernel.SwiGLUBack, kernel.GetRowsBack,
		kernel.AttentionBack, kernel.SGD, kernel.AdamW, kernel.ClipNorm:
		o.train(m, n)
	case kernel.RMSNorm:
		o.rows(m, 4*n, (*call).rmsnorm)
	case kernel.Softmax:
		o.rows(m, 20*n, (*call).softmax)
	case kernel.Add, kernel.Mul:
		o.spans(m*n, 1, (*call).pairwise)
	case kernel.SwiGLU:
		o.spans(m*n, 20, (*call).swiglu)
	case kernel.GetRows:
		o.rows(m, n, (*call).getRows)
	case kernel.RoPE:
		o.rows(m, 4*n*int(o.c.K), (*call).rope)
	case kernel.KVAppend:
		o.kvAppend()
	case kernel.Attention:
		o.rows(m*n, int(o.c.Params[1])*(2*int(o.c.K)+10), (*call).attention)
	case kernel.ArgMax:
		o.rows(m, n, (*call).argmax)
	case kernel.TopK:
		o.rows(m, 4*n, (*call).topk)
	case kernel.Sample:
		o.rows(m, 40*n, (*call).sample)
	case kernel.Fill:
		o.spans(m*n, 1, (*call).fill)
	case kernel.Copy:
		o.rows(m, n, (*call).copy)
	default:
		return fmt.Errorf("cpu: no kernel %d", o.c.Op)
	}
	return nil
}

// Work is cut into blocks of about grain steps; fewer than that stay on one thread.
const grain = 1 << 15

// rows calls do for each i below n, on as many threads as pay off, where one call
// takes about cost steps. It ends early, leaving calls out, when told to stop.
func (o *call) rows(n, cost int, do func(o *call, i int)) {
	o.n, o.size, o.each = n, max(1, grain/max(cost, 1)), do
	o.blocks((n+o.size-1)/o.size, func(o *call, b int) {
		for i := b * o.size; i < min(o.n, (b+1)*o.size); i++ {
			o.each(o, i)
		}
	})
}

// spans calls do for pieces of the n elements of a kernel that works one by one, each
// of which takes about cost steps.
func (o *call) spans(n, cost int, do func(o *call, lo, hi int)) {
	o.n, o.size, o.span = n, grain/cost, do
	o.blocks((n+o.size-1)/o.size, func(o *call, b int) {
		o.span(o, b*o.size, min(o.n, (b+1)*o.size))
	})
}

// blocks calls do for each block below n, in parallel where there are several, and
// waits.
func (o *call) blocks(n int, do func(o *call, b int)) {
	if n > 1 && o.threads > 1 {
		o.team.share(o, n, do)
		return
	}
	for b := range n {
		if stopped(o.stop) {
			return
		}
		do(o, b)
	}
}

// row returns row i of a dense tensor.
func row(w []uint32, i, n int) []uint32 { return w[i*n : (i+1)*n] }

func frow(w []uint32, i, n int) []float32 { return floats(row(w, i, n)) }
