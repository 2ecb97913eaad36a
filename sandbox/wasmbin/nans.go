package wasmbin

// Which NaN an operation yields depends on the processor. A rewritten module puts the
// canonical one behind each operation whose result may be looked at bit by bit: stored,
// passed on, reinterpreted. A result that only goes into other arithmetic, or into
// locals that hold nothing but such results, needs it only where it leaves them. Values
// that come from elsewhere keep their bits: a program may keep more in a NaN.

// A shape is how an instruction sees floats.
type shape uint8

const (
	noFloat shape = iota
	f32
	f64
	f32x4
	f64x2
)

// A use says which floats an instruction takes without looking at their bits, and which
// it makes that may be NaNs of any kind.
type use struct{ takes, makes shape }

type useSpan struct {
	from, to byte
	use
}

func uses(spans []useSpan) (t [256]use) {
	for _, s := range spans {
		for c := int(s.from); c <= int(s.to); c++ {
			t[c] = s.use
		}
	}
	return t
}

var (
	plainUses = uses([]useSpan{
		{0x5b, 0x60, use{f32, noFloat}}, // comparisons
		{0x61, 0x66, use{f64, noFloat}},
		{0x8d, 0x97, use{f32, f32}}, // ceil to max, without abs, neg and copysign
		{0x9b, 0xa5, use{f64, f64}},
		{0xa8, 0xa9, use{f32, noFloat}}, // truncations
		{0xaa, 0xab, use{f64, noFloat}},
		{0xae, 0xaf, use{f32, noFloat}},
		{0xb0, 0xb1, use{f64, noFloat}},
		{0xb6, 0xb6, use{f64, f32}},
		{0xbb, 0xbb, use{f32, f64}},
	})
	miscUses = uses([]useSpan{
		{0x00, 0x01, use{f32, noFloat}},
		{0x02, 0x03, use{f64, noFloat}},
		{0x04, 0x05, use{f32, noFloat}},
		{0x06, 0x07, use{f64, noFloat}},
	})
	vectorUses = uses([]useSpan{
		{0x41, 0x46, use{f32x4, noFloat}}, // comparisons
		{0x47, 0x4c, use{f64x2, noFloat}},
		{0x5e, 0x5e, use{f64x2, f32x4}}, // demote
		{0x5f, 0x5f, use{f32x4, f64x2}}, // promote
		{0x67, 0x6a, use{f32x4, f32x4}}, // ceil to nearest
		{0x74, 0x75, use{f64x2, f64x2}},
		{0x7a, 0x7a, use{f64x2, f64x2}},
		{0x94, 0x94, use{f64x2, f64x2}},
		{0xe3, 0xe9, use{f32x4, f32x4}}, // sqrt to max, without pmin and pmax
		{0xef, 0xf5, use{f64x2, f64x2}},
		{0xf8, 0xf9, use{f32x4, noFloat}},
		{0xfc, 0xfd, use{f64x2, noFloat}},
	})
)

func floatUse(code uint32) use {
	switch code >> 8 {
	case 0:
		return plainUses[code]
	case opMisc:
		return miscUses[code&0xff]
	}
	return vectorUses[code&0xff]
}

func floatResult(code uint32) shape { return floatUse(code).makes }

// A value on the operand stack is the number of the site that made it, or one of these.
type value int32

const (
	opaque value = -1 // its bits are to be left as they are
	solid  value = -2 // not a NaN
)

// A site is an instruction that a canonical NaN may have to stand behind: arithmetic,
// or the reading of a local.
type site struct {
	at     int   // in the old code
	read   int32 // the local that is read, or -1
	set    int32 // the local that the value goes to, or -1
	shape  shape // of arithmetic
	weight int32 // by the loops around it
	seen   bool  // its bits may be looked at; once decided, it needs a canonical NaN
}

// A localUse is what is known of a local.
type localUse struct {
	float bool  // holds floats or vectors, and is no parameter
	mixed bool  // holds other values than arithmetic of one shape
	shape shape // of that
	sets  int32 // how often it is set, by weight
	seen  int32 // how often its bits may be looked at, by weight
	lazy  bool  // what is put there isn't canonical, so its readings may have to be made so
}

// nans is the analysis of one function.
type nans struct {
	stack  []value
	sites  []site
	locals []localUse
	weight []int32 // of each open block
	next   int     // the site that the rewriter comes to
}

// analyse reads the function whose locals have just been read once.
func (w *rewriter) analyse(f *function, sig signature) {
	w.stack, w.sites, w.next = w.stack[:0], w.sites[:0], 0
	if !f.floats {
		return
	}
	body := w.at
	w.nans.locals = append(w.nans.locals[:0], make([]localUse, w.used[locals])...)
	w.floatLocals(f, int(sig.params))
	w.frames, w.weight = w.frames[:0], w.weight[:0]
	w.openFrame(frame{code: opBlock, results: sig.results})
	for w.err == nil && len(w.frames) > 0 {
		w.follow(w.instr())
	}
	w.decide()
	w.at = body
}

func (w *rewriter) floatLocals(f *function, params int) {
	r := reader{b: w.b, at: f.at, end: f.end}
	local := params
	for range r.u32() {
		n := int(r.u32())
		if typ := r.u8(); typ == 0x7b || typ == 0x7c || typ == 0x7d {
			for i := range n {
				w.nans.locals[local+i].float = true
			}
		}
		local += n
	}
}

// maxWeight is that of code in six loops, one in the other.
const maxWeight = 1 << 18

// openFrame follows the beginning of a block.
func (w *rewriter) openFrame(f frame) {
	weight := int32(1)
	if n := len(w.weight); n > 0 {
		weight = w.weight[n-1]
	}
	if f.code == opLoop && weight < maxWeight {
		weight *= 8
	}
	f.base = int32(len(w.stack))
	for range f.params {
		w.stack = append(w.stack, opaque)
	}
	w.frames, w.weight = append(w.frames, f), append(w.weight, weight)
}

// follow does to the stack of values what an instruction does.
func (w *rewriter) follow(in instr) {
	switch in.code {
	case opBlock, opLoop, opIf:
		f := frame{code: byte(in.code)}
		switch {
		case in.block == oneType:
			f.results = 1
		case in.block >= 0:
			f.params, f.results = w.types[in.block].params, w.types[in.block].results
		}
		w.observe(int(f.params) - in.grow)
		w.openFrame(f)
	case opElse:
		w.flowOut(len(w.frames) - 1)
		f := w.top()
		w.refill(f, f.params)
	case opEnd:
		w.flowOut(len(w.frames) - 1)
		f := *w.top()
		w.frames, w.weight = w.frames[:len(w.frames)-1], w.weight[:len(w.weight)-1]
		w.refill(&f, f.results)
	case opBr, opBrIf:
		w.observe(-in.grow)
		w.flowOut(len(w.frames) - 1 - int(in.x))
	case opBrTable:
		w.observe(-in.grow)
		for _, x := range in.targets {
			w.flowOut(len(w.frames) - 1 - int(x))
		}
	case opReturn:
		w.flowOut(0)
	case opCall:
		w.callOf(w.types[w.funcs[in.x]])
	case opIndirect:
		w.observe(1)
		w.callOf(w.types[in.x])
	case opLocalGet:
		w.stack = append(w.stack, w.reading(in))
	case opLocalSet, opLocalTee:
		w.setLocal(in)
		if in.code == opLocalTee {
			w.stack = append(w.stack, w.reading(in))
		}
	case opDrop:
		w.take()
	default:
		w.plain(in)
	}
}
