package wasmbin

import (
	"bytes"
	"slices"
)

// Builders of binaries. They write what they are told to, sound or not.

func leb(v uint64) []byte {
	var o []byte
	for ; v >= 0x80; v >>= 7 {
		o = append(o, byte(v)|0x80)
	}
	return append(o, byte(v))
}

func cat(parts ...any) []byte {
	var o []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			o = append(o, p...)
		case []byte:
			o = append(o, p...)
		case int:
			o = append(o, leb(uint64(p))...)
		}
	}
	return o
}

func times(n int, parts ...any) []byte { return bytes.Repeat(cat(parts...), n) }

// each joins what f makes of 0 to n-1.
func each(n int, f func(i int) []byte) []byte {
	var o []byte
	for i := range n {
		o = append(o, f(i)...)
	}
	return o
}

func sec(id byte, parts ...any) []byte {
	b := cat(parts...)
	return slices.Concat([]byte{id}, leb(uint64(len(b))), b)
}

func name(s string) []byte { return cat(len(s), s) }

func file(sections ...[]byte) []byte {
	return append([]byte(header), slices.Concat(sections...)...)
}

// code is a module of functions () → () with these bodies and a memory.
func code(bodies ...[]byte) []byte { return codeWith(nil, bodies...) }

// codeWith puts sections between the functions' and the memory's.
func codeWith(tables []byte, bodies ...[]byte) []byte {
	n := len(bodies)
	all := cat(n)
	for _, b := range bodies {
		all = append(append(all, leb(uint64(len(b)))...), b...)
	}
	return file(sec(1, 1, "\x60\x00\x00"), sec(3, n, times(n, "\x00")), tables, sec(5, "\x01\x00\x01"), sec(10, all))
}

// i64s is a body's declaration of n locals.
func i64s(n int) []byte { return cat("\x01", n, "\x7e") }
