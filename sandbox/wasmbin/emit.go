package wasmbin

// Encoders of what a binary is made of.

func appendU32(b []byte, v uint32) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

func appendI64(b []byte, v int64) []byte {
	for v < -64 || v > 63 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

func appendName(b []byte, s string) []byte { return append(appendU32(b, uint32(len(s))), s...) }

func appendSection(b []byte, id byte, body []byte) []byte {
	return append(appendU32(append(b, id), uint32(len(body))), body...)
}

// asm is code that we make; each method appends one instruction.
type asm []byte

func (c *asm) op(bytes ...byte)          { *c = append(*c, bytes...) }
func (c *asm) indexed(op byte, x uint32) { *c = appendU32(append(*c, op), x) }
func (c *asm) i32(v int32)               { *c = appendI64(append(*c, 0x41), int64(v)) }
func (c *asm) i64(v int64)               { *c = appendI64(append(*c, 0x42), v) }
func (c *asm) get(local uint32)          { c.indexed(0x20, local) }
func (c *asm) set(local uint32)          { c.indexed(0x21, local) }
func (c *asm) tee(local uint32)          { c.indexed(0x22, local) }
func (c *asm) getGlobal(x uint32)        { c.indexed(0x23, x) }
func (c *asm) setGlobal(x uint32)        { c.indexed(0x24, x) }
func (c *asm) call(x uint32)             { c.indexed(opCall, x) }
