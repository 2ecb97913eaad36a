package kernel_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"idlemesh/gpu/kernel"
)

// size knows buffers 1 to 4 of 4 KiB and buffer 9, which has 2^62 bytes.
func size(b kernel.Buffer) uint64 {
	switch {
	case b >= 1 && b <= 4:
		return 4096
	case b == 9:
		return 1 << 62
	}
	return 0
}

func at(b kernel.Buffer, off uint64) kernel.Operand { return kernel.Operand{Buffer: b, Offset: off} }

func i32(b kernel.Buffer) kernel.Operand { return typed(b, kernel.I32) }

func typed(b kernel.Buffer, t kernel.DType) kernel.Operand {
	return kernel.Operand{Buffer: b, Type: t}
}

// good has one small command per kernel that is in order.
func good() map[string]kernel.Command {
	a, b, c, d := at(1, 0), at(2, 0), at(3, 0), at(4, 0)
	return map[string]kernel.Command{
		"gemm":               {Op: kernel.Gemm, M: 2, N: 3, K: 4, Dst: d, A: a, B: b, C: c},
		"gemm_q8":            {Op: kernel.GemmQ8, M: 2, N: 3, K: 64, Dst: d, A: typed(1, kernel.Q8), B: typed(2, kernel.Q8), C: c},
		"gemm_q4":            {Op: kernel.GemmQ4, M: 2, N: 3, K: 64, Dst: d, A: typed(1, kernel.Q8), B: typed(2, kernel.Q4), C: c},
		"gemm_i8":            {Op: kernel.GemmI8, M: 2, N: 3, K: 8, Dst: i32(4), A: typed(1, kernel.I8), B: typed(2, kernel.I8)},
		"quantize":           {Op: kernel.Quantize, M: 2, N: 64, Dst: typed(4, kernel.Q8), A: a},
		"conv2d":             {Op: kernel.Conv2D, M: 2, N: 4, K: 2, Dst: d, A: a, B: b, C: c, Params: [10]uint32{5, 5, 3, 3, 3 | 3<<16, 1 | 1<<16}},
		"conv2d_back_data":   {Op: kernel.Conv2DBackData, M: 2, N: 4, K: 2, Dst: d, A: a, B: b, Params: [10]uint32{5, 5, 3, 3, 3 | 3<<16, 1 | 1<<16}},
		"conv2d_back_filter": {Op: kernel.Conv2DBackFilter, M: 2, N: 4, K: 2, Dst: d, A: a, B: b, Params: [10]uint32{5, 5, 3, 3, 3 | 3<<16, 1 | 1<<16}},
		"rmsnorm_back":       {Op: kernel.RMSNormBack, M: 2, N: 3, Dst: d, A: a, B: b, C: c},
		"layernorm_back":     {Op: kernel.LayerNormBack, M: 2, N: 3, Dst: d, A: a, B: b, C: c},
		"softmax_back":       {Op: kernel.SoftmaxBack, M: 2, N: 3, Dst: d, A: a, B: b},
		"xent":               {Op: kernel.CrossEntropy, M: 2, N: 3, Dst: d, A: a, B: i32(2)},
		"xent_back":          {Op: kernel.CrossEntropyBack, M: 2, N: 3, Dst: d, A: a, B: i32(2)},
		"unary_back":         {Op: kernel.UnaryBack, M: 2, N: 3, Dst: d, A: a, B: b, Params: [10]uint32{kernel.Tanh}},
		"swiglu_back":        {Op: kernel.SwiGLUBack, M: 2, N: 3, Dst: d, A: a, B: b, C: c},
		"get_rows_back":      {Op: kernel.GetRowsBack, M: 2, N: 3, K: 5, Dst: d, A: a, B: i32(2)},
		"attention_back":     {Op: kernel.AttentionBack, Flags: kernel.Causal, M: 2, N: 4, K: 8, L: 2, Dst: d, A: a, B: b, Params: [10]uint32{3, 5}},
		"sgd":                {Op: kernel.SGD, M: 2, N: 3, Dst: d, A: a, C: c, Params: [10]uint32{1}},
		"adamw":              {Op: kernel.AdamW, M: 2, N: 3, Dst: d, A: a, C: c},
		"clip_norm":          {Op: kernel.ClipNorm, M: 2, N: 3, Dst: d, A: a, B: b},
		"pool2d":             {Op: kernel.Pool2D, M: 2, Dst: d, A: a, Params: [10]uint32{5, 5, 3, 3, 3 | 3<<16, 1 | 1<<16, 8: kernel.MaxOf}},
		"layernorm":          {Op: kernel.LayerNorm, M: 2, N: 3, Dst: d, A: a, B: b, C: c},
		"log_softmax":        {Op: kernel.LogSoftmax, M: 2, N: 3, Dst: d, A: a},
		"batchnorm":          {Op: kernel.BatchNorm, M: 2, N: 3, K: 4, Dst: d, A: a, B: b},
		"unary":              {Op: kernel.Unary, M: 2, N: 3, Dst: d, A: a, Params: [10]uint32{kernel.Exp}},
		"binary":             {Op: kernel.Binary, M: 2, N: 3, K: 4, L: 5, Dst: d, A: a, B: b, Params: [10]uint32{kernel.Plus, 60, 20, 5, 1, 0, 1}},
		"reduce":             {Op: kernel.Reduce, M: 2, N: 3, K: 4, Dst: d, A: a, Params: [10]uint32{kernel.SumOf}},
		"transpose":          {Op: kernel.Transpose, M: 2, N: 3, K: 4, L: 5, Dst: d, A: a, Params: [10]uint32{0x0123}},
		"cast":               {Op: kernel.Cast, M: 2, N: 3, Dst: typed(4, kernel.BF16), A: a},
		"random":             {Op: kernel.Random, M: 2, N: 3, Dst: d, Params: [10]uint32{4: kernel.Normal}},
		"rmsnorm":            {Op: kernel.RMSNorm, M: 2, N: 3, Dst: d, A: a, B: b},
		"softmax":            {Op: kernel.Softmax, M: 2, N: 3, Dst: d, A: a},
		"add":                {Op: kernel.Add, M: 2, N: 3, Dst: d, A: a, B: b},
		"mul":                {Op: kernel.Mul, M: 2, N: 3, Dst: d, A: a, B: b},
		"swiglu":             {Op: kernel.SwiGLU, M: 2, N: 3, Dst: d, A: a, B: b},
		"get_rows":           {Op: kernel.GetRows, M: 2, N: 3, K: 5, Dst: d, A: a, B: i32(2)},
		"rope":               {Op: kernel.RoPE, M: 2, N: 3, K: 4, Dst: d, A: a, B: b},
		"kv_append":          {Op: kernel.KVAppend, M: 2, N: 3, K: 4, Dst: d, A: a, B: b, C: c},
		"attention":          {Op: kernel.Attention, Flags: kernel.Causal, M: 2, N: 4, K: 8, L: 2, Dst: d, A: a, B: b, C: c, Params: [10]uint32{3, 5}},
		"argmax":             {Op: kernel.ArgMax, M: 2, N: 3, Dst: i32(4), A: a},
		"topk":               {Op: kernel.TopK, M: 2, N: 3, K: 2, Dst: d, A: a, C: i32(3)},
		"sample":             {Op: kernel.Sample, M: 2, N: 3, Dst: i32(4), A: a},
		"fill":               {Op: kernel.Fill, M: 2, N: 3, Dst: d},
		"copy":               {Op: kernel.Copy, M: 2, N: 3, Dst: d, A: a},
	}
}

