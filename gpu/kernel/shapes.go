package kernel

import "math/bits"

// exponential is what one exp counts, as do sigmoid, sin and cos.
const exponential = 20

// long bounds the rows that a backend needs scratch memory for.
const long = 1 << 20

// Every shape function is given fields that Spec.fields let pass, so sizes are not
// zero. It returns what is wrong with them, or nothing. It may leave numbers that no
// buffer can hold: Check compares them with the buffers afterwards.

func gemm(c *Command, f *form) string {
	m, n, k, l := u(c.M), u(c.N), u(c.K), max(u(c.L), 1)
	if l == 1 && c.Params[3]|c.Params[4]|c.Params[5] != 0 {
		return "batch strides without a batch: set L"
	}
	a, oka := matrix(m, k, c.Flags&TransA != 0, u(c.Params[0]), l, u(c.Params[3]))
	b, okb := matrix(k, n, c.Flags&TransB != 0, u(c.Params[1]), l, u(c.Params[4]))
	d, okd := matrix(m, n, false, u(c.Params[2]), l, c.BatchStride())
	if !oka || !okb || !okd {
		return "a leading dimension (Params[0..2]) is shorter than its row"
	}
	if one, _ := matrix(m, n, false, u(c.Params[2]), 1, 0); l > 1 && c.BatchStride() < one {
		return "the batch stride of Dst (Params[5]) lets its matrices overlap"
	}
	ta, tb := half(c.A.Type), half(c.B.Type)
	a, b = elements(a, ta), elements(b, tb)
	f.ops = [4]need{writes(d), reads(a).as(ta), reads(b).as(tb), reads(n).when(c.C != Operand{})}
	out := prod(m, n, l)
	f.flop = prod(2, out, k)
	if act := c.Flags & activation; act == GELU || act == SiLU {
		f.flop = sum(f.flop, prod(exponential, out))
	}
	if c.Params[7] != 0 {
		f.moved = prod(4, sum(d, d, a, b, f.ops[3].words))
	}
	return ""
}

// half is BF16 where t is; else F32, which t is then refused for.
func half(t DType) DType {
	if t == BF16 {
		return BF16
	}
	return F32
}

// matrix returns the elements from the first to the last of l matrices.
func matrix(rows, cols uint64, trans bool, ld, l, stride uint64) (n uint64, ok bool) {
	if trans {
		rows, cols = cols, rows
	}
	if ld == 0 {
		ld = cols
	}
	return sum(prod(rows-1, ld), cols, prod(l-1, stride)), ld >= cols
}

// BatchStride returns the words from one matrix of a Gemm's Dst to the next: Params[5],
// or where that is zero M rows. Backends use it too.
func (c *Command) BatchStride() uint64 {
	if c.Params[5] != 0 {
		return u(c.Params[5])
	}
	if c.Params[2] != 0 {
		return prod(u(c.M), u(c.Params[2]))
	}
	return prod(u(c.M), u(c.N))
}

// blocks returns the words of n rows of k elements of Q8 or Q4.
func blocks(t DType, n, k uint64) uint64 { return prod(n, k/Block, u(uint32(t.BlockWords()))) }

func gemmBlocks(c *Command, f *form) string {
	m, n, k := u(c.M), u(c.N), u(c.K)
	if k%Block != 0 {
		return "K is not a multiple of 32"
	}
	b := Q8
	if c.Op == GemmQ4 {
		b = Q4
	}
	out := prod(m, n)
	f.ops = [4]need{writes(out), reads(blocks(Q8, m, k)).as(Q8), reads(blocks(b, n, k)).as(b), reads(n).when(c.C != Operand{})}
	f.flop = prod(2, out, k)
	if act := c.Flags & activation; act == GELU || act == SiLU {
		f.flop = sum(f.flop, prod(exponential, out))
	}
	if c.Params[0] != 0 {
		f.moved = prod(4, sum(out, out, f.ops[1].words, f.ops[2].words, f.ops[3].words))
	}
	return ""
}

func gemmInts(c *Command, f *form) string {
	m, n, k := u(c.M), u(c.N), u(c.K)
	if k%4 != 0 || k >= 1<<17 {
		return "K is not a multiple of 4 below 2^17"
	}
	f.ops = [4]need{writes(prod(m, n)).as(I32), reads(prod(m, k/4)).as(I8), reads(prod(n, k/4)).as(I8)}
	f.flop = prod(2, m, n, k)
	return ""
}

func quantize(c *Command, f *form) string {
	if c.N%Block != 0 {
		return "N is not a multiple of 32"
	}
	t := Q8
	if c.Dst.Type == Q4 {
		t = Q4
	}
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(blocks(t, u(c.M), u(c.N))).as(t), reads(n)}
	f.flop = prod(4, n)
	return ""
}

