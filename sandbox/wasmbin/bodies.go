package wasmbin

import "slices"

// code returns the new code section.
func (w *rewriter) newCode() []byte {
	n := len(w.notes.functions)
	bodies := make([]byte, 0, len(w.b)+len(w.b)/2)
	w.section = sections[10].name
	var body asm
	for i := range n {
		body = w.function(i, body[:0])
		bodies = append(appendU32(bodies, uint32(len(body))), body...)
	}
	for i := 0; i < len(w.helpers.list); i++ { // one may need another
		body := w.helpers.list[i].body
		bodies = append(appendU32(bodies, uint32(len(body))), body...)
	}
	if n += len(w.helpers.list); n == 0 {
		return nil
	}
	return append(appendU32(make([]byte, 0, len(bodies)+5), uint32(n)), bodies...)
}

// function appends the new body of the i-th function of the module.
func (w *rewriter) function(i int, out asm) asm {
	f := &w.notes.functions[i]
	sig := w.scan.types[w.funcs[int(w.imports)+i]]
	w.fn, w.at, w.end = i, f.at, f.end
	w.used = [costs]int{}
	w.localGroups(int(sig.params))
	groups := w.b[f.at:w.at]
	w.analyse(f, sig)
	extra := extraLocals{next: uint32(w.used[locals])}
	if f.calls {
		w.depthLocal = extra.add(0x7e)
	}
	if w.keeps = !f.calls; w.keeps {
		w.fuelLocal = extra.add(0x7e)
	}
	w.regions.begin()
	w.charge(entryCheck(f))
	w.frames = append(w.frames[:0], frame{code: opBlock, results: sig.results})
	w.openBlock(0)
	for w.err == nil && len(w.frames) > 0 {
		in := w.instr()
		w.copy(f, in, &extra)
	}
	out = extra.declare(out, groups)
	return w.assemble(out, w.depthLocal)
}

func entryCheck(f *function) check {
	switch {
	case f.calls:
		return checkEntry
	case f.loops || f.weight > trivialWeight:
		return checkFuel
	}
	return noCheck
}

// copy writes one instruction of the module, changed where it must be.
func (w *rewriter) copy(f *function, in instr, extra *extraLocals) {
	w.spendFuel(in.fuel())
	out := (*asm)(&w.regions.code)
	switch in.code {
	case opCall:
		w.beforeCall(out, in)
		out.call(w.index(in.x))
	case opIndirect:
		w.beforeCall(out, in)
		out.op(w.b[in.at:w.at]...)
	case opRefFunc:
		out.indexed(opRefFunc, w.index(in.x))
	case opMemoryGrow, opMemoryFill, opMemoryCopy:
		out.call(w.helper(bulkHelpers[in.code], 0))
	case opLoop:
		if w.wrappable(in) {
			w.beginWrap(out, w.b[in.at:w.at])
		} else {
			out.op(w.b[in.at:w.at]...)
		}
	case opEnd:
		if w.wrapped() {
			w.endWrap(out)
		} else {
			out.op(opEnd)
		}
	case opBr, opBrIf:
		out.indexed(byte(in.code), w.label(in.x))
	case opBrTable:
		out.indexed(opBrTable, uint32(len(in.targets)-1))
		for _, x := range in.targets {
			*out = appendU32(*out, w.label(x))
		}
	case opMemoryInit:
		w.memoryInit(out, in)
	case opTableInit, opTableCopy, opTableGrow, opTableFill:
		out.call(w.helper(helpEntries, 0))
		out.op(w.b[in.at:w.at]...)
	default:
		out.op(w.b[in.at:w.at]...)
	}
	if calls(in.code) {
		w.reload(out)
	}
	if s, ok := w.needed(in.at); ok {
		canonicalise(out, s, extra)
	}
	switch in.code {
	case opBlock, opLoop, opIf:
		w.frames = append(w.frames, frame{code: byte(in.code)})
	case opEnd:
		w.frames = w.frames[:len(w.frames)-1]
	}
	w.flow(in)
}

// calls reports whether an instruction, or what stands in its place, calls a function.
func calls(code uint32) bool {
	switch code {
	case opCall, opIndirect, opMemoryGrow, opMemoryFill, opMemoryCopy, opMemoryInit, opTableInit, opTableCopy, opTableGrow, opTableFill:
		return true
	}
	return false
}

// beforeCall tells the callee how deep calls are nested already.
func (w *rewriter) beforeCall(out *asm, in instr) {
	if in.code == opCall {
		if in.x < w.imports {
			return
		}
		f := &w.notes.functions[in.x-w.imports]
		if !f.loops && !f.calls && f.weight <= trivialWeight && !w.dead {
			w.unchecked += f.weight
		}
		if !f.calls {
			return
		}
	}
	out.get(w.depthLocal)
	out.setGlobal(w.depth)
}

// wholeInit is up to which size a data segment is copied to memory in one piece.
const wholeInit = 1 << 20

func (w *rewriter) memoryInit(out *asm, in instr) {
	if w.notes.datas[in.x] > wholeInit {
		out.call(w.helper(helpInit, in.x))
		return
	}
	out.call(w.helper(helpBytes, 0))
	out.op(w.b[in.at:w.at]...)
}

// extraLocals are those that a function gets beside its own.
type extraLocals struct {
	next  uint32
	types []byte
}

func (e *extraLocals) add(typ byte) uint32 {
	e.types = append(e.types, typ)
	e.next++
	return e.next - 1
}

// one returns the local of that type, of which a function needs one.
func (e *extraLocals) one(typ byte) uint32 {
	if i := slices.Index(e.types, typ); i >= 0 {
		return e.next - uint32(len(e.types)-i)
	}
	return e.add(typ)
}

// declare appends the declaration of all locals; groups is that of the module's own.
func (e *extraLocals) declare(out asm, groups []byte) asm {
	r := reader{b: groups, end: len(groups)}
	n := r.u32()
	out = appendU32(out, n+uint32(len(e.types)))
	out = append(out, groups[r.at:]...)
	for _, t := range e.types {
		out = append(out, 1, t)
	}
	return out
}