func TestEveryKernelHasACommandInOrder(t *testing.T) {
	cmds := good()
	for _, s := range kernel.Table {
		c, ok := cmds[s.Name]
		if !ok || c.Op != s.Op {
			t.Errorf("%s: no command to check", s.Name)
			continue
		}
		if _, err := kernel.Check(&c, size); err != nil {
			t.Error(err)
		}
	}
	if !slices.IsSortedFunc(kernel.Table[:], func(a, b kernel.Spec) int { return int(a.Op) - int(b.Op) }) {
		t.Error("the table is not in the order of numbers")
	}
}

// TestNumbers holds the numbers that are for ever.
func TestNumbers(t *testing.T) {
	var got []string
	for _, s := range kernel.Table {
		got = append(got, fmt.Sprint(s.Op, " ", s.Name))
	}
	const want = "1 gemm,2 gemm_q8,3 gemm_q4,4 gemm_i8,5 quantize,8 conv2d,9 conv2d_back_data,10 conv2d_back_filter,16 rmsnorm,17 layernorm,18 softmax,19 log_softmax,20 batchnorm,21 rmsnorm_back,22 layernorm_back,23 softmax_back,24 xent,25 xent_back,32 add,33 mul,34 unary,35 binary,36 unary_back,40 swiglu,41 swiglu_back,48 get_rows,49 rope,50 kv_append,51 attention,52 get_rows_back,53 attention_back,64 argmax,65 topk,66 sample,67 reduce,68 pool2d,80 fill,81 copy,82 transpose,83 cast,84 random,96 sgd,97 adamw,98 clip_norm"
	if s := strings.Join(got, ","); s != want {
		t.Errorf("numbers are %s,\nwant %s", s, want)
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		kernel string
		change func(c *kernel.Command)
		want   string
	}{
		"unknown kernel":      {"add", func(c *kernel.Command) { c.Op = 15 }, "no kernel has number 15"},
		"no kernel":           {"add", func(c *kernel.Command) { c.Op = 0 }, "no kernel"},
		"stream":              {"add", func(c *kernel.Command) { c.Stream = 1 }, "stream 1"},
		"flag":                {"add", func(c *kernel.Command) { c.Flags = 2 }, "unknown flags 0x2"},
		"zero size":           {"add", func(c *kernel.Command) { c.N = 0 }, "N must not be 0"},
		"unused size":         {"add", func(c *kernel.Command) { c.K = 1 }, "K is not used"},
		"unused parameter":    {"add", func(c *kernel.Command) { c.Params[9] = 1 }, "Params[9] is not used"},
		"unused operand":      {"add", func(c *kernel.Command) { c.C = at(3, 0) }, "C is not used"},
		"missing operand":     {"add", func(c *kernel.Command) { c.B = kernel.Operand{} }, "B needs 24 bytes at 0, buffer 0 has 0"},
		"someone's buffer":    {"add", func(c *kernel.Command) { c.B = at(7, 0) }, "buffer 7 has 0"},
		"type":                {"add", func(c *kernel.Command) { c.A.Type = kernel.BF16 }, "A has type 1"},
		"ids of floats":       {"get_rows", func(c *kernel.Command) { c.B.Type = kernel.F32 }, "B has type 0 and must have 5"},
		"alignment":           {"add", func(c *kernel.Command) { c.A.Offset = 2 }, "multiple of 4"},
		"behind the end":      {"add", func(c *kernel.Command) { c.A.Offset = 4076 }, "A needs 24 bytes at 4076"},
		"offset wraps":        {"add", func(c *kernel.Command) { c.A.Offset = math.MaxUint64 - 3 }, "A needs 24 bytes"},
		"sizes wrap":          {"add", func(c *kernel.Command) { c.M, c.N = 1<<31, 1<<31 }, "needs 18446744073709551615 bytes"},
		"product wraps":       {"gemm", func(c *kernel.Command) { c.M, c.K, c.L = math.MaxUint32, math.MaxUint32, math.MaxUint32 }, "needs"},
		"output over input":   {"softmax", func(c *kernel.Command) { c.Dst = at(1, 4) }, "Dst overlaps A"},
		"gemm in place":       {"gemm", func(c *kernel.Command) { c.Dst = at(1, 0) }, "Dst overlaps A"},
		"both outputs":        {"topk", func(c *kernel.Command) { c.C.Buffer = 4 }, "Dst overlaps C"},
		"caches overlap":      {"kv_append", func(c *kernel.Command) { c.C = at(4, 16) }, "Dst overlaps C"},
		"in place but longer": {"add", func(c *kernel.Command) { c.Flags, c.Dst = kernel.ByRow, at(2, 0) }, "Dst overlaps B"},
		"part of a block":     {"gemm_q8", func(c *kernel.Command) { c.K = 48 }, "multiple of 32"},
		"blocks of floats":    {"gemm_q8", func(c *kernel.Command) { c.B.Type = kernel.F32 }, "B has type 0 and must have 3"},
		"blocks behind":       {"gemm_q4", func(c *kernel.Command) { c.N = 103 }, "B needs 4120 bytes"},
		"both blocks of four": {"gemm_q4", func(c *kernel.Command) { c.A.Type = kernel.Q4 }, "A has type 4 and must have 3"},
		"bytes of a word":     {"gemm_i8", func(c *kernel.Command) { c.K = 6 }, "multiple of 4"},
		"integers overflow":   {"gemm_i8", func(c *kernel.Command) { c.K = 1 << 17 }, "below 2^17"},
		"quantized to what":   {"quantize", func(c *kernel.Command) { c.Dst.Type = kernel.BF16 }, "Dst has type 1"},
		"quantized in part":   {"quantize", func(c *kernel.Command) { c.N = 33 }, "multiple of 32"},
		"row of part blocks":  {"get_rows", func(c *kernel.Command) { c.A.Type = kernel.Q8 }, "multiple of 32"},
		"no function":         {"unary", func(c *kernel.Command) { c.Params[0] = 0 }, "no function"},
		"unknown function":    {"unary", func(c *kernel.Command) { c.Params[0] = 26 }, "no function"},
		"unknown pairing":     {"binary", func(c *kernel.Command) { c.Params[0] = 8 }, "no function"},
		"strides leave":       {"binary", func(c *kernel.Command) { c.Params[5] = 1 << 12 }, "B needs"},
		"strides wrap":        {"binary", func(c *kernel.Command) { c.M, c.Params[1] = 1<<31, math.MaxUint32 }, "needs"},
		"unknown reduction":   {"reduce", func(c *kernel.Command) { c.Params[0] = kernel.MeanPadded }, "no function"},
		"unknown pooling":     {"pool2d", func(c *kernel.Command) { c.Params[8] = kernel.SumOf }, "not 2, 3 or 7"},
		"axis twice":          {"transpose", func(c *kernel.Command) { c.Params[0] = 0x0122 }, "each axis once"},
		"fifth axis":          {"transpose", func(c *kernel.Command) { c.Params[0] = 0x10123 }, "each axis once"},
		"cast of blocks":      {"cast", func(c *kernel.Command) { c.A.Type = kernel.Q8 }, "F32, BF16, I8 or I32"},
		"unknown type":        {"cast", func(c *kernel.Command) { c.Dst.Type = 99 }, "F32, BF16, I8 or I32"},
		"bits as numbers":     {"random", func(c *kernel.Command) { c.Params[4] = kernel.Bits }, "Dst has type 0"},
		"unknown randomness":  {"random", func(c *kernel.Command) { c.Params[4] = 4 }, "not 1, 2 or 3"},
		"window outside":      {"conv2d", func(c *kernel.Command) { c.Params[2] = 6 }, "behind the image"},
		"window before":       {"conv2d", func(c *kernel.Command) { c.Params[6] = 3 }, "as large as the kernel"},
		"no stride":           {"conv2d", func(c *kernel.Command) { c.Params[5] = 1 }, "must not be 0"},
		"no kernel at all":    {"pool2d", func(c *kernel.Command) { c.Params[4] = 0 }, "must not be 0"},
		"huge image":          {"pool2d", func(c *kernel.Command) { c.Params[0] = math.MaxUint32 }, "2^30"},
		"image leaves":        {"pool2d", func(c *kernel.Command) { c.M = 100 }, "A needs"},
		"groups":              {"conv2d", func(c *kernel.Command) { c.L = 3 }, "groups"},
		"deep filter":         {"conv2d", func(c *kernel.Command) { c.K = 1 << 20 }, "2^20"},
		"no derivative":       {"unary_back", func(c *kernel.Command) { c.Params[0] = kernel.Floor }, "no function"},
		"heads going back":    {"attention_back", func(c *kernel.Command) { c.L = 3 }, "multiple"},
		"gradients leave":     {"attention_back", func(c *kernel.Command) { c.Params[1] = 60 }, "Dst needs"},
		"moments leave":       {"adamw", func(c *kernel.Command) { c.N = 300 }, "C needs"},
		"in place of moments": {"adamw", func(c *kernel.Command) { c.C = c.Dst }, "overlaps"},
		"window going back":   {"conv2d_back_data", func(c *kernel.Command) { c.Params[2] = 6 }, "behind the image"},
		"bias going back":     {"conv2d_back_filter", func(c *kernel.Command) { c.C = at(3, 0) }, "C is not used"},
		"classes of floats":   {"xent", func(c *kernel.Command) { c.B.Type = kernel.F32 }, "B has type 0"},
		"half of it":          {"gemm", func(c *kernel.Command) { c.A.Type, c.A.Offset = kernel.BF16, 4084 }, "A needs 16 bytes at 4084"},
		"gemm of integers":    {"gemm", func(c *kernel.Command) { c.B.Type = kernel.I32 }, "B has type 5"},
		"short rows":          {"gemm", func(c *kernel.Command) { c.Params[0] = 3 }, "leading dimension"},
		"stride, no batch":    {"gemm", func(c *kernel.Command) { c.Params[4] = 12 }, "set L"},
		"batch overlaps":      {"gemm", func(c *kernel.Command) { c.L, c.Params[5] = 2, 5 }, "overlap"},
		"odd pairs":           {"rope", func(c *kernel.Command) { c.L = 3 }, "even"},
		"turns too much":      {"rope", func(c *kernel.Command) { c.L = 6 }, "at most K"},
		"cache is full":       {"kv_append", func(c *kernel.Command) { c.Params[0] = 3 }, "leave the cache"},
		"cache wraps":         {"kv_append", func(c *kernel.Command) { c.Params[0] = math.MaxUint32 }, "leave the cache"},
		"heads":               {"attention", func(c *kernel.Command) { c.L = 3 }, "multiple"},
		"no rows":             {"attention", func(c *kernel.Command) { c.Params[1] = 0 }, "must not be 0"},
		"token behind rows":   {"attention", func(c *kernel.Command) { c.Params[0] = 4 }, "behind"},
		"position for all":    {"attention", func(c *kernel.Command) { c.Flags = 0 }, "Causal"},
		"too many rows":       {"attention", func(c *kernel.Command) { c.Params[1] = 1<<20 + 1 }, "2^20"},
		"more than all":       {"topk", func(c *kernel.Command) { c.K = 4 }, "K is above N"},
		"long sample":         {"sample", func(c *kernel.Command) { c.N = 1<<20 + 1 }, "2^20"},
		"fill of bytes":       {"fill", func(c *kernel.Command) { c.Dst.Type = kernel.I8 }, "Dst has type 2"},
		"copy casts":          {"copy", func(c *kernel.Command) { c.A.Type = kernel.I32 }, "A has type 5"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good()[tc.kernel]
			tc.change(&c)
			_, err := kernel.Check(&c, size)
			if !errors.Is(err, kernel.ErrCommand) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check = %v, want ErrCommand with %q", err, tc.want)
			}
		})
	}
}

