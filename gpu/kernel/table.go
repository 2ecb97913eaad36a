package kernel

// A Spec is one row of the kernel table.
type Spec struct {
	Op    Op
	Name  string
	Since string // version of the table that brought it
	// Exact says that equal inputs give equal bits on every backend. The others are
	// exact among processors only, and elsewhere within the tolerance of kerneltest.
	Exact bool
	// Doc says what the operands, sizes and parameters are, what is computed, and
	// what it costs. Tensors are dense, row after row, unless it names a leading
	// dimension. Operands are F32 where no type stands.
	Doc string

	dims    string // M, N, K, L: its letter if needed, ? if optional, - if unused
	flags   uint16
	params  uint8 // how many of Params it uses
	inPlace bool  // Dst may be exactly where an input is
	shape   func(*Command, *form) string
}

// Table lists every kernel in the order of its Op. Version 1 of the arithmetic:
//
// A sum over k is a chain of binary32 fused multiply-adds in ascending k from +0,
// begun anew every 384 steps; the blocks' sums are added in order, from +0. It holds
// for Gemm and for Attention's sum over rows.
//
// A lane sum over i, of a dot product or of plain values, keeps 16 partial sums: lane
// j takes i = j, j+16, … in ascending order (fused for products), then lane j adds
// lane j+8, j+4, j+2 and j+1.
//
// exp(x) is, in binary32: n = x·0x1.715476p+0 rounded to an integer, ties to even;
// r = fma(n, -0x1.62e4p-1, x), r = fma(n, -0x1.7f7d1cp-20, r); p = 0x1.694p-10 and by
// Horner's rule in fused steps 0x1.125edcp-7, 0x1.555b5ap-5, 0x1.55545p-3,
// 0x1.fffff6p-2, 1, 1; times 2^(n>>1), times 2^(n-(n>>1)). Above 89 it is +Inf, below
// -104 it is 0. sigmoid(x) = 1/(1 + exp(-x)).
//
// sin and cos of an angle a in binary64: q = a·0.6366197723675814 rounded to an
// integer, ties to even; r = (a - q·0x1.921fb544p+0) - q·0x1.0b4611a626331p-34, each
// operation rounded; r rounded to binary32; then by q's quadrant the polynomials in
// s = r·r, in fused binary32 steps: sin r = fma(p·s, r, r) with p =
// 0x1.80ap-19, -0x1.a0690cp-13, 0x1.111182p-7, -0x1.555556p-3; cos r = Horner in s of
// 0x1.9a8p-16, -0x1.6c0efap-10, 0x1.55555p-5, -0.5, 1. Beyond 2^20 they are NaN.
//
// log(x) is, in binary32: x = f·2^e with f from 0x1.6a09e6p-1 to twice that, a power of
// 2^23 taken out first where x is below 0x1p-126; z = f - 1, s = z·z; p by Horner's rule in fused steps in z of
// 0x1.204376p-4, -0x1.d7a37p-4, 0x1.de4a34p-4, -0x1.fcba9ep-4, 0x1.23d37ep-3, -0x1.555cap-3,
// 0x1.999d58p-3, -0x1.fffff8p-3, 0x1.555554p-2; y = (p·z)·s; y = fma(e, -0x1.bd0106p-13, y);
// y = fma(-0.5, s, y); fma(e, 0x1.63p-1, z + y). Zero gives -Inf, what is below is NaN.
//
// tanh(x): below 0.625 in magnitude, with s = x·x, fma(p·s, x, x), p by Horner in s of
// -0x1.75e1d4p-8, 0x1.52269cp-6, -0x1.b83c5ap-5, 0x1.110726p-3, -0x1.555532p-2; else with the
// sign of x 1 - 2/(exp(2|x|) + 1). erf(x), t = 1/fma(0x1.4f740ap-2, |x|, 1): with the sign of x
// 1 - (p·t)·exp(-x·x), p by Horner in t of 0x1.0fb844p+0, -0x1.7401c6p+0, 0x1.6be1c6p+0,
// -0x1.23531cp-2, 0x1.04f20cp-2.
//
// A result that is not a number is stored as 0x7fc00000; kernels that only move words
// keep every bit.
var Table = [...]Spec{
	{Gemm, "gemm", "1", false, `Dst[M,N] = act(alpha·op(A)[M,K]·op(B)[K,N] + beta·Dst + C[N])
C (bias) is optional. A and B may be BF16, each by itself. L matrices, 0 and 1 mean one. Flags: TransA (A is K×M), TransB (B is N×K), one of ReLU, GELU, SiLU.
Params: 0..2 leading dimensions of A, B, Dst in elements (0: dense); 3..5 batch strides of A, B, Dst in elements (A, B: 0 shares one matrix; Dst: 0 is M leading dimensions); 6 alpha, 7 beta as binary32 (all bits zero: alpha is 1; beta zero: Dst is not read).
In order: the sum over k; times alpha if that is not 1; fma(beta, Dst, ·) if beta is not zero; plus C; activation: ReLU v > 0 ? v : 0; SiLU v·sigmoid(v); GELU v·sigmoid(u), u = 0x1.988454p+0·fma(0x1.6e4e26p-5·v, v·v, v).
Cost: 2·M·N·K·L FLOP, 20 more an element for GELU and SiLU; 4 bytes for each word from first to last of each operand, Dst twice if it is read.`,
		"MNK?", TransA | TransB | activation, 8, false, gemm},
	{GemmQ8, "gemm_q8", "1", false, `Dst[M,N] = act(A[M,K]·B[N,K]ᵀ + beta·Dst + C[N]), A and B Q8, K a multiple of 32
C (bias) is optional. Flags: one of ReLU, GELU, SiLU. Params: 0 beta as binary32 (zero: Dst is not read).
For each block of 32 in ascending order: d[j], j < 8, is the integer sum of the products of elements 2j, 2j+1, 16+2j and 16+2j+1; lane j = fma(scale of A·scale of B, d[j], lane j). Then lane j adds lane j+4, j+2 and j+1; the rest is as in gemm.
Cost: 2·M·N·K FLOP, 20 more an element for GELU and SiLU; every byte once, Dst twice if it is read.`,
		"MNK-", activation, 1, false, gemmBlocks},
	{GemmQ4, "gemm_q4", "1", false, `Dst[M,N] = act(A[M,K]·B[N,K]ᵀ + beta·Dst + C[N]), A Q8 and B Q4, K a multiple of 32
All else is as in gemm_q8.`,
		"MNK-", activation, 1, false, gemmBlocks},
	{GemmI8, "gemm_i8", "1", true, `Dst I32[M,N] = A[M,K]·B[N,K]ᵀ, A and B I8, K a multiple of 4 and below 2^17
Cost: 2·M·N·K FLOP; every byte once.`,
		"MNK-", 0, 0, false, gemmInts},
	{Quantize, "quantize", "1", true, `Dst[M,N] = A[M,N] in blocks, Dst Q8 or Q4, N a multiple of 32
m is the largest magnitude in a block; scale = m/127 for Q8, m/7 for Q4; an element is v/scale rounded to an integer, ties to even, and at most 127 or 7 in magnitude. A scale of zero gives zeros. A block with an element that is not finite has scale 0x7fc00000 and zeros.
Cost: 4·M·N FLOP; every byte once.`,
		"MN--", 0, 0, false, quantize},
	{Conv2D, "conv2d", "1", false, `Dst[M,N,h',w'] = act(A[M,K,h,w] convolved with B[N,K/L,kh,kw] + C[N])
M images, K channels in L groups (0: 1), N filters; C (bias) is optional. Flags: one of ReLU, GELU, SiLU.
Params: 0,1 h, w; 2,3 h', w'; 4 kernel, 5 stride, 6 padding above and left, 7 dilation (0: 1), each height + width·2^16. What lies outside of A counts as zero. (K/L)·kh·kw is at most 2^20.
The sum runs over channel, row and column of the kernel in this order, as the one over k of gemm; then plus C; activation as in gemm.
Cost: 2·M·N·h'·w'·(K/L)·kh·kw FLOP, 20 more an element for GELU and SiLU; every word once.`,
		"MNK?", activation, 8, false, conv2d},
	{Conv2DBackData, "conv2d_back_data", "1", false, `Dst[M,K,h,w] = the gradient of conv2d's A, A[M,N,h',w'] that of its result, B its filters
Sizes and Params as of conv2d. The sum for an element is one chain over filter, row and column of the kernel, of those that meet it. The gradient of the bias is a reduce.
Cost: 2·M·N·h'·w'·(K/L)·kh·kw FLOP; every word once.`,
		"MNK?", 0, 8, false, conv2dBackData},
	{Conv2DBackFilter, "conv2d_back_filter", "1", false, `Dst[N,K/L,kh,kw] = the gradient of conv2d's filters, A[M,K,h,w] its A, B[M,N,h',w'] the gradient of its result
Sizes and Params as of conv2d. The sum for a weight is one chain over image, row and column of the result, where the weight meets A.
Cost: 2·M·N·h'·w'·(K/L)·kh·kw FLOP; every word once.`,
		"MNK?", 0, 8, false, conv2dBackFilter},
	{RMSNorm, "rmsnorm", "1", false, `Dst[M,N] = (inv·A[M,N])·B[N], inv = 1/sqrt(lanes(A·A)/N + eps) for each row
B is optional (then the product with it is left out). Params: 0 eps as binary32. Dst may be A.
Cost: 4·M·N FLOP; every word once.`,
		"MN--", 0, 1, true, rmsnorm},
	{LayerNorm, "layernorm", "1", false, `Dst[M,N] = (inv·(A - mean))·B[N] + C[N], mean = lanes(A)/N, inv = 1/sqrt(lanes((A-mean)²)/N + eps) for each row
B and C are optional; with both the last step is one fma. Params: 0 eps as binary32. Dst may be A.
Cost: 8·M·N FLOP; every word once.`,
		"MN--", 0, 1, true, layernorm},
	{Softmax, "softmax", "1", false, `Dst[M,N] = e/lanes(e), e = exp(A - m), m the largest of the row
A NaN makes its row NaN; elements equal to m count as exp(0). Dst may be A.
Cost: 23·M·N FLOP; every word once.`,
		"MN--", 0, 0, true, softmax},
	{LogSoftmax, "log_softmax", "1", false, `Dst[M,N] = (A - m) - log(lanes(exp(A - m))), m the largest of each row
A NaN makes its row NaN; elements equal to m count as exp(0). Dst may be A. Cost: 24·M·N FLOP; every word once.`,
		"MN--", 0, 0, true, logSoftmax},
	{BatchNorm, "batchnorm", "1", true, `Dst[M,N,K] = (A[M,N,K] - mean)·(scale/sqrt(variance + eps)) + bias for channel n < N, by one fma
B[4,N]: scale, bias, mean and variance of the channels. Params: 0 eps as binary32. Dst may be A.
Cost: 2·M·N·K FLOP; every word once.`,
		"MNK-", 0, 1, true, batchnorm},
	{RMSNormBack, "rmsnorm_back", "1", false, `Dst[M+1,N] = the gradients of rmsnorm's A, and in the last row of its B
A[M,N] its A, B[N] its B (optional), C[M,N] the gradient of its result. Params: 0 eps. h = inv·A, g = C·B: inv·(g - h·(lanes(g·h)/N)); the last row is a chain of C·h over the rows.
Cost: 12·M·N FLOP; every word once.`,
		"MN--", 0, 1, false, normBack},
	{LayerNormBack, "layernorm_back", "1", false, `Dst[M+2,N] = the gradients of layernorm's A, and in the last two rows of its B and C
A[M,N] its A, B[N] its B (optional), C[M,N] the gradient of its result. Params: 0 eps. h = inv·(A - mean), g = C·B: inv·((g - lanes(g)/N) - h·(lanes(g·h)/N)); then a chain of C·h and a sum of C over the rows, in order.
Cost: 12·M·N FLOP; every word once.`,
		"MN--", 0, 1, false, normBack},
	{SoftmaxBack, "softmax_back", "1", false, `Dst[M,N] = A·(B - lanes(A·B)), A the result of softmax, B the gradient of it
Dst may be A or B. Cost: 4·M·N FLOP; every word once.`,
		"MN--", 0, 0, true, softmaxBack},
	{CrossEntropy, "xent", "1", false, `Dst[M] = (m + log(lanes(exp(A - m)))) - A[i,B[i]], A[M,N], B I32[M] the classes, m the largest of each row
0 where B[i] is outside 0..N-1, so that rows can be left out. Cost: 24·M·N FLOP; every word once.`,
		"MN--", 0, 0, false, xent},
	{CrossEntropyBack, "xent_back", "1", false, `Dst[M,N] = scale·(softmax(A) - 1 at B[i], 0 elsewhere), the gradient of A by xent; 0 in rows that it leaves out
Params: 0 scale as binary32 (all bits zero: 1). Dst may be A. Cost: 25·M·N FLOP; every word once.`,
		"MN--", 0, 1, true, xentBack},
	{Add, "add", "1", true, `Dst[M,N] = A[M,N] + B[M,N], or B[N] for every row with the flag ByRow
Dst may be A or B. Cost: M·N FLOP; every word once.`,
		"MN--", ByRow, 0, true, pairwise},
	{Mul, "mul", "1", true, `Dst[M,N] = A[M,N]·B[M,N], or B[N] for every row with the flag ByRow
Dst may be A or B. Cost: M·N FLOP; every word once.`,
		"MN--", ByRow, 0, true, pairwise},
	{Unary, "unary", "1", false, `Dst[M,N] = f(A[M,N]), element by element
Params: 0 f; 1, 2 its parameters p and q as binary32. f: 1 -v; 2 |v|; 3 v²; 4 sqrt v; 5 1/v; 6 exp v; 7 log v; 8 sin v; 9 cos v; 10 tanh v; 11 sigmoid v; 12 erf v; 13 v > 0 ? v : 0; 14 v < 0 ? p·v : v; 15 v < 0 ? p·(exp v - 1) : v; 16 log(1 + exp v); 17 v·sigmoid v; 18 gelu as in gemm; 19 p·v + q within 0 and 1; 20 v times that; 21 v within p and q; 22 floor; 23 ceil; 24 nearest integer, ties to even; 25 -1, 0 or 1.
16 is max(v, 0) + log(1 + exp(-|v|)). In 14 and 15 p is used as it is. 1 to 5, 13, 14, 19 to 25 are exact on every backend.
Dst may be A. Cost: 20·M·N FLOP; every word once.`,
		"MN--", 0, 3, true, unary},
	{Binary, "binary", "1", true, `Dst[M,N,K,L] = f(A, B), element by element, Dst dense
Params: 0 f; 1..4 strides of A in elements along M, N, K, L, 5..8 those of B; 0 broadcasts. f: 1 A+B; 2 A-B; 3 A·B; 4 A/B; 5 the smaller; 6 the larger; 7 A < 0 ? A·B : A. NaN wins in 5 and 6; of zeros, A.
Cost: M·N·K·L FLOP; every word from first to last of each operand.`,
		"MNKL", 0, 9, false, binaryShape},
	{UnaryBack, "unary_back", "1", false, `Dst[M,N] = B·f'(A), A the A of unary, B the gradient of its result, f one of 1 to 18
Params as of unary. At 0 the derivative of 2 and 13 to 15 is that of what is below, 0 for 2. Dst may be A or B. Cost: 22·M·N FLOP; every word once.`,
		"MN--", 0, 3, true, unaryBack},
	{SwiGLU, "swiglu", "1", false, `Dst[M,N] = (A·sigmoid(A))·B, element by element
Dst may be A or B. Cost: 22·M·N FLOP; every word once.`,
		"MN--", 0, 0, true, swiglu},
	{SwiGLUBack, "swiglu_back", "1", false, `Dst[2,M,N] = the gradients of swiglu's A and B, C the gradient of its result
s = sigmoid(A): (C·B)·(s·fma(A, 1 - s, 1)), and C·(A·s). Cost: 28·M·N FLOP; every word once.`,
		"MN--", 0, 0, false, swigluBack},
	{GetRows, "get_rows", "1", true, `Dst[M,N] = A[B[i],·] for i < M, A a table of K rows of N, B I32[M]
A may be Q8, if N is a multiple of 32: an element is scale·i, rounded.
A row number outside 0..K-1 gives a row of NaN. Cost: 8·M·N + 4·M bytes.`,
		"MNK-", 0, 0, false, getRows},
	{RoPE, "rope", "1", false, `Dst[M,N,K] = A[M,N,K] with pairs of each head turned by angle (Params[0] + token)·B[pair]
M tokens, N heads of K elements, of which the first L turn (0: all), B[L/2] frequencies. Pairs are (2i, 2i+1), with the flag Halves (i, i+L/2): x' = fma(x, cos, -(y·sin)), y' = fma(x, sin, y·cos), each product rounded once. The angle is a product in binary64.
Params: 0 position of the first token. With the flag Back the sine's sign is turned. Dst may be A.
Cost: 3·M·N·L + 20·M·L FLOP; every word once.`,
		"MNK?", Halves | Back, 1, true, rope},
	{KVAppend, "kv_append", "1", true, `Dst[p+i,·] = A[i,·] and C[p+i,·] = B[i,·] for i < M, rows of N elements
Dst and C are the caches of keys and values, K rows each, both written. Params: 0 the row p.
Cost: 16·M·N bytes.`,
		"MNK-", 0, 1, false, kvAppend},
	{Attention, "attention", "1", false, `Dst[M,N,K] = softmax(scale·A·keys)·values for M tokens, N heads of K elements
A[M,N,K] queries; B, C caches of keys and values, [rows, L, K]; head h reads the cache's head h/(N/L). With the flag Causal token i sees rows 0..Params[0]+i, else all.
Params: 0 position of the first token; 1 rows of the cache in use, at most 2^20; 2 scale as binary32 (all bits zero: 1/sqrt(K)).
score = scale·lanes(query·key); e = exp(score - largest); Dst = sum over rows of e·value, divided by lanes(e). A NaN score makes the head NaN.
Cost: (4·K + 20) FLOP for each row seen by each head; every word once.`,
		"MNKL", Causal, 3, false, attention},
	{GetRowsBack, "get_rows_back", "1", true, `Dst[B[i],·] += A[i,·] for i < M in ascending order, Dst a table of K rows of N, B I32[M]
Row numbers outside 0..K-1 are left out. Cost: M·N FLOP; 12·M·N + 4·M bytes.`,
		"MNK-", 0, 0, false, getRowsBack},
	{AttentionBack, "attention_back", "1", false, `Dst = the gradients of attention's queries, keys and values, one after another; A those three one after another, B the gradient of its result
Sizes, flags and Params as of attention, of keys and values the first Params[1] rows. p = e/lanes(e); d = lanes(B·value); s = scale·(p·(d - lanes(p·d))). Chains over rows of s·key; over heads of a group and then tokens of s·query and of p·B.
Cost: (10·K + 24) FLOP for each row seen by each head; every word once.`,
		"MNKL", Causal, 3, false, attentionBack},
	{ArgMax, "argmax", "1", true, `Dst I32[M] = the lowest index of the largest of each row of A[M,N]
NaN is below everything; a row of NaN gives 0. Cost: M·N FLOP; every word once.`,
		"MN--", 0, 0, false, argmax},
	{TopK, "topk", "1", true, `Dst[M,K], C I32[M,K] = the K largest of each row of A[M,N] and their indices
Largest first; equal ones, lowest index first; NaN is below everything. Cost: M·N·(1 + bits of K) FLOP; every word once.`,
		"MNK-", 0, 0, false, topk},
	{Sample, "sample", "1", false, `Dst I32[M] = an index drawn from each row of A[M,N]
Params: 0,1 seed; 2,3 counter, row i uses counter+i (low word first); 4 temperature, 5 top-p as binary32. K: top-k, 0 is off. N is at most 2^20. A temperature not above 0 gives argmax.
Weights: exp((x - m)/temperature), m the largest; 1 where x = m; 0 for NaN. With top-p in (0, 1) or K the indices are put in the order of topk, else they stay in order; only the first K stay, and of these the shortest prefix whose weight reaches top-p·their sum. u = (word 0 of Philox4x32-10 by key seed and counter {counter, 0, 0})>>8 · 2^-24. Drawn is the first index whose running sum is above u·sum; the last with weight above 0 if none. Sums are binary64, in order.
Cost: M·N·(22 + bits of N) FLOP; every word once.`,
		"MN?-", 0, 6, false, sample},
	{Reduce, "reduce", "1", false, `Dst[M,K] = f over n < N of A[M,N,K]
Params: 0 f: 1 sum; 2 mean; 3 largest; 4 smallest; 5 product; 6 sum of squares. 1, 2 and 6 are lane sums over n, 2 then divided by N; 5 is in order from 1. NaN wins in 3 and 4.
Cost: M·N·K FLOP; every word once.`,
		"MNK-", 0, 1, false, reduce},
	{Pool2D, "pool2d", "1", false, `Dst[M,h',w'] = f over a window of A[M,h,w]
Params: 0,1 h, w; 2,3 h', w'; 4 kernel, 5 stride, 6 padding above and left, 7 dilation (0: 1), each height + width·2^16; 8 f: 2 mean of what lies inside, 3 largest, 7 mean of all with zero outside. Every window must reach into A. Sums are in order from 0. NaN wins.
Cost: M·h'·w'·kh·kw FLOP; every word once.`,
		"M---", 0, 9, false, pool2d},
	{Fill, "fill", "1", true, `Dst[M,N] = Params[0], the bits of an F32 or I32
Cost: 4·M·N bytes.`,
		"MN--", 0, 1, false, fill},
	{Copy, "copy", "1", true, `Dst[M,N] = A[M,N], both F32 or both I32
Params: 0, 1 leading dimensions of A and Dst in elements (0: dense). Cost: 8·M·N bytes.`,
		"MN--", 0, 2, false, copyShape},
	{Transpose, "transpose", "1", true, `Dst[i0,i1,i2,i3] = A with axes in another order, both F32 or both I32
A[M,N,K,L]. Params: 0 axes: which axis of A axis j of Dst is, 4 bits each, axis 0 lowest; all of 0..3 once. Cost: 8·M·N·K·L bytes.`,
		"MNKL", 0, 1, false, transpose},
	{Cast, "cast", "1", true, `Dst[M,N] = A[M,N] as another type: F32, BF16, I8 or I32
To BF16: ties to even. To integers: towards zero, as near as the type has, 0 for NaN. Cost: every byte once.`,
		"MN--", 0, 0, false, cast},
	{Random, "random", "1", false, `Dst[M,N] = random by Philox4x32-10 with key seed and counter {counter + i/4, 0, 0}, word i mod 4 of its answer for element i
Params: 0,1 seed; 2,3 counter (low word first); 4 what: 1 the word, Dst I32; 2 (word >> 8)·2^-24; 3 normal: of words u and v of an even and an odd element, r = sqrt(-2·log(((u >> 8) + 1)·2^-24)), the angle a = (v >> 8)·(2^-24·6.283185307179586) in binary64; the even one is r·cos a, the odd one r·sin a.
Cost: 40·M·N FLOP; every word once.`,
		"MN--", 0, 5, false, random},
	{SGD, "sgd", "1", true, `Dst[M,N] = Dst - lr·v, v = g, or with C[M,N] C = mu·C + g and v = C; g = A + decay·Dst
Params: 0 lr, 1 mu, 2 decay as binary32. Each is one fma, the one of decay left out where that is 0. Cost: 6·M·N FLOP; every word once, what is written twice.`,
		"MN--", 0, 3, false, sgd},
	{AdamW, "adamw", "1", true, `Dst[M,N] = w - lr·((m/c1)/(sqrt(v/c2) + eps)), w = Dst - (lr·decay)·Dst
A[M,N] the gradient g; C[2,M,N] holds m and v: m = b1·m + (1-b1)·g, v = b2·v + (1-b2)·(g·g).
Params: 0 lr, 1 b1, 2 b2, 3 eps, 4 decay, 5 c1, 6 c2 as binary32; c1 = 1 - b1^t and c2 = 1 - b2^t at step t. Outermost sums are fmas. Cost: 20·M·N FLOP; every word once, what is written twice.`,
		"MN--", 0, 7, false, adamw},
	{ClipNorm, "clip_norm", "1", true, `Dst[M,N] = A·s, s = n > most ? most/n : 1, n = sqrt(B[1])
Params: 0 most as binary32. B is a sum of squares, by reduce, of all that is to be clipped together. Dst may be A. Cost: M·N FLOP; every word once.`,
		"MN--", 0, 1, true, clipNorm},
}

// rows has the row of each number in Table, one added; zero where there is none.
var rows = func() (r [256]uint8) {
	for i := range Table {
		r[Table[i].Op] = uint8(i + 1)
	}
	return r
}()

// Find returns the row of op, nil if there is none.
func Find(op Op) *Spec {
	if int(op) >= len(rows) || rows[op] == 0 {
		return nil
	}
	return &Table[rows[op]-1]
}
