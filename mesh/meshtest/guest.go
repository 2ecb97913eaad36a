package meshtest

import (
	"encoding/binary"
	"slices"
	"time"
)

// A Guest is a module put together by hand, which compiles at once: it works and
// sleeps in steps, says after each how far it is, and prints at the end.
type Guest struct {
	Steps int
	Pause time.Duration // each step's
	Spin  int           // loops of work in each step
	Says  string        // on stdout, at most 60,000 bytes
}

// Where the guest's memory has what it hands to its host.
const (
	alarm  = 0   // what poll_oneoff waits for
	rang   = 64  // what it answers
	vector = 112 // what fd_write writes
	result = 120
	words  = 128
)

// Wasm returns the module.
func (g Guest) Wasm() []byte {
	memory := make([]byte, words, words+len(g.Says))
	memory[alarm+16] = 1 // the monotonic clock
	binary.LittleEndian.PutUint64(memory[alarm+24:], uint64(g.Pause))
	binary.LittleEndian.PutUint32(memory[vector:], words)
	binary.LittleEndian.PutUint32(memory[vector+4:], uint32(len(g.Says)))
	memory = append(memory, g.Says...)
	const i32, i64 = 0x7f, 0x7e
	function := func(params ...byte) func(results ...byte) []byte {
		return func(results ...byte) []byte { return slices.Concat([]byte{0x60}, sized(params), sized(results)) }
	}
	imported := func(module, name string, t byte) []byte {
		return slices.Concat(sized([]byte(module)), sized([]byte(name)), []byte{0, t})
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, function()(), function(i32, i32, i32, i32)(i32), function(i64, i64, i32, i32)()),
		section(2, imported("wasi_snapshot_preview1", "poll_oneoff", 1), imported("mesh_job_v1", "progress", 2),
			imported("wasi_snapshot_preview1", "fd_write", 1)),
		section(3, []byte{0}),
		section(5, []byte{0, 1}),
		section(7, append(sized([]byte("_start")), 0, 3), append(sized([]byte("memory")), 2, 0)),
		section(10, sized(slices.Concat([]byte{1, 2, i64}, g.code()))),
		section(11, slices.Concat([]byte{0, 0x41, 0, 0x0b}, sized(memory))))
}

// code works with two locals: the steps done, and the loops left in one.
func (g Guest) code() []byte {
	const (
		loop, end, again, call, drop = 0x03, 0x0b, 0x0d, 0x10, 0x1a
		get, set, tee, i32, i64      = 0x20, 0x21, 0x22, 0x41, 0x42
		differs, plus, less          = 0x52, 0x7c, 0x7d
		none                         = 0x40
	)
	spin, steps := signed(int64(max(g.Spin, 1))), signed(int64(max(g.Steps, 1)))
	return slices.Concat(
		[]byte{loop, none},
		[]byte{i64}, spin, []byte{set, 1},
		[]byte{loop, none, get, 1, i64, 1, less, tee, 1, i64, 0, differs, again, 0, end},
		[]byte{i32, alarm, i32}, signed(rang), []byte{i32, 1, i32}, signed(result), []byte{call, 0, drop},
		[]byte{get, 0, i64, 1, plus, set, 0},
		[]byte{get, 0, i64}, steps, []byte{i32, 0, i32, 0, call, 1},
		[]byte{get, 0, i64}, steps, []byte{differs, again, 0, end},
		[]byte{i32, 1, i32}, signed(vector), []byte{i32, 1, i32}, signed(result), []byte{call, 2, drop, end})
}

func section(id byte, items ...[]byte) []byte {
	return append([]byte{id}, sized(append([]byte{byte(len(items))}, slices.Concat(items...)...))...)
}

// sized returns b behind its length.
func sized(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

// signed returns n as Wasm writes it.
func signed(n int64) (b []byte) {
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
