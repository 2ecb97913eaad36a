package wasmbin

import (
	"math/rand/v2"
	"testing"
)

// A generator makes small sound modules by chance: functions that call each other, loops
// that end, branches, memory, floats. What they compute ends up in memory.
type generator struct {
	*rand.Rand
	floats bool // else no float is ever made, so that results do not depend on NaNs
	funcs  int
	code   []byte
	labels []byte // type of each open block's results, 0x40 for none, 0 for a loop
	size   int    // instructions to go
}

// Locals of each function: an i32 parameter, then two of each type, then counters of loops.
const (
	genLocals   = 1
	genCounters = 9
	genDepth    = 6 // of blocks
)

var genTypes = [...]byte{0x7f, 0x7e, 0x7d, 0x7c}

func (g *generator) op(b ...byte) { g.code = append(g.code, b...) }

func (g *generator) typ() byte {
	if g.floats {
		return genTypes[g.IntN(4)]
	}
	return genTypes[g.IntN(2)]
}

// local returns a local of that type.
func (g *generator) local(t byte) byte {
	return genLocals + 2*(0x7f-t) + byte(g.IntN(2))
}

// module returns a command with a few functions of type i32 → i32.
func (g *generator) module() []byte {
	g.funcs = 2 + g.IntN(3)
	bodies := cat(g.funcs + 1)
	for i := range g.funcs {
		g.code, g.labels, g.size = nil, []byte{0x7f}, 60
		for g.size > 0 {
			g.statement(i)
		}
		g.value(0x7f, i, 3)
		b := cat("\x05\x02\x7f\x02\x7e\x02\x7d\x02\x7c", genDepth+2, "\x7f", g.code, "\x0b")
		bodies = append(append(bodies, leb(uint64(len(b)))...), b...)
	}
	start := cat("\x00", i32c(0), i32c(3), "\x10", g.funcs-1, "\x36\x02\x00\x0b")
	bodies = append(append(bodies, leb(uint64(len(start)))...), start...)
	return file(sec(1, 2, "\x60\x00\x00", "\x60\x01\x7f\x01\x7f"), sec(3, g.funcs+1, times(g.funcs, "\x01"), "\x00"),
		sec(4, 1, "\x70\x01", g.funcs, g.funcs), sec(5, "\x01\x01\x01\x04"), sec(6, 2, "\x7f\x01\x41\x07\x0b", "\x7e\x01\x42\x09\x0b"),
		sec(7, 2, name("_start"), "\x00", g.funcs, name("memory"), "\x02\x00"),
		sec(9, 1, "\x00\x41\x00\x0b", g.funcs, each(g.funcs, func(i int) []byte { return cat(i) })), sec(10, bodies))
}

// statement appends one to function f, which leaves the stack as it is.
func (g *generator) statement(f int) {
	g.size--
	switch t := g.typ(); g.IntN(12) {
	case 0, 1, 2:
		g.value(t, f, 4)
		g.op(0x21, g.local(t))
	case 3, 4:
		g.store(t, f)
	case 5:
		g.block(0x02, f)
	case 6:
		g.value(0x7f, f, 2)
		g.block(0x04, f)
	case 7:
		g.loop(f)
	case 8:
		g.branch(f)
	case 9:
		g.bulk(f)
	case 10:
		g.value(t, f, 3)
		g.op(0x1a)
	case 11:
		x := byte(g.IntN(2))
		g.value(0x7f-x, f, 3)
		g.op(0x24, x)
	}
}

func (g *generator) store(t byte, f int) {
	g.address(f)
	g.value(t, f, 4)
	g.op(map[byte]byte{0x7f: 0x36, 0x7e: 0x37, 0x7d: 0x38, 0x7c: 0x39}[t], 0, byte(g.IntN(64)))
}

// address leaves one within the memory's first page.
func (g *generator) address(f int) {
	g.value(0x7f, f, 2)
	g.code = append(append(g.code, i32c(0x3fff)...), 0x71)
}

