package wasmbin

import (
	"fmt"
	"math"
	"strings"
)

// Version names the cost table and the way in which Rewrite changes modules. The
// same module is charged the same fuel by nodes of one version.
const Version = 2

// What a rewritten module shows to its host and takes from it.
const (
	// HostModule has the function HostRefuel, which takes an i32 and returns
	// nothing. It is called with 0 when the fuel has fallen below zero, and gives
	// more or ends the run; and with 1 when calls nest too deep, and must not return.
	HostModule = Reserved + "v1"
	HostRefuel = "refuel"
	// Fuel is an exported mutable i64: what is left. It starts at zero, and falls
	// below by no more than a few thousand before the host is called.
	Fuel = Reserved + "fuel"
	// Depth is an exported mutable i64: the words of stack that calls may still take.
	// The host sets it to MaxDepth before each call of an export.
	Depth = Reserved + "depth"
	// Start is the module's start function, exported only where it had one: the host
	// calls it first.
	Start = Reserved + "start"
	// GlobalPrefix and its index name each mutable global of the module.
	GlobalPrefix = Reserved + "global_"
)

// MaxDepth bounds the nesting of calls, in words of 8 bytes that they may take on a
// machine's stack by an estimate that does not depend on the machine. Machine code
// seldom takes as much, and wazero has 50 MB for it.
const MaxDepth = 5_000_000

// Rewrite scans b as Scan does and returns a module that does the same, and besides
// counts fuel, stops where calls nest too deep, and makes one NaN of every NaN that
// arithmetic yields. Debug sections are left out, and names of functions kept.
//
// It is pure: equal modules and versions give equal bytes.
func Rewrite(b []byte, r Rules) ([]byte, Module, error) {
	s := scan{notes: &notes{start: -1}}
	if err := s.run(b, r); err != nil {
		return nil, Module{}, err
	}
	w := newRewriter(&s)
	out := w.module()
	if s.err != nil { // the scan let pass what cannot be read again
		return nil, Module{}, s.err
	}
	return out, s.mod, nil
}

// A rewriter reads a scanned binary again and writes the new one. Our import becomes
// the last one, so the module's own functions move up by one; helpers and globals of
// ours come last.
type rewriter struct {
	*scan
	imports uint32 // of the module itself
	refuel  uint32 // index of our import
	newType uint32 // the first type of ours
	fuel    uint32 // global
	depth   uint32 // global
	helpers helpers

	fn         int    // the function that is being rewritten
	depthLocal uint32 // where it keeps how deep it is
	keeps      bool   // what fuel is left, in a local
	fuelLocal  uint32
	regions
	nans
}

func newRewriter(s *scan) *rewriter {
	n := uint32(len(s.mod.Imports))
	w := &rewriter{scan: s, imports: n, refuel: n, newType: uint32(len(s.types)), fuel: uint32(s.globals), depth: uint32(s.globals) + 1}
	w.helpers.first = uint32(len(s.funcs)) + 1
	return w
}

// Types of ours, from w.types on.
const (
	typeReason = iota // (i32) → ()
	typeDepth         // (i64) → ()
	typeBulk          // (i32, i32, i32) → ()
	typeSize          // (i32) → (i32)
	newTypes
)

// index returns a function's index in the new module.
func (w *rewriter) index(f uint32) uint32 {
	if f >= w.imports {
		return f + 1
	}
	return f
}

// order is that of the sections in a binary.
var order = [...]byte{1, 2, 3, 4, 5, 6, 7, 9, 12, 10, 11}

func (w *rewriter) module() []byte {
	code := w.newCode() // it says which helpers there are
	out := append(make([]byte, 0, len(w.b)+len(w.b)/2+1024), header...)
	for _, id := range order {
		var body []byte
		switch id {
		case 1:
			body = w.newTypes()
		case 2:
			body = w.newImports()
		case 3:
			body = w.newFunctions()
		case 6:
			body = w.newGlobals()
		case 7:
			body = w.newExports()
		case 9:
			body = w.newElements()
		case 10:
			body = code
		case 11:
			body = w.newDatas()
		default:
			body = w.b[w.notes.sections[id].at:w.notes.sections[id].end]
		}
		if len(body) > 0 {
			out = appendSection(out, id, body)
		}
	}
	return w.newCustoms(out)
}

// reopen reads a section again; it returns how many things are in it.
func (w *rewriter) reopen(id int) (n uint32) {
	p := w.notes.sections[id]
	w.section, w.at, w.end = sections[id].name, p.at, p.end
	if p.at == p.end {
		return 0
	}
	return w.u32()
}

// rest returns what reopen left of the section.
func (w *rewriter) rest() []byte { return w.b[w.at:w.end] }

