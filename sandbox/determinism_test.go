package sandbox_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/kernel"
	"idlemesh/sandbox"
	"idlemesh/sandbox/engine"
)

// A sample is a program that must do the same wherever and however often it runs.
type sample struct {
	build  func(t *testing.T) []byte
	args   []string
	env    map[string]string
	inputs map[string]string
	tree   string // a folder on this machine, whose files are inputs
}

const columns = "height,weight,same\n1.5,50,1\n1.6,60,1\n1.7,72,1\n1.9,91,1\n"

// samples are the modules of wasm-examples that are done within seconds.
func samples() map[string]sample {
	table := map[string]string{"table": columns}
	return map[string]sample{
		"hello":        {build: buildsGo("../wasm-examples/hello")},
		"correlate, C": {build: builds("clang-14 --target=wasm32-wasi -O2 -Isandbox/guest/c -o OUT/m.wasm wasm-examples/correlate/c/main.c -lm"), inputs: table},
		"correlate, AssemblyScript": {build: builds("asc wasm-examples/correlate/assemblyscript/main.ts -O --exportStart _start --use abort=sandbox/guest/assemblyscript/wasi/aborted -o OUT/m.wasm"),
			inputs: table},
		"correlate, Rust": {build: builds("/usr/bin/rustc --edition 2021 --target wasm32-wasi -O --crate-name idlemesh --crate-type rlib -o OUT/libidlemesh.rlib sandbox/guest/rust/src/lib.rs",
			"/usr/bin/rustc --edition 2021 --target wasm32-wasi -O --extern idlemesh=OUT/libidlemesh.rlib -o OUT/m.wasm wasm-examples/correlate/rust/main.rs"), inputs: table},
	}
}

// slowSamples are the others, which an interpreter takes long for.
func slowSamples() map[string]sample {
	model, vocabulary := random15M(2)
	corpus := map[string]string{"corpus/one": "To be, or not to be.\n\nThat is the question.\n", "corpus/two": "All the world is a stage.\n"}
	return map[string]sample{
		"search": {build: buildsGo("../wasm-examples/search"), args: []string{"-k", "2", "what", "is", "the", "question"}, inputs: corpus},
		"sweep":  {build: buildsGo("../wasm-examples/sweep"), env: map[string]string{"MESH_SHARD_INDEX": "1", "MESH_SHARD_COUNT": "3"}},
		"generate": {build: buildsGo("../wasm-examples/generate"), args: []string{"-temperature", "0.5", "-steps", "3"},
			inputs: map[string]string{"model": string(model), "tokenizer": string(vocabulary)}},
	}
}

func buildsGo(pkg string) func(t *testing.T) []byte {
	return func(t *testing.T) []byte {
		t.Helper()
		out := filepath.Join(t.TempDir(), "m.wasm")
		cmd := exec.Command("go", "build", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v: %s", pkg, err, b)
		}
		return bytesOf(t, out)
	}
}

// builds runs commands at the root of the repository that leave OUT/m.wasm.
func builds(commands ...string) func(t *testing.T) []byte {
	return func(t *testing.T) []byte {
		t.Helper()
		dir := t.TempDir()
		for _, c := range commands {
			args := strings.Fields(strings.ReplaceAll(c, "OUT", dir))
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skipf("no %s: docs/module-author.md says how to get it", args[0])
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = ".."
			if b, err := cmd.CombinedOutput(); err != nil {
				if strings.Contains(string(b), "wasm32-wasi") || strings.Contains(string(b), "not found") {
					t.Skipf("%s cannot build for WASI: %s", args[0], b)
				}
				t.Fatalf("%s: %v: %s", c, err, b)
			}
		}
		return bytesOf(t, filepath.Join(dir, "m.wasm"))
	}
}