func rmsnorm(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), reads(u(c.N)).when(c.B != Operand{})}
	f.flop = prod(4, n)
	return ""
}

func softmax(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n)}
	f.flop = prod(exponential+3, n)
	return ""
}

func pairwise(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	b := n
	if c.Flags&ByRow != 0 {
		b = u(c.N)
	}
	f.ops = [4]need{writes(n), reads(n), reads(b)}
	f.flop = n
	return ""
}

func swiglu(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), reads(n)}
	f.flop = prod(exponential+2, n)
	return ""
}

func getRows(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	table := reads(prod(u(c.K), u(c.N)))
	if c.A.Type == Q8 {
		if c.N%Block != 0 {
			return "N is not a multiple of 32"
		}
		table = reads(blocks(Q8, u(c.K), u(c.N))).as(Q8)
	}
	f.ops = [4]need{writes(n), table, reads(u(c.M)).as(I32)}
	f.moved = prod(4, sum(n, n, u(c.M)))
	return ""
}

func rope(c *Command, f *form) string {
	l := u(c.L)
	if l == 0 {
		l = u(c.K)
	}
	if l%2 != 0 || l > u(c.K) {
		return "L (or K where L is 0) must be even and at most K"
	}
	n := prod(u(c.M), u(c.N), u(c.K))
	f.ops = [4]need{writes(n), reads(n), reads(l / 2)}
	f.flop = sum(prod(3, u(c.M), u(c.N), l), prod(exponential, u(c.M), l))
	return ""
}

func kvAppend(c *Command, f *form) string {
	if u(c.Params[0])+u(c.M) > u(c.K) {
		return "rows Params[0] to Params[0]+M leave the cache of K rows"
	}
	rows, cache := prod(u(c.M), u(c.N)), prod(u(c.K), u(c.N))
	f.ops = [4]need{writes(cache), reads(rows), reads(rows), writes(cache)}
	f.moved = prod(16, rows)
	return ""
}

func attention(c *Command, f *form) string {
	m, heads, dim, kv := u(c.M), u(c.N), u(c.K), u(c.L)
	pos, rows := u(c.Params[0]), u(c.Params[1])
	if heads%kv != 0 {
		return "the number of heads N is not a multiple of the cache's heads L"
	}
	if rows > long {
		return "the cache's rows Params[1] are above 2^20"
	}
	if rows == 0 {
		return "the cache's rows Params[1] must not be 0"
	}
	seen := prod(m, rows)
	if c.Flags&Causal == 0 && pos != 0 {
		return "the position Params[0] needs the flag Causal"
	}
	if c.Flags&Causal != 0 {
		if pos+m > rows {
			return "the last token stands behind the cache's rows: Params[0]+M is above Params[1]"
		}
		seen = sum(prod(m, pos), prod(m, m+1)/2)
	}
	q, cache := prod(m, heads, dim), prod(rows, kv, dim)
	f.ops = [4]need{writes(q), reads(q), reads(cache), reads(cache)}
	f.flop = prod(seen, heads, sum(prod(4, dim), exponential))
	return ""
}

func argmax(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(u(c.M)).as(I32), reads(n)}
	f.flop = n
	return ""
}

func topk(c *Command, f *form) string {
	if c.K > c.N {
		return "K is above N"
	}
	n, out := prod(u(c.M), u(c.N)), prod(u(c.M), u(c.K))
	f.ops = [4]need{writes(out), reads(n), {}, writes(out).as(I32)}
	f.flop = prod(n, uint64(1+bits.Len32(c.K)))
	return ""
}

func sample(c *Command, f *form) string {
	if c.N > long {
		return "N is above 2^20"
	}
	if c.K > c.N {
		return "K is above N"
	}
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(u(c.M)).as(I32), reads(n)}
	f.flop = prod(n, uint64(exponential+2+bits.Len32(c.N)))
	return ""
}

func fill(c *Command, f *form) string {
	f.ops = [4]need{writes(prod(u(c.M), u(c.N))).as(word(c.Dst.Type))}
	return ""
}

func copyShape(c *Command, f *form) string {
	m, n := u(c.M), u(c.N)
	src, oks := matrix(m, n, false, u(c.Params[0]), 1, 0)
	dst, okd := matrix(m, n, false, u(c.Params[1]), 1, 0)
	if !oks || !okd {
		return "a leading dimension (Params[0..1]) is shorter than its row"
	}
	t := word(c.Dst.Type)
	f.ops = [4]need{writes(dst).as(t), reads(src).as(t)}
	f.moved = prod(8, m, n)
	return ""
}

// word is t where that is an element of four bytes; else F32, which t is then
// refused for.
func word(t DType) DType {
	if t == I32 {
		return I32
	}
	return F32
}

func u(n uint32) uint64 { return uint64(n) }