func (w *rewriter) newTypes() []byte {
	n := w.reopen(1)
	out := append(appendU32(nil, n+newTypes), w.rest()...)
	for _, t := range [newTypes]string{
		typeReason: "\x60\x01\x7f\x00", typeDepth: "\x60\x01\x7e\x00", typeBulk: "\x60\x03\x7f\x7f\x7f\x00", typeSize: "\x60\x01\x7f\x01\x7f",
	} {
		out = append(out, t...)
	}
	return out
}

func (w *rewriter) newImports() []byte {
	n := w.reopen(2)
	out := append(appendU32(nil, n+1), w.rest()...)
	out = append(appendName(appendName(out, HostModule), HostRefuel), byte(Function))
	return appendU32(out, w.newType+typeReason)
}

func (w *rewriter) newFunctions() []byte {
	n := w.reopen(3)
	out := append(appendU32(nil, n+uint32(len(w.helpers.list))), w.rest()...)
	for _, h := range w.helpers.list {
		out = appendU32(out, w.newType+h.typ)
	}
	return out
}

func (w *rewriter) newGlobals() []byte {
	n := w.reopen(6)
	out := appendU32(nil, n+2)
	for i := uint32(0); i < n && w.err == nil; i++ {
		out = append(out, w.u8(), w.u8())
		out = w.constant(out)
	}
	zero, full := asm{0x7e, 1}, asm{0x7e, 1}
	zero.i64(0)
	full.i64(MaxDepth)
	return append(append(append(append(out, zero...), opEnd), full...), opEnd)
}

// constant copies an initial value.
func (w *rewriter) constant(out []byte) []byte {
	in := w.instr()
	if in.code == opRefFunc {
		out = appendU32(append(out, opRefFunc), w.index(in.x))
	} else {
		out = append(out, w.b[in.at:w.at]...)
	}
	return append(out, w.u8())
}

func (w *rewriter) newExports() []byte {
	n := w.reopen(7)
	var out []byte
	for i := uint32(0); i < n && w.err == nil; i++ {
		out = appendName(out, string(w.bytes(w.u32(), "name")))
		kind, x := Kind(w.u8()), w.u32()
		if kind == Function {
			x = w.index(x)
		}
		out = appendU32(append(out, byte(kind)), x)
	}
	export := func(name string, kind Kind, x uint32) {
		out = appendU32(append(appendName(out, name), byte(kind)), x)
		n++
	}
	export(Fuel, Global, w.fuel)
	export(Depth, Global, w.depth)
	if w.notes.start >= 0 {
		export(Start, Function, w.index(uint32(w.notes.start)))
	}
	for i, mutable := range w.notes.mutable {
		if mutable {
			export(fmt.Sprint(GlobalPrefix, i), Global, uint32(i))
		}
	}
	return append(appendU32(nil, n), out...)
}

func (w *rewriter) newElements() []byte {
	n := w.reopen(9)
	if n == 0 {
		return nil
	}
	out := appendU32(nil, n)
	for i := uint32(0); i < n && w.err == nil; i++ {
		out = w.newElement(out)
	}
	return out
}

// newElement copies one segment; elementSection says what the flag's bits are.
func (w *rewriter) newElement(out []byte) []byte {
	flag := w.u32()
	out = appendU32(out, flag)
	if flag&1 == 0 {
		if flag&2 != 0 {
			out = appendU32(out, w.u32())
		}
		out = w.constant(out)
	}
	if flag&3 != 0 {
		out = append(out, w.u8())
	}
	n := w.u32()
	out = appendU32(out, n)
	for i := uint32(0); i < n && w.err == nil; i++ {
		if flag&4 != 0 {
			out = w.constant(out)
		} else {
			out = appendU32(out, w.index(w.u32()))
		}
	}
	return out
}

func (w *rewriter) newCustoms(out []byte) []byte {
	for _, p := range w.notes.customs {
		w.section, w.at, w.end = "custom", p.at, p.end
		switch name := string(w.bytes(w.u32(), "name")); {
		case strings.HasPrefix(name, ".debug_"): // offsets into code that is no longer there
		case name == "name":
			out = appendSection(out, 0, w.newNames(appendName(nil, name)))
		default:
			out = appendSection(out, 0, w.b[p.at:p.end])
		}
	}
	return out
}

// newNames copies the name section without what names parts of functions, whose
// places have changed.
func (w *rewriter) newNames(out []byte) []byte {
	const functions, locals, labels = 1, 2, 3
	for w.err == nil && w.left() > 0 {
		id := w.u8()
		end := w.open(w.u32(), "subsection")
		switch id {
		case functions:
			out = appendSection(out, id, w.functionNames())
		case locals, labels:
		default:
			out = appendSection(out, id, w.rest())
		}
		w.at, w.end = w.end, end
	}
	return out
}

func (w *rewriter) functionNames() []byte {
	n := w.u32()
	out := appendU32(nil, n)
	for i := uint32(0); i < n && w.err == nil; i++ {
		x := w.u32()
		if x < math.MaxUint32 {
			x = w.index(x)
		}
		out = appendName(appendU32(out, x), string(w.bytes(w.u32(), "name")))
	}
	return out
}
