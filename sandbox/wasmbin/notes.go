package wasmbin

// notes are what a scan keeps for a rewriter. All methods do nothing on nil.
type notes struct {
	sections  [14]part // by number
	customs   []part
	functions []function
	mutable   []bool   // of each global
	datas     []uint32 // bytes of each data segment
	start     int64    // the start function, or -1
	vectors   bool     // values may take 16 bytes
}

// A part is b[at:end].
type part struct{ at, end int }

// A function is what the rewriter knows of one before it reads it again.
type function struct {
	part         // its body, from the locals on
	slots  int64 // the stack that a call of it takes, in words of 8 bytes
	height int   // of the operand stack, at most
	weight int64 // of all its instructions
	calls  bool  // functions of the module
	loops  bool
	floats bool // has instructions that may make a NaN
}

func (n *notes) section(id, at, end int) {
	switch {
	case n == nil:
	case id == 0:
		n.customs = append(n.customs, part{at, end})
	default:
		n.sections[id] = part{at, end}
	}
}

func (n *notes) global(mutable bool) {
	if n != nil {
		n.mutable = append(n.mutable, mutable)
	}
}

func (n *notes) startAt(function uint32) {
	if n != nil {
		n.start = int64(function)
	}
}

func (n *notes) data(size uint32) {
	if n != nil {
		n.datas = append(n.datas, size)
	}
}

func (n *notes) body(at, end int) {
	if n != nil {
		n.functions = append(n.functions, function{part: part{at, end}})
	}
}

func (n *notes) instr(in instr, imports, height int) {
	if n == nil {
		return
	}
	f := &n.functions[len(n.functions)-1]
	f.weight += in.fuel()
	f.slots++
	f.height = max(f.height, height)
	switch {
	case in.code == opCall:
		f.calls = f.calls || int(in.x) >= imports
	case in.code == opIndirect:
		f.calls = true
	case in.code == opLoop:
		f.loops = true
	case floatResult(in.code) != 0:
		f.floats = true
	}
	if in.code>>8 == opVector {
		n.vectors = true
	}
}

// frameSlots is what a call takes beside its values.
const frameSlots = 16

// ended estimates a call's stack: each value that lives through a call or where paths
// meet has a place of its own, and there are no more of them than instructions and locals.
func (n *notes) ended(s *scan) {
	if n == nil {
		return
	}
	f := &n.functions[len(n.functions)-1]
	places := min(int64(s.used[spills]+s.used[live]), f.slots+int64(s.used[locals])) + int64(f.height)
	if n.vectors {
		places *= 2
	}
	f.slots = frameSlots + int64(s.used[arity]) + places
}

func (n *notes) valueType(typ byte) {
	if n != nil && typ == 0x7b {
		n.vectors = true
	}
}
