package wasmbin

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// small is a module that has one of everything.
func small() []byte {
	return file(
		sec(1, 3, "\x60\x00\x00", "\x60\x01\x7f\x01\x7e", "\x60\x00\x01\x7f"),
		sec(2, 1, name("host"), name("call"), "\x00\x01"),
		sec(3, 2, "\x00\x02"),
		sec(4, 1, "\x70\x01\x01\x08"),
		sec(5, 1, "\x01\x02\x10"),
		sec(6, 2, "\x7f\x01\x41\x2a\x0b", "\x70\x00\xd2\x01\x0b"),
		sec(7, 4, name("_start"), "\x00\x01", name("step"), "\x00\x02", name("memory"), "\x02\x00", name("_initialize"), "\x03\x00"),
		sec(9, 2, "\x00\x41\x00\x0b\x01\x01", "\x05\x70\x01\xd2\x01\x0b"),
		sec(12, 1),
		sec(10, 2, "\x02\x00\x0b", "\x04\x00\x41\x01\x0b"),
		sec(11, 1, "\x00\x41\x00\x0b", name("data")),
		sec(0, name("name"), "\x01\x05\x01\x01", name("fn")),
	)
}

func anything(string, string, []byte, []byte) bool { return true }

func TestScanDescribes(t *testing.T) {
	m, err := Scan(small(), Rules{MayImport: anything})
	if err != nil {
		t.Fatal(err)
	}
	if m.Memory != 2 || m.MaxMemory != 16 || m.Functions != 2 || m.Data != 4 || m.Size != len(small()) {
		t.Errorf("sizes are %+v", m)
	}
	if !m.Command || !m.Reactor || m.Initialize || !m.Names {
		t.Errorf("_start %v, step %v, _initialize %v, names %v; _initialize is a global", m.Command, m.Reactor, m.Initialize, m.Names)
	}
	if !slices.Equal(m.Imports, []Import{{"host", "call"}}) {
		t.Errorf("imports %v", m.Imports)
	}
	want := []Export{{"_start", Function}, {"step", Function}, {"memory", Memory}, {"_initialize", Global}}
	if !slices.Equal(m.Exports, want) {
		t.Errorf("exports %v, want %v", m.Exports, want)
	}
}

func TestMayImportSeesTheSignature(t *testing.T) {
	_, err := Scan(small(), Rules{MayImport: func(module, name string, params, results []byte) bool {
		return module == "host" && name == "call" && string(params) == "\x7f" && string(results) == "\x7e"
	}})
	if err != nil {
		t.Error(err)
	}
	_, err = Scan(small(), Rules{})
	if err == nil || !strings.Contains(err.Error(), "host.call (i32) → (i64)") {
		t.Errorf("with no rule: %v", err)
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	b := small()
	// Cut before functions are declared, or before the names, it is a module still.
	sound := []int{8, 23, 38, 152}
	for n := range b {
		if slices.Contains(sound, n) {
			continue
		}
		if _, err := Scan(b[:n], Rules{MayImport: anything}); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, len(b))
		}
	}
}

func TestNotWasm(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"empty":          {"", "empty"},
		"ELF":            {"\x7fELF\x02\x01", "Linux program"},
		"Windows":        {"MZ\x90\x00", "Windows program"},
		"macOS":          {"\xcf\xfa\xed\xfe\x07", "macOS program"},
		"gzip":           {"\x1f\x8b\x08\x00", "gzip"},
		"zip":            {"PK\x03\x04", "zip"},
		"archive":        {"!<arch>\n", "library"},
		"bitcode":        {"BC\xc0\xde", "bitcode"},
		"text":           {"\n (module (func))", "wat2wasm"},
		"text, comment":  {";; hello\n(module)", "wat2wasm"},
		"script":         {"#!/bin/sh\n", "script"},
		"something":      {"hello", "starts with 68 65 6c 6c"},
		"one byte":       {"\x00", "starts with 00"},
		"magic alone":    {"\x00asm\x01", "truncated"},
		"newer version":  {"\x00asm\x02\x00\x00\x00", "version"},
		"no section 200": {header + "\xc8\x00", "section number 200"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Scan([]byte(tc.file), Rules{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Scan = %v; want an error with %q", err, tc.want)
			}
		})
	}
}

func TestComponent(t *testing.T) {
	_, err := Scan([]byte(component+"\x00"), Rules{})
	if !errors.Is(err, ErrComponent) || !strings.Contains(err.Error(), "wasm32-wasip1") || !strings.Contains(err.Error(), "GOOS=wasip1") {
		t.Errorf("Scan = %v", err)
	}
}

func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		rules Rules
		want  string
	}{
		"size":    {Rules{Size: 100}, "at most 100 are accepted"},
		"memory":  {Rules{MemoryPages: 1}, "2 pages"},
		"imports": {Rules{MayImport: func(module, _ string, _, _ []byte) bool { return module == "wasi" }}, "no node offers"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.rules.MayImport == nil {
				tc.rules.MayImport = anything
			}
			_, err := Scan(small(), tc.rules)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Scan = %v; want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := Scan(file(sec(4, "\x01\x70\x00\x09")), Rules{TableEntries: 8}); err == nil {
		t.Error("a table of 9 entries is accepted; the rules say 8")
	}
}

func TestErrorsNameSectionAndOffset(t *testing.T) {
	b := code([]byte("\x00\xff\x0b"))
	_, err := Scan(b, Rules{})
	var bad *FormatError
	if !errors.As(err, &bad) || bad.Section != "code" || b[bad.Offset] != 0xff {
		t.Errorf("Scan = %#v; want the offset of the bad opcode", err)
	}
}
