package sandbox_test

import "slices"

// A small assembler: modules are bytes put together by hand, so that each test says
// exactly what its guest does.

const (
	vi32, vi64, vf64 = 0x7f, 0x7e, 0x7c
)

func uleb(n uint64) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		if n >>= 7; n == 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func sleb(n int64) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func vec(items ...[]byte) []byte { return append(uleb(uint64(len(items))), slices.Concat(items...)...) }

func text(s string) []byte { return append(uleb(uint64(len(s))), s...) }

func section(id byte, body []byte) []byte {
	return slices.Concat([]byte{id}, uleb(uint64(len(body))), body)
}

// An imp is an imported function.
type imp struct {
	module, name    string
	params, results []byte
}

func wasi(name string, params ...byte) imp {
	return imp{"wasi_snapshot_preview1", name, params, []byte{vi32}}
}

// A guest is a module with one function, _start, and a memory. Imports are
// functions 0, 1, …; _start comes after them.
type guest struct {
	imports []imp
	pages   uint64
	locals  int // of type i64
	data    string
	code    []byte
}

func (g guest) wasm() []byte {
	types := [][]byte{slices.Concat([]byte{0x60}, []byte{0}, []byte{0})}
	var imports [][]byte
	for i, m := range g.imports {
		types = append(types, slices.Concat([]byte{0x60}, text(string(m.params)), text(string(m.results))))
		imports = append(imports, slices.Concat(text(m.module), text(m.name), []byte{0}, uleb(uint64(i+1))))
	}
	locals := vec()
	if g.locals > 0 {
		locals = vec(append(uleb(uint64(g.locals)), vi64))
	}
	body := slices.Concat(locals, g.code, []byte{0x0b})
	start := uleb(uint64(len(g.imports)))
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, vec(types...)), section(2, vec(imports...)), section(3, vec([]byte{0})),
		section(5, vec(append([]byte{0}, uleb(max(g.pages, 1))...))),
		section(7, vec(slices.Concat(text("_start"), []byte{0}, start), slices.Concat(text("memory"), []byte{2, 0}))),
		section(10, vec(append(uleb(uint64(len(body))), body...))),
		section(11, vec(slices.Concat([]byte{0, 0x41, 0, 0x0b}, text(g.data)))))
}

func i32(n int64) []byte { return append([]byte{0x41}, sleb(n)...) }
func i64(n int64) []byte { return append([]byte{0x42}, sleb(n)...) }

func call(f int) []byte { return append([]byte{0x10}, uleb(uint64(f))...) }

var (
	drop        = []byte{0x1a}
	unreachable = []byte{0x00}
)

// forever repeats code, which leaves nothing on the stack.
func forever(code ...[]byte) []byte {
	return slices.Concat([]byte{0x03, 0x40}, slices.Concat(code...), []byte{0x0c, 0, 0x0b})
}

func do(parts ...[]byte) []byte { return slices.Concat(parts...) }

// printing is a guest that writes its data to fd once.
func printing(fd int64, s string) guest {
	return guest{imports: []imp{wasi("fd_write", vi32, vi32, vi32, vi32)}, data: iovec(s),
		code: do(i32(fd), i32(0), i32(1), i32(8), call(0), drop)}
}

// iovec lies at 0, its text at 16.
func iovec(s string) string {
	n := len(s)
	return string([]byte{16, 0, 0, 0, byte(n), byte(n >> 8), byte(n >> 16), 0, 0, 0, 0, 0, 0, 0, 0, 0}) + s
}

var exitWith = imp{"wasi_snapshot_preview1", "proc_exit", []byte{vi32}, nil}