func (g *generator) block(op byte, f int) {
	if len(g.labels) > genDepth {
		g.drop(op)
		return
	}
	g.op(op, 0x40)
	g.labels = append(g.labels, 0x40)
	for range 1 + g.IntN(4) {
		g.statement(f)
	}
	if op == 0x04 && g.IntN(2) == 0 {
		g.op(0x05)
		g.statement(f)
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.op(0x0b)
}

// drop removes the condition of an if that is not made.
func (g *generator) drop(op byte) {
	if op == 0x04 {
		g.op(0x1a)
	}
}

// loop appends one that ends after a few rounds.
func (g *generator) loop(f int) {
	if len(g.labels) > genDepth {
		return
	}
	counter := genCounters + byte(len(g.labels))
	g.op(0x41, 0, 0x21, counter, 0x03, 0x40)
	g.labels = append(g.labels, 0)
	for range 1 + g.IntN(3) {
		g.statement(f)
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.op(0x20, counter, 0x41, 1, 0x6a, 0x22, counter, 0x41, byte(1+g.IntN(5)), 0x49, 0x0d, 0, 0x0b)
}

// branch leaves some open block, or not.
func (g *generator) branch(f int) {
	n := g.IntN(len(g.labels))
	if g.labels[len(g.labels)-1-n] != 0x40 {
		return
	}
	switch g.IntN(3) {
	case 0:
		g.value(0x7f, f, 2)
		g.op(0x0d, byte(n))
	case 1:
		g.op(0x0c, byte(n))
	case 2:
		g.value(0x7f, f, 2)
		g.op(0x0e, 1, byte(n), byte(n))
	}
}

func (g *generator) bulk(f int) {
	switch g.IntN(3) {
	case 0:
		g.op(0x41, 1, 0x40, 0, 0x1a)
	case 1:
		g.address(f)
		g.value(0x7f, f, 1)
		g.code = append(append(g.code, i32c(int64(g.IntN(300)))...), 0xfc, 0x0b, 0)
	case 2:
		g.address(f)
		g.address(f)
		g.code = append(append(g.code, i32c(int64(g.IntN(300)))...), 0xfc, 0x0a, 0, 0)
	}
}

// value appends what leaves a value of that type.
func (g *generator) value(t byte, f, depth int) {
	if depth == 0 || g.IntN(4) == 0 {
		g.leaf(t)
		return
	}
	switch g.IntN(8) {
	case 0:
		g.address(f)
		g.op(map[byte]byte{0x7f: 0x28, 0x7e: 0x29, 0x7d: 0x2a, 0x7c: 0x2b}[t], 0, 0)
	case 1:
		g.value(t, f, depth-1)
		g.op(0x22, g.local(t))
	case 2:
		g.value(t, f, depth-1)
		g.value(t, f, depth-1)
		g.value(0x7f, f, depth-1)
		g.op(0x1b)
	case 3:
		g.convert(t, f, depth)
	case 4:
		if t == 0x7f && f > 0 {
			g.call(f, depth)
			return
		}
		fallthrough
	default:
		g.value(t, f, depth-1)
		g.value(t, f, depth-1)
		g.op(map[byte][]byte{0x7f: {0x6a, 0x6b, 0x6c, 0x71, 0x72, 0x73, 0x74, 0x76, 0x77}, 0x7e: {0x7c, 0x7d, 0x7e, 0x83, 0x84, 0x85, 0x86, 0x88, 0x89},
			0x7d: {0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x92, 0x93}, 0x7c: {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa0, 0xa2}}[t][g.IntN(9)])
	}
}

// call calls an earlier function, so that calls end.
func (g *generator) call(f, depth int) {
	callee := byte(g.IntN(f))
	g.value(0x7f, f, depth-1)
	if g.IntN(2) == 0 {
		g.op(0x10, callee)
	} else {
		g.op(0x41, callee, 0x11, 1, 0)
	}
}

func (g *generator) leaf(t byte) {
	if g.IntN(2) == 0 {
		g.op(0x20, g.local(t))
		return
	}
	switch t {
	case 0x7f:
		g.code = append(g.code, i32c(int64(int32(g.Uint32())>>g.IntN(32)))...)
	case 0x7e:
		g.code = append(g.code, i64c(int64(g.Uint64())>>g.IntN(64))...)
	case 0x7d:
		g.op([][]byte{[]byte(inf32), []byte(odd32), []byte("\x43\x00\x00\x80\x3f"), []byte("\x43\x00\x00\x00\x80")}[g.IntN(4)]...)
	case 0x7c:
		g.op([][]byte{[]byte(inf64), []byte(odd64), []byte("\x44\x00\x00\x00\x00\x00\x00\xf0\x3f"), cat("\x44", make([]byte, 8))}[g.IntN(4)]...)
	}
}

func (g *generator) convert(t byte, f, depth int) {
	from := g.typ()
	ops := map[[2]byte]byte{{0x7f, 0x7e}: 0xa7, {0x7e, 0x7f}: 0xac, {0x7d, 0x7f}: 0xb2, {0x7d, 0x7e}: 0xb4, {0x7c, 0x7f}: 0xb7, {0x7c, 0x7e}: 0xb9,
		{0x7d, 0x7c}: 0xb6, {0x7c, 0x7d}: 0xbb, {0x7f, 0x7d}: 0xbc, {0x7e, 0x7c}: 0xbd,
		{0x7f, 0x7f}: 0x67, {0x7e, 0x7e}: 0x7b, {0x7d, 0x7d}: 0x91, {0x7c, 0x7c}: 0x9f}
	op, ok := ops[[2]byte{t, from}]
	if !ok {
		g.leaf(t)
		return
	}
	g.value(from, f, depth-1)
	g.op(op)
}

// checkGenerated makes a module from a seed. Without floats the rewritten module does
// what the module did. With them it does the same on compiler and interpreter, fuel
// included, which the module as it was need not.
func checkGenerated(t *testing.T, compiler, interpreter *bench, seed uint64) {
	g := generator{Rand: rand.New(rand.NewPCG(seed, 1)), floats: seed%2 == 0}
	wasm := g.module()
	out, _, err := Rewrite(wasm, Rules{})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	a, b := compiler.run(t, out), interpreter.run(t, out)
	if a.memory != b.memory || firstOf(a.err) != firstOf(b.err) || a.fuel != b.fuel {
		t.Errorf("seed %d: compiled %+v\ninterpreted %+v", seed, a, b)
	}
	if g.floats {
		return
	}
	if was := compiler.run(t, wasm); was.memory != a.memory || firstOf(was.err) != firstOf(a.err) {
		t.Errorf("seed %d: rewritten %+v\nit was %+v", seed, a, was)
	}
}

func TestGenerated(t *testing.T) {
	compiler, interpreter := newBench(t, false), newBench(t, true)
	compiler.slice, interpreter.slice = 50, 50_000
	seeds := uint64(10)
	if long() {
		seeds = 300
	}
	for seed := range seeds {
		checkGenerated(t, compiler, interpreter, seed)
	}
}

func FuzzGenerated(f *testing.F) {
	compiler, interpreter := newBench(f, false), newBench(f, true)
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkGenerated(t, compiler, interpreter, seed) })
}
