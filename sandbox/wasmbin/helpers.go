package wasmbin

// Functions that a rewriter adds to a module, each only where it is used.

type helpers struct {
	first uint32 // index of the first
	list  []helper
}

type helper struct {
	kind helpKind
	x    uint32 // data segment
	typ  uint32
	body asm
}

type helpKind int

const (
	helpEnter   helpKind = iota // tells the host why a function may not go on
	helpFill                    // memory.fill, in pieces
	helpCopy                    // memory.copy, in pieces
	helpInit                    // memory.init, in pieces
	helpGrow                    // memory.grow
	helpBytes                   // charges for so many bytes and returns their number
	helpEntries                 // charges for so many table entries and returns their number
)

var bulkHelpers = map[uint32]helpKind{opMemoryFill: helpFill, opMemoryCopy: helpCopy, opMemoryGrow: helpGrow}

// helper returns the index of a helper, which is made when it is first asked for.
func (w *rewriter) helper(kind helpKind, x uint32) uint32 {
	for i, h := range w.helpers.list {
		if h.kind == kind && h.x == x {
			return w.helpers.first + uint32(i)
		}
	}
	defer func(keeps bool) { w.keeps = keeps }(w.keeps)
	w.keeps = false
	h := helper{kind: kind, x: x, typ: typeBulk}
	switch kind {
	case helpEnter:
		h.typ, h.body = typeDepth, w.enter()
	case helpFill:
		h.body = w.pieces(asm{opMisc, 0x0b, 0}, false, -1)
	case helpCopy:
		h.body = w.copies()
	case helpInit:
		op := appendU32([]byte{opMisc, 0x08}, x)
		h.body = w.pieces(append(op, 0), true, int64(w.notes.datas[x]))
	case helpGrow:
		h.typ, h.body = typeSize, w.grow()
	case helpBytes:
		h.typ, h.body = typeSize, w.sized(bytesShift)
	case helpEntries:
		h.typ, h.body = typeSize, w.sized(entriesShift)
	}
	h.body = append(h.body, opEnd)
	w.helpers.list = append(w.helpers.list, h)
	return w.helpers.first + uint32(len(w.helpers.list)) - 1
}

// Instructions that helpers are made of.
const (
	emptyBlock  = 0x40
	i32Eqz      = 0x45
	i32GreaterU = 0x4b
	i32LessU    = 0x49
	i32LessEqU  = 0x4d
	i64LessS    = 0x53
	i64GreaterU = 0x56
	i32Add      = 0x6a
	i32Sub      = 0x6b
	i64Add      = 0x7c
	i64Sub      = 0x7d
	i64Mul      = 0x7e
	i64Or       = 0x84
	i64Shl      = 0x86
	i64ShrU     = 0x88
	extendU     = 0xad // i64.extend_i32_u
	opSelect    = 0x1b
)

// enter is (depth): the fuel is below zero, or depth is.
func (w *rewriter) enter() asm {
	c := asm{0}
	w.appendCheck(&c)
	c.get(0)
	c.i64(0)
	c.op(i64LessS, opIf, emptyBlock)
	c.i32(1)
	c.call(w.refuel)
	c.op(opUnreachable, opEnd)
	return c
}

// piece is how many bytes a bulk operation moves between two looks at the fuel.
const piece = 1 << 16

// Parameters of bulk operations: where to, where from or what, how many bytes.
const (
	to = iota
	from
	size
)

// chargeSize takes fuel for the number in local x.
func (w *rewriter) chargeSize(c *asm, x uint32, shift int64) {
	c.getGlobal(w.fuel)
	c.get(x)
	c.op(extendU)
	c.i64(shift)
	c.op(i64ShrU, i64Sub)
	c.setGlobal(w.fuel)
}

func (w *rewriter) chargePiece(c *asm) {
	c.getGlobal(w.fuel)
	c.i64(piece >> bytesShift)
	c.op(i64Sub)
	c.setGlobal(w.fuel)
	w.appendCheck(c)
}

