package wasmbin

import (
	"encoding/binary"
	"math"
)

// take pops a value; nobody looks at its bits.
func (w *rewriter) take() value {
	base := 0
	if len(w.frames) > 0 {
		base = int(w.top().base)
	}
	last := len(w.stack) - 1
	if last < base { // in code that is never reached
		return opaque
	}
	v := w.stack[last]
	w.stack = w.stack[:last]
	return v
}

// observe pops n values whose bits may be looked at.
func (w *rewriter) observe(n int) {
	for range n {
		w.see(w.take())
	}
}

func (w *rewriter) see(v value) {
	if v >= 0 {
		w.sites[v].seen = true
	}
}

// flowOut follows a branch to a block's label: what it takes along may come to anything.
func (w *rewriter) flowOut(block int) {
	f := &w.frames[block]
	n := int(f.results)
	if f.code == opLoop {
		n = int(f.params)
	}
	for i := max(len(w.stack)-n, int(w.top().base)); i < len(w.stack); i++ {
		w.see(w.stack[i])
	}
}

// refill leaves n values of no known kind on the stack of a block.
func (w *rewriter) refill(f *frame, n uint16) {
	w.stack = w.stack[:min(int(f.base), len(w.stack))]
	for range n {
		w.stack = append(w.stack, opaque)
	}
}

func (w *rewriter) callOf(t signature) {
	w.observe(int(t.params))
	for range t.results {
		w.stack = append(w.stack, opaque)
	}
}

func (w *rewriter) site(s site) value {
	s.weight = w.weight[len(w.weight)-1]
	w.sites = append(w.sites, s)
	return value(len(w.sites) - 1)
}

func (w *rewriter) reading(in instr) value {
	if !w.nans.locals[in.x].float {
		return opaque
	}
	return w.site(site{at: in.at, read: int32(in.x), set: -1})
}

func (w *rewriter) setLocal(in instr) {
	v, l := w.take(), &w.nans.locals[in.x]
	l.sets += w.weight[len(w.weight)-1]
	switch {
	case v == solid:
	case v < 0 || w.sites[v].read >= 0:
		l.mixed = true
	case l.shape != noFloat && l.shape != w.sites[v].shape:
		l.mixed = true
	default:
		l.shape = w.sites[v].shape
	}
	if v >= 0 {
		w.sites[v].set = int32(in.x)
	}
}

// plain follows an instruction that takes some values and makes at most one.
func (w *rewriter) plain(in instr) {
	u := floatUse(in.code)
	made := makes(in)
	for range made - in.grow {
		v := w.take()
		if u.takes == noFloat || !w.takesAs(v, u.takes) {
			w.see(v)
		}
	}
	switch {
	case made == 0:
	case u.makes != noFloat:
		w.stack = append(w.stack, w.site(site{at: in.at, read: -1, set: -1, shape: u.makes}))
	case w.isSolid(in):
		w.stack = append(w.stack, solid)
	default:
		w.stack = append(w.stack, opaque)
	}
}

// takesAs reports whether arithmetic of that shape sees no more of v than v's own did.
// Scalars are of one shape by their type.
func (w *rewriter) takesAs(v value, s shape) bool {
	if v < 0 || s == f32 || s == f64 {
		return true
	}
	if read := w.sites[v].read; read >= 0 {
		l := &w.nans.locals[read]
		if l.shape == noFloat { // it may be set further on
			l.shape = s
		}
		return l.shape == s
	}
	return w.sites[v].shape == s
}

// isSolid reports whether an instruction makes a float that is no NaN.
func (w *rewriter) isSolid(in instr) bool {
	switch {
	case in.code == 0x43:
		v := math.Float32frombits(binary.LittleEndian.Uint32(w.b[w.at-4:]))
		return v == v
	case in.code == 0x44:
		v := math.Float64frombits(binary.LittleEndian.Uint64(w.b[w.at-8:]))
		return v == v
	case in.code == opVectorConst:
		return noNaN(w.b[w.at-16 : w.at])
	}
	return in.code >= 0xb2 && in.code <= 0xb5 || in.code >= 0xb7 && in.code <= 0xba // from integers
}

// noNaN reports whether a vector has none, in lanes of either size.
func noNaN(v []byte) bool {
	for i := 0; i < 16; i += 4 {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(v[i:])); x != x {
			return false
		}
	}
	a, b := math.Float64frombits(binary.LittleEndian.Uint64(v)), math.Float64frombits(binary.LittleEndian.Uint64(v[8:]))
	return a == a && b == b
}

// makes returns how many values an instruction other than control and local ones makes.
func makes(in instr) int {
	switch c := in.code; {
	case c == opUnreachable, c == 0x01, c == 0x24, c == 0x26, c >= 0x36 && c <= 0x3e: // stores and sets
		return 0
	case c >= opMemoryInit && c <= opTableCopy, c == opTableFill:
		return 0
	case c == opVector<<8|0x0b, c >= opVector<<8|0x58 && c <= opVector<<8|0x5b: // vector stores
		return 0
	}
	return 1
}

// decide says which locals are lazy, and so which sites need a canonical NaN.
func (w *rewriter) decide() {
	all := w.nans.locals
	for _, s := range w.sites {
		if s.read >= 0 && (s.seen || s.set >= 0) {
			all[s.read].seen += s.weight
		}
	}
	for i := range all {
		l := &all[i]
		l.lazy = l.float && l.shape != noFloat && !l.mixed && l.seen <= l.sets
	}
	for i := range w.sites {
		s := &w.sites[i]
		switch {
		case s.read >= 0:
			s.seen = all[s.read].lazy && (s.seen || s.set >= 0)
			s.shape = all[s.read].shape
		case s.set >= 0:
			s.seen = s.seen || !all[s.set].lazy
		}
	}
}

// needed reports whether a canonical NaN has to stand behind the instruction at that
// place, and of which shape. Places are asked for in order.
func (w *rewriter) needed(at int) (shape, bool) {
	for w.next < len(w.sites) && w.sites[w.next].at < at {
		w.next++
	}
	if w.next == len(w.sites) || w.sites[w.next].at != at {
		return noFloat, false
	}
	s := &w.sites[w.next]
	return s.shape, s.seen
}

// canonical says how floats of a shape are compared with themselves, and the NaN that
// takes the place of what isn't equal to itself.
var canonical = [...]struct {
	typ   byte
	nan   string
	equal []byte
	pick  []byte
}{
	f32:   {0x7d, "\x43\x00\x00\xc0\x7f", []byte{0x5b}, []byte{opSelect}},
	f64:   {0x7c, "\x44\x00\x00\x00\x00\x00\x00\xf8\x7f", []byte{0x61}, []byte{opSelect}},
	f32x4: {0x7b, "\xfd\x0c\x00\x00\xc0\x7f\x00\x00\xc0\x7f\x00\x00\xc0\x7f\x00\x00\xc0\x7f", []byte{opVector, 0x41}, []byte{opVector, 0x52}},
	f64x2: {0x7b, "\xfd\x0c\x00\x00\x00\x00\x00\x00\xf8\x7f\x00\x00\x00\x00\x00\x00\xf8\x7f", []byte{opVector, 0x47}, []byte{opVector, 0x52}},
}

// canonicalise makes the value on top of the stack canonical where it is a NaN.
func canonicalise(out *asm, s shape, extra *extraLocals) {
	c := &canonical[s]
	x := extra.one(c.typ)
	out.tee(x)
	out.op([]byte(c.nan)...)
	out.get(x)
	out.get(x)
	out.op(c.equal...)
	out.op(c.pick...)
}