func TestInPlaceWhereTheTableSaysSo(t *testing.T) {
	for name, c := range good() {
		c.Dst = c.A
		_, err := kernel.Check(&c, size)
		if ok := strings.Contains(kernel.Find(c.Op).Doc, "Dst may be A"); ok != (err == nil) && name != "fill" {
			t.Errorf("%s in place: %v, table says %v", name, err, ok)
		}
	}
}

func TestCosts(t *testing.T) {
	for name, want := range map[string]kernel.Cost{
		"gemm":               {FLOP: 2 * 24, Bytes: 4 * (6 + 8 + 12 + 3)},
		"gemm_q8":            {FLOP: 2 * 384, Bytes: 4 * (6 + 36 + 54 + 3)},
		"gemm_q4":            {FLOP: 2 * 384, Bytes: 4 * (6 + 36 + 30 + 3)},
		"gemm_i8":            {FLOP: 2 * 48, Bytes: 4*6 + 16 + 24},
		"quantize":           {FLOP: 4 * 128, Bytes: 4 * (128 + 36)},
		"conv2d":             {FLOP: 2 * 72 * 18, Bytes: 4 * (72 + 100 + 72 + 4)},
		"conv2d_back_data":   {FLOP: 2 * 72 * 18, Bytes: 4 * (72 + 100 + 72)},
		"conv2d_back_filter": {FLOP: 2 * 72 * 18, Bytes: 4 * (72 + 100 + 72)},
		"rmsnorm_back":       {FLOP: 72, Bytes: 4 * (9 + 6 + 3 + 6)},
		"layernorm_back":     {FLOP: 72, Bytes: 4 * (12 + 6 + 3 + 6)},
		"softmax_back":       {FLOP: 24, Bytes: 4 * 18},
		"xent":               {FLOP: 144, Bytes: 4 * (2 + 6 + 2)},
		"xent_back":          {FLOP: 150, Bytes: 4 * (6 + 6 + 2)},
		"unary_back":         {FLOP: 132, Bytes: 4 * 18},
		"swiglu_back":        {FLOP: 168, Bytes: 4 * 30},
		"get_rows_back":      {FLOP: 6, Bytes: 4 * 20},
		"attention_back":     {FLOP: (4 + 5) * 4 * (10*8 + 24), Bytes: 4 * (2*(64+80+80) + 64)},
		"sgd":                {FLOP: 36, Bytes: 4 * 30},
		"adamw":              {FLOP: 120, Bytes: 28 * 6},
		"clip_norm":          {FLOP: 6, Bytes: 4 * 13},
		"pool2d":             {FLOP: 18 * 9, Bytes: 4 * (18 + 50)},
		"layernorm":          {FLOP: 48, Bytes: 4 * 18},
		"log_softmax":        {FLOP: 24 * 6, Bytes: 4 * 12},
		"batchnorm":          {FLOP: 48, Bytes: 4 * (24 + 24 + 12)},
		"unary":              {FLOP: 120, Bytes: 4 * 12},
		"binary":             {FLOP: 120, Bytes: 4 * (120 + 120 + 3)},
		"reduce":             {FLOP: 24, Bytes: 4 * (8 + 24)},
		"transpose":          {Bytes: 8 * 120},
		"cast":               {Bytes: 12 + 24},
		"random":             {FLOP: 240, Bytes: 24},
		"rmsnorm":            {FLOP: 24, Bytes: 4 * 15},
		"softmax":            {FLOP: 23 * 6, Bytes: 4 * 12},
		"add":                {FLOP: 6, Bytes: 4 * 18},
		"mul":                {FLOP: 6, Bytes: 4 * 18},
		"swiglu":             {FLOP: 22 * 6, Bytes: 4 * 18},
		"get_rows":           {Bytes: 8*6 + 4*2},
		"rope":               {FLOP: 3*24 + 20*8, Bytes: 4 * (24 + 24 + 2)},
		"kv_append":          {Bytes: 16 * 6},
		"attention":          {FLOP: (4 + 5) * 4 * (4*8 + 20), Bytes: 4 * (64 + 64 + 80 + 80)},
		"argmax":             {FLOP: 6, Bytes: 4 * 8},
		"topk":               {FLOP: 6 * 3, Bytes: 4 * (4 + 4 + 6)},
		"sample":             {FLOP: 6 * 24, Bytes: 4 * 8},
		"fill":               {Bytes: 24},
		"copy":               {Bytes: 48},
	} {
		c := good()[name]
		if got, err := kernel.Check(&c, size); got != want || err != nil {
			t.Errorf("%s costs %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func TestAListIsBounded(t *testing.T) {
	big := kernel.Command{Op: kernel.Gemm, M: 4096, N: 4096, K: 2048, Dst: at(9, 1<<40), A: at(9, 0), B: at(9, 1<<30)}
	ref := kernel.Reference{FLOPS: 1e9, Bandwidth: 1e9}
	cost, picos, err := kernel.CheckList([]kernel.Command{big}, size, ref)
	if err != nil || cost.FLOP != kernel.MaxFLOP || picos != kernel.MaxFLOP*1000 {
		t.Errorf("a list just in bounds: %+v, %d ps, %v", cost, picos, err)
	}
	huge := kernel.Command{Op: kernel.Gemm, M: 1 << 25, N: 1 << 25, K: 1 << 25, Dst: at(9, 1<<60), A: at(9, 0), B: at(9, 1<<56)}
	for name, cmds := range map[string][]kernel.Command{
		"nothing":       nil,
		"too many":      make([]kernel.Command, kernel.MaxCommands+1),
		"too costly":    {big, good()["add"]},
		"cost wraps":    {huge},
		"one is faulty": {good()["add"], {}},
	} {
		if _, _, err := kernel.CheckList(cmds, size, ref); !errors.Is(err, kernel.ErrCommand) {
			t.Errorf("%s: %v, want ErrCommand", name, err)
		}
	}
}

func TestPicoseconds(t *testing.T) {
	for _, tc := range []struct {
		ref  kernel.Reference
		cost kernel.Cost
		want uint64
	}{
		{kernel.Reference{FLOPS: 1e12, Bandwidth: 1e12}, kernel.Cost{FLOP: 7, Bytes: 5}, 7},
		{kernel.Reference{FLOPS: 1e12, Bandwidth: 1e11}, kernel.Cost{FLOP: 7, Bytes: 5}, 50},
		{kernel.Reference{FLOPS: 3e12, Bandwidth: 1e12}, kernel.Cost{FLOP: 7}, 2},
		{kernel.Reference{}, kernel.Cost{FLOP: 7, Bytes: 5}, 0},
		{kernel.Reference{FLOPS: 1, Bandwidth: 1}, kernel.Cost{FLOP: math.MaxUint64}, math.MaxUint64},
	} {
		if got := tc.ref.Picoseconds(tc.cost); got != tc.want {
			t.Errorf("%+v on %+v: %d ps, want %d", tc.cost, tc.ref, got, tc.want)
		}
	}
}

func TestDecode(t *testing.T) {
	want := good()["attention"]
	want.Params = [10]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	want.Flags, want.Stream, want.A.Offset, want.C.Type = 0xabcd, 7, 1<<40, kernel.Q4
	b, err := binary.Append(nil, binary.LittleEndian, want)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]kernel.Command, 2)
	if n, err := kernel.Decode(got, append(b, b...)); n != 2 || err != nil || got[0] != want || got[1] != want {
		t.Errorf("Decode = %d, %v, %+v, want %+v", n, err, got, want)
	}
	for name, b := range map[string][]byte{
		"cut short":      b[:127],
		"too many":       slices.Repeat(b, 3),
		"reserved bytes": slices.Replace(slices.Clone(b), 13, 14, 1),
	} {
		if _, err := kernel.Decode(got, b); !errors.Is(err, kernel.ErrCommand) {
			t.Errorf("%s: %v, want ErrCommand", name, err)
		}
	}
}
