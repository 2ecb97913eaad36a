package wasmbin

// An instr is one instruction: b[at:end], taken apart. A rewriter copies the bytes
// it leaves alone and encodes anew those whose indices move.
type instr struct {
	code    uint32 // the opcode; prefix<<8 | opcode of prefixed ones
	imm     imm
	grow    int // values pushed less values popped, without calls and branches
	at      int
	x, y    uint32   // indices, in the order of the binary; x of a label is its depth
	block   int64    // type index of a block, or noType, or oneType
	targets []uint32 // of br_table, the default last; good until the next read
}

// Block types that are no type index.
const (
	noType  = -1
	oneType = -2
)

// instr reads the next instruction and checks that it is one of ours.
func (s *scan) instr() instr {
	in := instr{at: s.at}
	code := s.u8()
	in.code = uint32(code)
	var sub uint32
	o := &plainOps[code]
	switch code {
	case opMisc, opVector:
		sub = s.u32()
		in.code = uint32(code)<<8 | sub&0xff
		o = &miscOps[sub&0xff]
		if code == opVector {
			o = &vectorOps[sub&0xff]
		}
	case 0xfb, 0xfe:
		sub = s.u32()
	}
	if o.imm == unknown || sub > 0xff {
		s.refuseOp(in.at, code, sub)
		return in
	}
	in.imm, in.grow = o.imm, int(o.grow)
	if o.imm != none {
		s.immediates(&in, o.align)
	}
	return in
}

func (s *scan) refuseOp(at int, code byte, sub uint32) {
	if p := proposal(code, sub); p != "" {
		s.fail(at, "instruction %#02x %d is of the proposal %s, which nodes do not run; build without it", code, sub, p)
		return
	}
	s.fail(at, "instruction %#02x %d does not exist", code, sub)
}

func (s *scan) immediates(in *instr, align uint8) {
	switch in.imm {
	case block:
		in.block = s.blockType()
	case label:
		in.x = s.index("label", len(s.frames))
	case labels:
		s.labels(in)
	case callee:
		in.x = s.index("function", len(s.funcs))
	case indirect:
		in.x = s.index("type", len(s.types))
		in.y = s.index("table", len(s.tables))
	case local:
		in.x = s.index("local", s.used[locals])
	case global:
		in.x = s.index("global", s.globals)
	case table:
		in.x = s.index("table", len(s.tables))
	case tables:
		in.x = s.index("table", len(s.tables))
		in.y = s.index("table", len(s.tables))
	case elem:
		in.x = s.index("element segment", s.elems)
	case elemTable:
		in.x = s.index("element segment", s.elems)
		in.y = s.index("table", len(s.tables))
	case data, dataMemory:
		s.dataIndex(in)
	case memory, memories:
		s.memoryIndex()
		if in.imm == memories {
			s.memoryIndex()
		}
	case memarg, memargLane:
		s.memarg(align)
		if in.imm == memargLane {
			s.lane(16 >> align)
		}
	default:
		s.constant(in, align)
	}
}

func (s *scan) constant(in *instr, lanes uint8) {
	switch in.imm {
	case int32Const:
		s.signed(32)
	case int64Const:
		s.signed(64)
	case skip4:
		s.bytes(4, "constant")
	case skip8:
		s.bytes(8, "constant")
	case skip16:
		if lanes := s.bytes(16, "constant"); in.code != opVectorConst {
			s.shuffle(lanes)
		}
	case lane:
		s.lane(lanes)
	case types:
		if n := s.count("types of select", 1, 1); n != 1 {
			s.fail(in.at, "select of %d types; it takes one", n)
		}
		s.valueType()
	case heap:
		s.refType("reference type")
	}
}

// blockType returns the type's index, noType or oneType.
func (s *scan) blockType() int64 {
	start := s.at
	if s.left() > 0 {
		switch c := s.b[s.at]; {
		case c == 0x40:
			s.at++
			return noType
		case c >= 0x40 && c < 0x80:
			s.valueType()
			return oneType
		}
	}
	x := s.signed(33)
	if x < 0 || x >= int64(len(s.types)) {
		s.fail(start, "block of type %d, which does not exist; there are %d", x, len(s.types))
		return noType
	}
	return x
}

func (s *scan) labels(in *instr) {
	n := s.count("targets of br_table", maxTargets, 1)
	s.targets = s.targets[:0]
	for i := 0; i <= n && s.err == nil; i++ {
		s.targets = append(s.targets, s.index("label", len(s.frames)))
	}
	in.targets = s.targets
}

func (s *scan) dataIndex(in *instr) {
	if !s.counted {
		s.fail(in.at, "memory.init or data.drop without a data count section")
	}
	in.x = s.index("data segment", s.datas)
	if in.imm == dataMemory {
		s.memoryIndex()
	}
}

func (s *scan) memoryIndex() {
	start := s.at
	switch i := s.u8(); {
	case i != 0:
		s.fail(start, "memory %d: nodes do not run the proposal multi-memory; build with one memory", i)
	case !s.memory:
		s.fail(start, "uses a memory, and the module has none")
	}
}

func (s *scan) memarg(align uint8) {
	start := s.at
	switch a := s.u32(); {
	case a&0x40 != 0 && a < 0x80:
		s.fail(start, "a memory index: nodes do not run the proposal multi-memory; build with one memory")
	case a > uint32(align):
		s.fail(start, "alignment 2^%d of an access to 2^%d bytes", a, align)
	case !s.memory:
		s.fail(start, "uses a memory, and the module has none")
	}
	s.u32()
}

func (s *scan) lane(n uint8) {
	if l := s.u8(); l >= n {
		s.fail(s.at-1, "lane %d of %d", l, n)
	}
}

func (s *scan) shuffle(lanes []byte) {
	for i, l := range lanes {
		if l >= 32 {
			s.fail(s.at-len(lanes)+i, "lane %d of 32", l)
		}
	}
}

// valueType reads a type that a local may have.
func (s *scan) valueType() byte {
	c := s.u8()
	switch {
	case c >= 0x7b && c <= 0x7f || c == 0x70 || c == 0x6f:
		s.notes.valueType(c)
	case c == 0x63 || c == 0x64:
		s.fail(s.at-1, "type %#02x is of the proposal typed function references, which nodes do not run", c)
	case c == 0x69 || c == 0x74:
		s.fail(s.at-1, "type %#02x is of the proposal exception handling, which nodes do not run", c)
	case c >= 0x6a && c <= 0x73 || c == 0x77 || c == 0x78:
		s.fail(s.at-1, "type %#02x is of the proposal garbage collection, which nodes do not run", c)
	default:
		s.fail(s.at-1, "%#02x is not a value type", c)
	}
	return c
}

func (s *scan) refType(what string) {
	if c := s.valueType(); s.err == nil && c != 0x70 && c != 0x6f {
		s.fail(s.at-1, "%#02x is not a %s", c, what)
	}
}