// realSamples are programs that nobody here wrote; dir is what IDLEMESH_FOREIGN names.
func realSamples(t *testing.T, dir string) map[string]sample {
	all := map[string]sample{
		"gofmt": {build: buildsGo("cmd/gofmt"), args: []string{"-r", "h -> host", "/in/source"}, inputs: map[string]string{"source": string(bytesOf(t, "sandbox_test.go"))}},
		"s2c": {build: buildsGo("github.com/klauspost/compress/s2/cmd/s2c"), args: []string{"-c", "-slower", "-cpu", "1", "/in/source"},
			inputs: map[string]string{"source": string(bytesOf(t, "sandbox_test.go"))}},
	}
	for name, f := range fromNPM {
		all[name] = sample{build: func(t *testing.T) []byte { return bytesOf(t, filepath.Join(dir, name)) },
			args: f.args, env: f.env, tree: filepath.Join(f.layOut(t, dir), "in")}
	}
	return all
}

// TestDeterministic runs each program compiled and interpreted, on one processor and on
// two: outputs, fuel and the transcript, which has all that the program heard, are equal
// to the last byte. IDLEMESH_RUNS brings in the slow programs, and is how often each runs
// in each way; with IDLEMESH_FOREIGN those of others come too.
func TestDeterministic(t *testing.T) {
	if testing.Short() {
		t.Skip("builds modules")
	}
	runs, all := 1, samples()
	if n, err := strconv.Atoi(os.Getenv("IDLEMESH_RUNS")); err == nil && n > 0 {
		runs = n
		maps.Copy(all, slowSamples())
	}
	if dir := os.Getenv("IDLEMESH_FOREIGN"); dir != "" {
		maps.Copy(all, realSamples(t, dir))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { all[name].repeat(t, runs) })
	}
}

func (x sample) repeat(t *testing.T, runs int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	wasm := x.build(t)
	var first did
	for _, way := range []string{"compiled", "interpreted"} {
		e := newEngine(t, way == "interpreted")
		for i := range 2 * runs {
			procs := 1 + i%2
			runtime.GOMAXPROCS(procs)
			got := x.run(t, e, wasm)
			if first.outs == nil {
				first = got
			}
			if d := first.differs(got); d != "" {
				t.Fatalf("%s on %d processors, run %d: %s", way, procs, i, d)
			}
		}
	}
}

func newEngine(t testing.TB, interpreter bool) *engine.Engine {
	t.Helper()
	dev, err := gpu.Open("cpu", 0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(t.Context(), engine.Config{Interpreter: interpreter, Info: dev.Info(), Ran: "test"},
		func(vram uint64, ref kernel.Reference) engine.Accelerator { return dev.Session(vram, ref) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// did is what must not differ between two runs.
type did struct {
	fuel, work uint64
	outs       map[string]string // the transcript is one of them
}

func (x sample) run(t *testing.T, e *engine.Engine, wasm []byte) did {
	t.Helper()
	h, s := newHost(wasm), spec(wasm)
	s.Args, s.Env, s.Record = x.args, x.env, true
	s.Inputs = map[string]sandbox.Input{}
	for path, text := range x.inputs {
		h.blobs[path] = []byte(text)
		s.Inputs[path] = sandbox.Input{Blob: path, Size: int64(len(text))}
	}
	if x.tree != "" {
		s.Inputs = inputsOf(t, h, x.tree)
	}
	s.Limits = sandbox.Limits{Memory: 1 << 30, Wall: 600_000, Output: 256 << 20, VRAM: 256 << 20}
	res := e.Run(t.Context(), s, h, nil)
	if res.End != sandbox.Exited || res.Exit != 0 || res.Usage.Fuel == 0 {
		t.Fatalf("Run = %+v: %s", res, h.out("stderr"))
	}
	d := did{res.Usage.Fuel, res.Usage.Work, map[string]string{}}
	for name := range h.outs {
		d.outs[name] = h.out(name)
	}
	if len(d.outs[sandbox.Transcript]) == 0 {
		t.Fatal("there is no transcript")
	}
	return d
}

// differs says in what other differs; it is empty for equals.
func (d did) differs(other did) string {
	if d.fuel != other.fuel || d.work != other.work {
		return fmt.Sprintf("fuel %d and work %d, first %d and %d", other.fuel, other.work, d.fuel, d.work)
	}
	if !maps.Equal(d.outs, other.outs) {
		for name := range d.outs {
			if d.outs[name] != other.outs[name] {
				return fmt.Sprintf("output %s has other bytes", name)
			}
		}
		return "there are more outputs"
	}
	return ""
}
