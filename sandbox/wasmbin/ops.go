package wasmbin

// An imm says what follows an opcode.
type imm uint8

const (
	unknown imm = iota
	none
	block // block type
	label
	labels // br_table
	callee
	indirect // type, table
	local
	global
	table
	elemTable // element segment, table
	tables    // table, table
	elem
	memarg
	memargLane
	memory // the zero byte of a memory index
	memories
	dataMemory
	data
	int32Const
	int64Const
	skip4
	skip8
	skip16
	lane
	types // select with types
	heap  // ref.null
)

// An op is how an instruction is laid out and what it does to the operand stack.
type op struct {
	imm   imm
	grow  int8  // values pushed less values popped
	align uint8 // natural alignment of memarg, or lanes
}

// A span gives one op to a run of opcodes.
type span struct {
	from, to byte
	op
}

func fill(spans []span) (t [256]op) {
	for _, s := range spans {
		for c := int(s.from); c <= int(s.to); c++ {
			t[c] = s.op
		}
	}
	return t
}

// Opcodes that the scan itself has to know.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opReturn      = 0x0f
	opCall        = 0x10
	opIndirect    = 0x11
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opLocalTee    = 0x22
	opGlobalGet   = 0x23
	opRefNull     = 0xd0
	opRefFunc     = 0xd2
	opMisc        = 0xfc
	opVector      = 0xfd
	opMemoryGrow  = 0x40
	opMemoryInit  = opMisc<<8 | 0x08
	opMemoryCopy  = opMisc<<8 | 0x0a
	opMemoryFill  = opMisc<<8 | 0x0b
	opTableInit   = opMisc<<8 | 0x0c
	opTableCopy   = opMisc<<8 | 0x0e
	opTableGrow   = opMisc<<8 | 0x0f
	opTableFill   = opMisc<<8 | 0x11
	opVectorConst = opVector<<8 | 0x0c
)

var plainOps = fill([]span{
	{0x00, 0x01, op{none, 0, 0}},
	{0x02, 0x03, op{block, 0, 0}},
	{0x04, 0x04, op{block, -1, 0}},
	{0x05, 0x05, op{none, 0, 0}},
	{0x0b, 0x0b, op{none, 0, 0}},
	{0x0c, 0x0c, op{label, 0, 0}},
	{0x0d, 0x0d, op{label, -1, 0}},
	{0x0e, 0x0e, op{labels, -1, 0}},
	{0x0f, 0x0f, op{none, 0, 0}},
	{0x10, 0x10, op{callee, 0, 0}},
	{0x11, 0x11, op{indirect, -1, 0}},
	{0x1a, 0x1a, op{none, -1, 0}}, // drop
	{0x1b, 0x1b, op{none, -2, 0}}, // select
	{0x1c, 0x1c, op{types, -2, 0}},
	{0x20, 0x20, op{local, 1, 0}},
	{0x21, 0x21, op{local, -1, 0}},
	{0x22, 0x22, op{local, 0, 0}},
	{0x23, 0x23, op{global, 1, 0}},
	{0x24, 0x24, op{global, -1, 0}},
	{0x25, 0x25, op{table, 0, 0}},
	{0x26, 0x26, op{table, -2, 0}},
	{0x28, 0x28, op{memarg, 0, 2}}, // i32.load
	{0x29, 0x29, op{memarg, 0, 3}},
	{0x2a, 0x2a, op{memarg, 0, 2}},
	{0x2b, 0x2b, op{memarg, 0, 3}},
	{0x2c, 0x2d, op{memarg, 0, 0}},
	{0x2e, 0x2f, op{memarg, 0, 1}},
	{0x30, 0x31, op{memarg, 0, 0}},
	{0x32, 0x33, op{memarg, 0, 1}},
	{0x34, 0x35, op{memarg, 0, 2}},
	{0x36, 0x36, op{memarg, -2, 2}}, // i32.store
	{0x37, 0x37, op{memarg, -2, 3}},
	{0x38, 0x38, op{memarg, -2, 2}},
	{0x39, 0x39, op{memarg, -2, 3}},
	{0x3a, 0x3a, op{memarg, -2, 0}},
	{0x3b, 0x3b, op{memarg, -2, 1}},
	{0x3c, 0x3c, op{memarg, -2, 0}},
	{0x3d, 0x3d, op{memarg, -2, 1}},
	{0x3e, 0x3e, op{memarg, -2, 2}},
	{0x3f, 0x3f, op{memory, 1, 0}}, // memory.size
	{0x40, 0x40, op{memory, 0, 0}},
	{0x41, 0x41, op{int32Const, 1, 0}},
	{0x42, 0x42, op{int64Const, 1, 0}},
	{0x43, 0x43, op{skip4, 1, 0}},
	{0x44, 0x44, op{skip8, 1, 0}},
	{0x45, 0x45, op{none, 0, 0}}, // tests and comparisons
	{0x46, 0x4f, op{none, -1, 0}},
	{0x50, 0x50, op{none, 0, 0}},
	{0x51, 0x66, op{none, -1, 0}},
	{0x67, 0x69, op{none, 0, 0}}, // arithmetic
	{0x6a, 0x78, op{none, -1, 0}},
	{0x79, 0x7b, op{none, 0, 0}},
	{0x7c, 0x8a, op{none, -1, 0}},
	{0x8b, 0x91, op{none, 0, 0}},
	{0x92, 0x98, op{none, -1, 0}},
	{0x99, 0x9f, op{none, 0, 0}},
	{0xa0, 0xa6, op{none, -1, 0}},
	{0xa7, 0xc4, op{none, 0, 0}}, // conversions, sign extension
	{0xd0, 0xd0, op{heap, 1, 0}},
	{0xd1, 0xd1, op{none, 0, 0}},
	{0xd2, 0xd2, op{callee, 1, 0}},
})