// small leaves the enclosing block, for the operation in one go, when that is small or
// leads out of bounds: then it traps before it writes anything.
func (w *rewriter) small(c *asm, moves bool, limit int64) {
	c.get(size)
	c.i32(piece)
	c.op(i32LessEqU, opBrIf, 0)
	beyond := func(start uint32) {
		c.get(start)
		c.op(extendU)
		c.get(size)
		c.op(extendU, i64Add)
	}
	memory := func() {
		c.op(0x3f, 0, extendU)
		c.i64(16)
		c.op(i64Shl)
	}
	beyond(to)
	memory()
	c.op(i64GreaterU, opBrIf, 0)
	if moves {
		beyond(from)
		if limit >= 0 {
			c.i64(limit)
		} else {
			memory()
		}
		c.op(i64GreaterU, opBrIf, 0)
	}
}

// whole is the operation on what is left.
func (w *rewriter) whole(c *asm, op []byte) {
	w.chargeSize(c, size, bytesShift)
	w.appendCheck(c)
	c.get(to)
	c.get(from)
	c.get(size)
	c.op(op...)
}

// pieces is a bulk operation op that goes upwards; moves says that its second
// parameter is a place that moves on, in a space of limit bytes or, if that is
// negative, in memory.
func (w *rewriter) pieces(op []byte, moves bool, limit int64) asm {
	c := asm{0, opBlock, emptyBlock}
	w.small(&c, moves, limit)
	w.upwards(&c, op, moves)
	c.op(opEnd)
	w.whole(&c, op)
	return c
}

func (w *rewriter) upwards(c *asm, op []byte, moves bool) {
	c.op(opLoop, emptyBlock)
	w.chargePiece(c)
	c.get(to)
	c.get(from)
	c.i32(piece)
	c.op(op...)
	step := func(x uint32, by int32) {
		c.get(x)
		c.i32(by)
		c.op(i32Add)
		c.set(x)
	}
	step(to, piece)
	if moves {
		step(from, piece)
	}
	step(size, -piece)
	again(c)
}

// again goes on with a loop while there is more than a piece left.
func again(c *asm) {
	c.get(size)
	c.i32(piece)
	c.op(i32GreaterU, opBrIf, 0, opEnd)
}

// copies is memory.copy, which goes downwards where it would otherwise overwrite what
// it has yet to read.
func (w *rewriter) copies() asm {
	op := []byte{opMisc, 0x0a, 0, 0}
	c := asm{0, opBlock, emptyBlock}
	w.small(&c, true, -1)
	c.get(to)
	c.get(from)
	c.op(i32LessEqU, opIf, emptyBlock)
	w.upwards(&c, op, true)
	c.op(opElse, opLoop, emptyBlock)
	w.chargePiece(&c)
	last := func(x uint32) {
		c.get(x)
		c.get(size)
		c.op(i32Add)
	}
	c.get(size)
	c.i32(piece)
	c.op(i32Sub)
	c.set(size)
	last(to)
	last(from)
	c.i32(piece)
	c.op(op...)
	again(&c)
	c.op(opEnd, opEnd)
	w.whole(&c, op)
	return c
}

// grow is memory.grow. More pages than there can be cost as many as there can be.
func (w *rewriter) grow() asm {
	c := asm{0}
	c.getGlobal(w.fuel)
	c.get(0)
	c.i32(MaxPages)
	c.get(0)
	c.i32(MaxPages)
	c.op(i32LessU, opSelect, extendU)
	c.i64(pageWeight)
	c.op(i64Mul)
	c.i64(growWeight)
	c.op(i64Add, i64Sub)
	c.setGlobal(w.fuel)
	w.appendCheck(&c)
	c.get(0)
	c.op(opMemoryGrow, 0)
	return c
}

// sized charges for a number of things and returns it.
func (w *rewriter) sized(shift int64) asm {
	c := asm{0}
	w.chargeSize(&c, 0, shift)
	w.appendCheck(&c)
	c.get(0)
	return c
}
