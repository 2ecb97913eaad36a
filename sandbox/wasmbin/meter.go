package wasmbin

// A function is charged by regions. A region is a piece of code, with holes in it,
// all of which runs when its first instruction does, or none: an instruction behind a
// block belongs to the region before the block unless a branch or return inside may
// have led elsewhere. Its fuel is taken at its first instruction. A trap or an exit in
// the middle of a region leaves the whole of it charged.
//
// Whether fuel is left is looked at where a loop or a function begins, and in code that
// would go on for too long without.

// maxUnchecked is how much fuel code may cost between two checks.
const maxUnchecked = 1 << 13

// trivialWeight is up to which weight a function without calls and loops looks at no
// fuel: its caller soon will.
const trivialWeight = 256

// A charge is what a region costs, and where that is taken.
type charge struct {
	at    int // in the new code
	fuel  int64
	check check
}

// A check is what happens after a charge.
type check uint8

const (
	noCheck check = iota
	checkFuel
	checkLoop  // before the charge: leaves the loop for the host and comes back
	checkEntry // of a function that calls others: depth too
)

// A region's block is what regions need to know of an open block.
type regionBlock struct {
	outer int    // the charge that was current before it
	exits int    // the outermost block that a branch inside leads behind
	dead  bool   // it is never reached
	wraps uint32 // how many blocks of ours stand around it and the blocks that it is in
}

// regions is the state of the function that is being rewritten.
type regions struct {
	code      []byte
	charges   []charge
	blocks    []regionBlock // as scan.frames
	current   int           // charge
	unchecked int64
	dead      bool
}

func (r *regions) begin() {
	r.code, r.charges, r.blocks = r.code[:0], r.charges[:0], r.blocks[:0]
	r.unchecked, r.dead = 0, false
}

// charge begins a region here.
func (r *regions) charge(c check) {
	r.charges = append(r.charges, charge{at: len(r.code), check: c})
	r.current = len(r.charges) - 1
	if c != noCheck {
		r.unchecked = 0
	}
}

func (r *regions) spendFuel(n int64) {
	if r.dead || n == 0 {
		return
	}
	if r.unchecked += n; r.unchecked > maxUnchecked {
		r.charge(checkFuel)
		r.unchecked = n
	}
	r.charges[r.current].fuel += n
}

func (r *regions) openBlock(wraps uint32) {
	if n := len(r.blocks); n > 0 {
		wraps += r.blocks[n-1].wraps
	}
	r.blocks = append(r.blocks, regionBlock{outer: r.current, exits: len(r.blocks), dead: r.dead, wraps: wraps})
}

// label returns the depth of a label in the new code, where blocks of ours lie between.
func (r *regions) label(x uint32) uint32 {
	top := len(r.blocks) - 1
	return x + r.blocks[top].wraps - r.blocks[top-int(x)].wraps
}

// exit notes a branch to the block of that number; the code behind it is reached
// only when the branch isn't taken.
func (r *regions) exit(block int) {
	top := &r.blocks[len(r.blocks)-1]
	top.exits = min(top.exits, block)
}

func (r *regions) closeBlock() {
	last := len(r.blocks) - 1
	b := r.blocks[last]
	r.blocks = r.blocks[:last]
	if last == 0 {
		return
	}
	if top := &r.blocks[last-1]; b.exits < top.exits {
		top.exits = b.exits
	}
	r.dead = b.dead
	if r.dead {
		return
	}
	if b.exits < last {
		r.charge(noCheck)
	} else {
		r.current = b.outer
	}
}

// flow follows what an instruction does to the regions. It is called when the
// instruction has been copied; scan.frames already has the block that it opened.
func (w *rewriter) flow(in instr) {
	switch in.code {
	case opBlock:
		w.openBlock(0)
	case opLoop:
		if w.wrappable(in) {
			w.openBlock(loopWraps)
			w.branchPoint(checkLoop)
		} else {
			w.openBlock(0)
			w.branchPoint(checkFuel)
		}
	case opIf:
		w.openBlock(0)
		w.branchPoint(noCheck)
	case opElse:
		w.dead = w.blocks[len(w.blocks)-1].dead
		w.branchPoint(noCheck)
	case opEnd:
		w.closeBlock()
	case opBr, opBrIf:
		w.exit(len(w.blocks) - 1 - int(in.x))
	case opBrTable:
		for _, x := range in.targets {
			w.exit(len(w.blocks) - 1 - int(x))
		}
	case opReturn:
		w.exit(0)
	}
	switch in.code {
	case opBr, opBrTable, opReturn, opUnreachable:
		w.dead = true
	case opBrIf:
		w.branchPoint(noCheck)
	}
}