var miscOps = fill([]span{
	{0x00, 0x07, op{none, 0, 0}}, // saturating conversions
	{0x08, 0x08, op{dataMemory, -3, 0}},
	{0x09, 0x09, op{data, 0, 0}},
	{0x0a, 0x0a, op{memories, -3, 0}},
	{0x0b, 0x0b, op{memory, -3, 0}},
	{0x0c, 0x0c, op{elemTable, -3, 0}},
	{0x0d, 0x0d, op{elem, 0, 0}},
	{0x0e, 0x0e, op{tables, -3, 0}},
	{0x0f, 0x0f, op{table, -1, 0}},
	{0x10, 0x10, op{table, 1, 0}},
	{0x11, 0x11, op{table, -3, 0}},
})

// Later spans overrule earlier ones: the bulk of the vector instructions take two
// operands, and the gaps in the numbering come last.
var vectorOps = fill([]span{
	{0x0e, 0xff, op{none, -1, 0}},
	{0x00, 0x00, op{memarg, 0, 4}},
	{0x01, 0x06, op{memarg, 0, 3}},
	{0x07, 0x07, op{memarg, 0, 0}},
	{0x08, 0x08, op{memarg, 0, 1}},
	{0x09, 0x09, op{memarg, 0, 2}},
	{0x0a, 0x0a, op{memarg, 0, 3}},
	{0x0b, 0x0b, op{memarg, -2, 4}},
	{0x0c, 0x0c, op{skip16, 1, 0}},
	{0x0d, 0x0d, op{skip16, -1, 0}},
	{0x0f, 0x14, op{none, 0, 0}}, // splat
	{0x15, 0x16, op{lane, 0, 16}},
	{0x17, 0x17, op{lane, -1, 16}},
	{0x18, 0x19, op{lane, 0, 8}},
	{0x1a, 0x1a, op{lane, -1, 8}},
	{0x1b, 0x1b, op{lane, 0, 4}},
	{0x1c, 0x1c, op{lane, -1, 4}},
	{0x1d, 0x1d, op{lane, 0, 2}},
	{0x1e, 0x1e, op{lane, -1, 2}},
	{0x1f, 0x1f, op{lane, 0, 4}},
	{0x20, 0x20, op{lane, -1, 4}},
	{0x21, 0x21, op{lane, 0, 2}},
	{0x22, 0x22, op{lane, -1, 2}},
	{0x4d, 0x4d, op{none, 0, 0}},
	{0x52, 0x52, op{none, -2, 0}}, // bitselect
	{0x53, 0x53, op{none, 0, 0}},
	{0x54, 0x54, op{memargLane, -1, 0}},
	{0x55, 0x55, op{memargLane, -1, 1}},
	{0x56, 0x56, op{memargLane, -1, 2}},
	{0x57, 0x57, op{memargLane, -1, 3}},
	{0x58, 0x58, op{memargLane, -2, 0}},
	{0x59, 0x59, op{memargLane, -2, 1}},
	{0x5a, 0x5a, op{memargLane, -2, 2}},
	{0x5b, 0x5b, op{memargLane, -2, 3}},
	{0x5c, 0x5c, op{memarg, 0, 2}},
	{0x5d, 0x5d, op{memarg, 0, 3}},
	{0x5e, 0x64, op{none, 0, 0}}, // one operand from here on
	{0x67, 0x6a, op{none, 0, 0}},
	{0x74, 0x75, op{none, 0, 0}},
	{0x7a, 0x7a, op{none, 0, 0}},
	{0x7c, 0x81, op{none, 0, 0}},
	{0x83, 0x84, op{none, 0, 0}},
	{0x87, 0x8a, op{none, 0, 0}},
	{0x94, 0x94, op{none, 0, 0}},
	{0xa0, 0xa1, op{none, 0, 0}},
	{0xa3, 0xa4, op{none, 0, 0}},
	{0xa7, 0xaa, op{none, 0, 0}},
	{0xc0, 0xc1, op{none, 0, 0}},
	{0xc3, 0xc4, op{none, 0, 0}},
	{0xc7, 0xca, op{none, 0, 0}},
	{0xe0, 0xe1, op{none, 0, 0}},
	{0xe3, 0xe3, op{none, 0, 0}},
	{0xec, 0xed, op{none, 0, 0}},
	{0xef, 0xef, op{none, 0, 0}},
	{0xf8, 0xff, op{none, 0, 0}},
	{0x9a, 0x9a, op{}}, // not given to any instruction
	{0xa2, 0xa2, op{}},
	{0xa5, 0xa6, op{}},
	{0xaf, 0xb0, op{}},
	{0xb2, 0xb4, op{}},
	{0xbb, 0xbb, op{}},
	{0xc2, 0xc2, op{}},
	{0xc5, 0xc6, op{}},
	{0xcf, 0xd0, op{}},
	{0xd2, 0xd4, op{}},
	{0xe2, 0xe2, op{}},
	{0xee, 0xee, op{}},
})

// proposal names the extension that an opcode we refuse belongs to.
func proposal(code byte, sub uint32) string {
	switch {
	case code >= 0x06 && code <= 0x0a || code == 0x18 || code == 0x19 || code == 0x1f:
		return "exception handling"
	case code == 0x12 || code == 0x13:
		return "tail calls"
	case code == 0x14 || code == 0x15 || code >= 0xd4 && code <= 0xd6:
		return "typed function references"
	case code == 0xd3 || code == 0xfb:
		return "garbage collection"
	case code == 0xfe:
		return "threads"
	case code == opVector && sub >= 0x100 && sub < 0x130:
		return "relaxed SIMD"
	case code == opMisc && sub >= 0x13 && sub <= 0x16:
		return "wide arithmetic"
	}
	return ""
}
