package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "idlemesh"

// house is the architecture: storey, package, and what of ours it imports. A change
// here is a commit of its own, with the reason.
const house = `
0 ledger/record     |
0 gpu/kernel        |
0 gpu/nvml          |
0 sandbox/wasmbin   |
0 sandbox/frame     |
0 sandbox/transcript |

1 ledger/account    | ledger/record
1 ledger/tree       | ledger/record
2 ledger/books      | ledger/record ledger/account
1 gpu/cpu           | gpu/kernel
1 gpu/kerneltest    | gpu/kernel
1 sandbox           | sandbox/wasmbin sandbox/frame sandbox/transcript
1 sandbox/guest     | gpu/kernel
1 mesh              | ledger/record
1 mesh/identity     | ledger/record
1 mesh/blob         | ledger/record
1 mesh/market       | ledger/record
1 mesh/plan         | ledger/record
1 mesh/policy       | ledger/record

2 mesh/wire         | ledger/record
2 gpu/simgpu        | gpu/kernel gpu/nvml gpu/cpu
2 gpu/kerneltest/onnx | gpu/kernel gpu/kerneltest
2 sandbox/engine    | gpu/kernel sandbox sandbox/wasmbin sandbox/transcript
2 ledger            | ledger/record ledger/account ledger/tree

3 mesh/provider     | ledger/record ledger/tree gpu/kernel gpu/nvml sandbox sandbox/frame mesh/identity mesh/wire mesh/blob mesh/policy
3 mesh/keeper       | ledger/record ledger/account ledger/tree ledger mesh/wire
3 mesh/author       | ledger/record mesh/wire
3 ledger/quorum     | ledger/record ledger/tree ledger
3 gpu               | gpu/kernel gpu/cpu gpu/simgpu

4 mesh/gateway      | ledger/record ledger/account mesh/identity mesh/wire mesh/author mesh/blob mesh/market mesh/plan
4 mesh/client       | ledger/record ledger/tree mesh mesh/identity mesh/wire mesh/author mesh/blob
4 sandbox/worker    | sandbox sandbox/wasmbin sandbox/frame sandbox/engine gpu gpu/kernel

5 mesh/node         | ledger/record ledger ledger/quorum sandbox mesh mesh/identity mesh/wire mesh/author mesh/blob mesh/policy mesh/gateway mesh/provider mesh/keeper

6 cli               | ledger/record ledger/account ledger/books ledger/tree ledger gpu/nvml gpu/simgpu sandbox sandbox/frame sandbox/transcript sandbox/worker mesh/identity mesh/policy mesh/wire mesh/client mesh/keeper mesh/provider mesh/node
6 mesh/meshtest     | ledger/record ledger sandbox/worker mesh/identity mesh/client mesh/node
6 wasm-examples/generate/llama   | gpu/kernel
6 wasm-examples/search/passage   | gpu/kernel
6 wasm-examples/sweep/classifier | gpu/kernel

7 cli/meshctl       | cli
7 wasm-examples/hello    |
7 wasm-examples/generate | sandbox/guest wasm-examples/generate/llama
7 wasm-examples/search   | sandbox/guest wasm-examples/search/passage
7 wasm-examples/sweep    | sandbox/guest wasm-examples/sweep/classifier
`

// never names what must not be reached, however far down.
var never = map[string][]string{
	"mesh/node":   {"gpu", "sandbox/engine", "sandbox/worker"}, // the agent runs no guest and opens no device
	"mesh/client": {"ledger", "sandbox", "mesh/node"},
	"mesh/market": {"mesh/wire", "mesh", "ledger"},
}

// owners names the packages that alone may import a library directly.
var owners = map[string]string{
	"github.com/tetratelabs/wazero":    "sandbox/engine",
	"github.com/quic-go/quic-go":       "mesh mesh/meshtest",
	"github.com/cockroachdb/pebble/v2": "ledger ledger/quorum mesh/meshtest",
	"github.com/hashicorp/raft":        "ledger/quorum",
	"github.com/NVIDIA/go-nvml":        "gpu/nvml",
	"github.com/urfave/cli/v2":         "cli",
	"github.com/mmcloughlin/avo":       "", // only gpu/cpu/asm, a module of its own, writes kernels with it
	"C":                                "",
	"testing":                          "gpu/kerneltest gpu/kerneltest/onnx mesh/meshtest",
	"os/exec":                          "sandbox cli",
}

type pkg struct {
	storey  int
	may     []string
	imports map[string]string // import path → a file that has it
	comment int
}

func TestHouse(t *testing.T) {
	pkgs := readHouse(t)
	walk(t, pkgs)
	for name, p := range pkgs {
		if p.comment != 1 {
			t.Errorf("%s: %d package comments, want 1", name, p.comment)
		}
		for path, file := range p.imports {
			dep, ours := strings.CutPrefix(path, module+"/")
			switch {
			case ours && !slices.Contains(p.may, dep):
				t.Errorf("%s must not import %s", file, dep)
			case ours && pkgs[dep].storey >= p.storey:
				t.Errorf("%s: %s is not below it", file, dep)
			case !ours:
				checkOwner(t, name, path, file)
			}
		}
		for _, dep := range p.may {
			if _, used := p.imports[module+"/"+dep]; !used {
				t.Errorf("%s no longer imports %s: take the arrow out", name, dep)
			}
		}
		for _, far := range never[name] {
			if via := reach(pkgs, name, far); via != "" {
				t.Errorf("%s reaches %s through %s", name, far, via)
			}
		}
	}
}

func checkOwner(t *testing.T, name, path, file string) {
	for lib, who := range owners {
		if (path == lib || strings.HasPrefix(path, strings.TrimSuffix(lib, "/")+"/")) && !slices.Contains(strings.Fields(who), name) {
			t.Errorf("%s: only %s may import %s", file, who, lib)
		}
	}
}

func reach(pkgs map[string]*pkg, from, to string) string {
	for path := range pkgs[from].imports {
		dep, ours := strings.CutPrefix(path, module+"/")
		if ours && (dep == to || reach(pkgs, dep, to) != "") {
			return dep
		}
	}
	return ""
}

func readHouse(t *testing.T) map[string]*pkg {
	pkgs := map[string]*pkg{}
	for line := range strings.Lines(house) {
		left, right, ok := strings.Cut(line, "|")
		if !ok {
			continue
		}
		f := strings.Fields(left)
		n, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatal(err)
		}
		pkgs[f[1]] = &pkg{storey: n, may: strings.Fields(right), imports: map[string]string{}}
	}
	return pkgs
}

// walk reads every file but tests. It parses them itself: build tags hide nothing,
// and the test cache sees each edit.
func walk(t *testing.T, pkgs map[string]*pkg) {
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && foreign(path) {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir, _ := filepath.Rel(root, filepath.Dir(path))
		p := pkgs[filepath.ToSlash(dir)]
		if p == nil {
			t.Errorf("%s: its package is not in the house", path)
			return nil
		}
		p.add(f, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// foreign says whether a folder is none of the program's, as for the go command: test
// data, or a module of its own.
func foreign(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return filepath.Base(dir) == "testdata" || err == nil
}

func (p *pkg) add(f *ast.File, path string) {
	if f.Doc != nil {
		p.comment++
	}
	for _, s := range f.Imports {
		imp, _ := strconv.Unquote(s.Path.Value)
		p.imports[imp] = path
	}
}
