package sandbox

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"idlemesh/gpu/kernel"
)

var update = flag.Bool("update", false, "write docs/abi.md from the code")

// TestABISays holds that each row can be read by people and by the guest packages'
// generator: the call with a name for each parameter, and a text.
func TestABISays(t *testing.T) {
	for _, f := range ABI {
		call, text, _ := strings.Cut(f.Doc, ": ")
		names, returns, returning := strings.Cut(strings.TrimPrefix(call, f.Name+"("), ")")
		if n := len(strings.Split(names, ", ")); n != len(f.Params) || returning && (returns != "") != (len(f.Results) > 0) {
			t.Errorf("%s.%s has %d parameters and %d results, its Doc begins with %q", f.Module, f.Name, len(f.Params), len(f.Results), call)
		}
		if text == "" || !strings.HasSuffix(text, ".") || f.Since < 1 {
			t.Errorf("%s.%s: since %d, %q", f.Module, f.Name, f.Since, text)
		}
	}
}

const abiFile = "../docs/abi.md"

// TestABIDocument holds docs/abi.md equal to the code it describes.
func TestABIDocument(t *testing.T) {
	want := abiDocument(t)
	if *update {
		if err := os.WriteFile(abiFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(abiFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the code says: run go test ./sandbox -run TestABIDocument -update", abiFile)
	}
}

const abiIntro = `# What a module may call

This file is written by a test from the code: ` + "`go test ./sandbox -run TestABIDocument -update`" + `.
The same test fails when file and code differ.

A module is a WebAssembly binary, version 2.0 with SIMD, without threads, tail calls
and exceptions. It imports functions only from the modules named here: other names and
other signatures are refused before anything is compiled. It exports a function
` + "`_start`" + ` that takes and returns nothing. Exports and modules whose names begin with
` + "`idlemesh_`" + ` are reserved.

Pointers and lengths are i32, in bytes of the module's own memory; sizes and offsets of
device memory are i64, in bytes. A call whose pointer leaves the memory is refused, or does
nothing where it returns nothing. Text is UTF-8, without a zero at its end; what is not
UTF-8 becomes question marks.

A call costs the fuel that stands beside it, on top of its instruction's; what it reads, writes,
makes or zeroes costs a unit for each 16 bytes, and each command of a list 100. What a module's
own code costs is in [fuel.md](fuel.md).

No call traps. One of the device that is refused returns 0 for a handle or 1 for a status,
and ` + "`last_error`" + ` says why; the module may go on. A run that has been stopped, by its tenant or a
limit, ends inside its next call, or where it is looked at its fuel.

The column since counts the revisions of an interface, which only gains functions. A number,
once given to a kernel, keeps its meaning for ever; what changes its meaning gets a new one.
`

const wasiIntro = `
## wasi_snapshot_preview1

All functions of WASI preview 1 may be imported, since revision 1. They return an errno of
preview 1, 0 for success. The one folder that is open at the start is / with in, out and tmp.

- Links: path_link and path_symlink answer ENOTSUP, path_readlink EINVAL: nothing is a link.
- Sockets: sock_accept, sock_recv, sock_send and sock_shutdown answer EBADF, as there are none.
- Signals and rights: proc_raise and fd_fdstat_set_rights answer ENOSYS.
- poll_oneoff takes at most 4096 subscriptions; above it is EINVAL.
- A call costs %d fuel, a unit for each %d bytes that it reads, writes or makes, and %d for each
  subscription, and part of a read or write. A read or write has at most 1024 parts; above it
  is EINVAL.
- clock_time_get knows realtime and monotonic time, in nanoseconds, which go by fuel, one for
  a unit, and by sleeps. CPU time clocks answer EINVAL.
- Names longer than 255 bytes, or not UTF-8, are refused. So is all that leaves /.

`

func abiDocument(t *testing.T) []byte {
	var b bytes.Buffer
	b.WriteString(abiIntro)
	for i, f := range ABI {
		if i == 0 || ABI[i-1].Module != f.Module {
			fmt.Fprintf(&b, "\n## %s\n\n| import | type | since | fuel | what it does |\n|---|---|---|---|---|\n", f.Module)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %d | %d | %s |\n", f.Name, signature(f), f.Since, f.Fuel, cell(f.Doc))
	}
	fmt.Fprintf(&b, wasiIntro, WASIFuel, BytesPerFuel, EachFuel)
	for _, name := range slices.Sorted(maps.Keys(wasi)) {
		p, r, _ := strings.Cut(wasi[name], ">")
		fmt.Fprintf(&b, "- `%s%s`\n", name, signature(HostFunc{Params: []byte(p), Results: []byte(r)}))
	}
	commandDocument(&b)
	fmt.Fprintf(&b, "\n## Arithmetic\n\n%s\n## Kernels\n", tableComment(t))
	for _, k := range kernel.Table {
		kind := "exact on every backend"
		if !k.Exact {
			kind = "exact among processors; within a tolerance elsewhere"
		}
		fmt.Fprintf(&b, "\n### %d %s\n\nSince table version %s; %s.\n\n```text\n%s\n```\n", k.Op, k.Name, k.Since, kind, k.Doc)
	}
	return b.Bytes()
}

func signature(f HostFunc) string {
	names := map[byte]string{I32: "i32", I64: "i64", F64: "f64"}
	list := func(types []byte) string {
		var out []string
		for _, x := range types {
			out = append(out, names[x])
		}
		return strings.Join(out, ", ")
	}
	if len(f.Results) == 0 {
		return "(" + list(f.Params) + ")"
	}
	return "(" + list(f.Params) + ") -> " + list(f.Results)
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// commandDocument says where each field of a command lies.
func commandDocument(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## The command\n\nA kernel call is a command of %d bytes, little endian. A list has at most %d of them and\nmay cost at most %d FLOP and %d bytes moved. What a kernel does not use is zero, padding too.\n\n",
		kernel.Size, kernel.MaxCommands, uint64(kernel.MaxFLOP), uint64(kernel.MaxBytes))
	b.WriteString("| byte | size | field | |\n|---|---|---|---|\n")
	fields(b, "", 0, reflect.TypeFor[kernel.Command]())
	b.WriteString("\nAn operand's type is one of")
	for i, d := range []kernel.DType{kernel.F32, kernel.BF16, kernel.I8, kernel.Q8, kernel.Q4, kernel.I32} {
		fmt.Fprintf(b, "%s %d %s", map[bool]string{true: ":", false: ","}[i == 0], d, [...]string{"f32", "bf16", "i8", "q8", "q4", "i32"}[i])
	}
	b.WriteString(". 32 elements of q8 lie in\n36 bytes: a binary32 scale, then 32 of i8; each is scale·i. 32 of q4 lie in 20 bytes: a\nbinary32 scale, then 16 bytes; element e below 16 is scale·(low half of byte e - 8), element\ne+16 the same of the high half.\n\n| flag | bits | of |\n|---|---|---|\n")
	for _, f := range []struct {
		name string
		bits int
		of   string
	}{
		{"TransA", kernel.TransA, "gemm"}, {"TransB", kernel.TransB, "gemm"}, {"ReLU", kernel.ReLU, "gemm, gemm_q8, gemm_q4, conv2d"}, {"GELU", kernel.GELU, "gemm, gemm_q8, gemm_q4, conv2d"},
		{"SiLU", kernel.SiLU, "gemm, gemm_q8, gemm_q4, conv2d"}, {"ByRow", kernel.ByRow, "add, mul"}, {"Halves", kernel.Halves, "rope"}, {"Back", kernel.Back, "rope"}, {"Causal", kernel.Causal, "attention, attention_back"},
	} {
		fmt.Fprintf(b, "| %s | %#x | %s |\n", f.name, f.bits, f.of)
	}
}

func fields(b *bytes.Buffer, prefix string, base uintptr, t reflect.Type) {
	notes := map[string]string{"Op": "the kernel's number", "Stream": "0", "Buffer": "handle of alloc; 0 is none",
		"Offset": "bytes, a multiple of the element's size", "Params": "integers, or binary32 by its bits"}
	for f := range t.Fields() {
		name := prefix + f.Name
		switch {
		case f.Type.Kind() == reflect.Struct:
			fields(b, name+".", base+f.Offset, f.Type)
			continue
		case f.Name == "_":
			name, notes["_"] = prefix+"padding", "zero"
		}
		fmt.Fprintf(b, "| %d | %d | %s | %s |\n", base+f.Offset, f.Type.Size(), name, notes[f.Name])
	}
}

// tableComment is what stands above kernel.Table.
func tableComment(t *testing.T) string {
	f, err := parser.ParseFile(token.NewFileSet(), "../gpu/kernel/table.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if ok && g.Tok == token.VAR && g.Specs[0].(*ast.ValueSpec).Names[0].Name == "Table" {
			_, text, _ := strings.Cut(g.Doc.Text(), "\n\n")
			return text
		}
	}
	t.Fatal("no comment above kernel.Table")
	return ""
}
