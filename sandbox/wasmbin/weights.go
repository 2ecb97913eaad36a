package wasmbin

// A weight is the fuel of one instruction. A unit of fuel is about a nanosecond of
// a guest on a plain processor; where machine code needs nothing for an instruction,
// it is free.
type weight struct {
	from, to byte
	fuel     uint8
}

func weigh(spans []weight) (t [256]uint8) {
	for _, s := range spans {
		for c := int(s.from); c <= int(s.to); c++ {
			t[c] = s.fuel
		}
	}
	return t
}

// The cost table. Changing it, or anything else that changes what a module is
// charged, needs a new Version. Later spans overrule earlier ones.
var (
	plainFuel = weigh([]weight{
		{0x00, 0xff, 1},
		{0x01, 0x02, 0},  // nop, block
		{0x05, 0x05, 0},  // else
		{0x0b, 0x0b, 0},  // end
		{0x0e, 0x0e, 3},  // br_table
		{0x10, 0x10, 3},  // call
		{0x11, 0x11, 6},  // call_indirect
		{0x1a, 0x1a, 0},  // drop
		{0x20, 0x22, 0},  // local.get, local.set, local.tee
		{0x25, 0x26, 2},  // table.get, table.set
		{0x41, 0x44, 0},  // constants
		{0x6d, 0x70, 6},  // i32 division
		{0x7f, 0x82, 10}, // i64 division
		{0x91, 0x91, 5},  // f32.sqrt
		{0x95, 0x95, 4},  // f32.div
		{0x9f, 0x9f, 7},  // f64.sqrt
		{0xa3, 0xa3, 5},  // f64.div
		{0xa8, 0xab, 2},  // f32, f64 to i32
		{0xae, 0xb1, 2},  // f32, f64 to i64
	})
	miscFuel = weigh([]weight{
		{0x00, 0x07, 3},  // saturating conversions
		{0x08, 0x0e, 16}, // memory.init to table.copy, beside what they move
		{0x0f, 0x0f, 64}, // table.grow, beside what it adds
		{0x10, 0x10, 1},  // table.size
		{0x11, 0x11, 16}, // table.fill, beside what it fills
	})
	vectorFuel = weigh([]weight{
		{0x00, 0xff, 1},
		{0xd5, 0xd5, 4}, // i64x2.mul
		{0xe3, 0xe3, 6}, // f32x4.sqrt
		{0xe7, 0xe7, 5}, // f32x4.div
		{0xef, 0xef, 9}, // f64x2.sqrt
		{0xf3, 0xf3, 7}, // f64x2.div
		{0xf8, 0xff, 2}, // conversions
		{0x5e, 0x5f, 2}, // demote, promote
	})
)

// What instructions cost by size, beside their weight.
const (
	bytesShift   = 4    // memory.fill, memory.copy, memory.init: a unit for 16 bytes
	entriesShift = 1    // table.fill, table.copy, table.init, table.grow: for 2 entries
	growWeight   = 500  // memory.grow
	pageWeight   = 4096 // for each page asked for, whether or not it is given
)

// fuel returns what the instruction costs, without what it costs by size.
func (in *instr) fuel() int64 {
	switch {
	case in.code == opMemoryGrow:
		return 0 // its helper charges
	case in.code>>8 == opMisc:
		return int64(miscFuel[in.code&0xff])
	case in.code>>8 == opVector:
		return int64(vectorFuel[in.code&0xff])
	}
	return int64(plainFuel[in.code])
}