func (w *rewriter) branchPoint(c check) {
	if !w.dead {
		w.charge(c)
	}
}

// assemble puts the charges where they belong.
func (w *rewriter) assemble(out asm, depth uint32) asm {
	w.reload(&out)
	last := 0
	for _, c := range w.charges {
		if c.fuel == 0 && c.check == noCheck {
			continue
		}
		out = append(out, w.code[last:c.at]...)
		last = c.at
		w.appendCharge(&out, c, depth)
	}
	return append(out, w.code[last:]...)
}

// A compiler keeps nothing in registers around a call, wherever in the loop it is, and a
// loop that asks the host for fuel inside is two to three times as slow. So it is left
// for that, and begun again:
//
//	block type
//	  loop
//	    block
//	      loop type
//	        … br_if fuel < 0 1 … the loop's own body
//	      end
//	      br 2
//	    end
//	    call refuel
//	    br 0
//	  end
//	  unreachable
//	end
//
// All that the loop keeps lies in locals. Its own are none of the operand stack's, unless it
// takes parameters.

// loopWraps is how many blocks stand around such a loop.
const loopWraps = 3

// maxWrapDepth is how deep a loop may lie in others to be wrapped: compilers take more
// than linear time for blocks that nest.
const maxWrapDepth = 256

// wrappable is asked before a loop is opened.
func (w *rewriter) wrappable(in instr) bool {
	return !w.dead && len(w.blocks) < maxWrapDepth && (in.block < 0 || w.scan.types[in.block].params == 0)
}

func (w *rewriter) wrapped() bool {
	last := len(w.blocks) - 1
	return last > 0 && w.blocks[last].wraps > w.blocks[last-1].wraps
}

// beginWrap copies the beginning of a loop, whose type is the bytes after its opcode.
func (w *rewriter) beginWrap(out *asm, loop []byte) {
	out.op(opBlock)
	out.op(loop[1:]...)
	out.op(opLoop, emptyBlock, opBlock, emptyBlock)
	out.op(loop...)
}

func (w *rewriter) endWrap(out *asm) {
	out.op(opEnd, opBr, 2, opEnd)
	out.i32(0)
	out.call(w.refuel)
	w.reload(out)
	out.op(opBr, 0, opEnd, opUnreachable, opEnd)
}

func (w *rewriter) appendCharge(out *asm, c charge, depth uint32) {
	if c.check == checkLoop {
		w.appendLoopCharge(out, c)
		return
	}
	w.spend(out, c.fuel)
	switch c.check {
	case checkFuel:
		w.appendCheck(out)
	case checkEntry:
		f := &w.notes.functions[w.fn]
		out.getGlobal(w.depth)
		out.i64(f.slots)
		out.op(i64Sub)
		out.tee(depth)
		w.fuelLeft(out)
		out.op(i64Or)
		out.i64(0)
		out.op(i64LessS, opIf, emptyBlock)
		out.get(depth)
		out.call(w.helper(helpEnter, 0))
		w.reload(out)
		out.op(opEnd)
	}
}

func (w *rewriter) appendLoopCharge(out *asm, c charge) {
	w.fuelLeft(out)
	out.i64(0)
	out.op(i64LessS, opBrIf, 1)
	w.spend(out, c.fuel)
}

func (w *rewriter) appendCheck(out *asm) {
	w.fuelLeft(out)
	out.i64(0)
	out.op(i64LessS, opIf, emptyBlock)
	out.i32(0)
	out.call(w.refuel)
	w.reload(out)
	out.op(opEnd)
}

// Functions that call no other keep what is left in a local too, which is in a register:
// reading the global that has just been written takes longer than a small loop does. What
// calls the host reads it again.

func (w *rewriter) reload(out *asm) {
	if w.keeps {
		out.getGlobal(w.fuel)
		out.set(w.fuelLocal)
	}
}

func (w *rewriter) fuelLeft(out *asm) {
	if w.keeps {
		out.get(w.fuelLocal)
	} else {
		out.getGlobal(w.fuel)
	}
}

func (w *rewriter) spend(out *asm, n int64) {
	if n == 0 {
		return
	}
	w.fuelLeft(out)
	out.i64(n)
	out.op(i64Sub)
	if w.keeps {
		out.tee(w.fuelLocal)
	}
	out.setGlobal(w.fuel)
}
