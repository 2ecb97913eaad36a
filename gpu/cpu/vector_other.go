//go:build !amd64

package cpu

import "idlemesh/gpu/kernel"

// hasVectors says that plain Go is all there is.
func hasVectors() bool { return false }

func (o *call) tasks(_, _, _, _ int) grid { return grid{} }

func (o *call) task(int) {}

func (o *call) fuse(v, x []float32, by float32) { fuse(v, x, by) }

func (o *call) quickAdam(_, _, _, _ []float32, _ float32) int { return 0 }

func (o *call) quickBlocks(int, int) int { return 0 }

func (o *call) largest(v []float32) int { return largest(v) }

func (o *call) quickly(kernel.Function, []float32, []float32) int { return 0 }

func (o *call) blockRow(s *scratch, a, b []uint32, t kernel.DType) { blockRow(s.sums, a, b, t) }

func (o *call) intColumns(*scratch, []byte, []byte, []int32) int { return 0 }

func (o *call) keep(p *product, i, j int, sums []float32) { p.store(i, j, sums) }

func (o *call) vectorRow(*product, int, int) bool { return false }

func (o *call) dot(a, b []float32) float32 { return dot(a, b) }

func (o *call) exponentials(v []float32) float32 { return exponentials(v) }

func (o *call) divide(v []float32, by float32) { divide(v, by) }

func (o *call) scale(dst, a, b []float32, by float32) { scale(dst, a, b, by) }

func (o *call) swish(dst, a, b []float32) { swish(dst, a, b) }

func (o *call) weigh(dst, weight, values []float32, width int) { weigh(dst, weight, values, width) }

func (o *call) add(dst, a, b []float32) { add(dst, a, b) }

func (o *call) mul(dst, a, b []float32) { mul(dst, a, b) }

func (o *call) scores(e, q, keys []float32, width int, scale float32) {
	scores(e, q, keys, width, scale)
}
