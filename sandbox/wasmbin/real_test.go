package wasmbin

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
)

// hello is the plainest of our examples, built once.
func hello(t *testing.T) []byte {
	t.Helper()
	b, err := builtHello()
	if err != nil {
		t.Skipf("cannot build wasm-examples/hello: %v", err)
	}
	return b
}

var builtHello = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "hello")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "hello.wasm")
	cmd := exec.Command("go", "build", "-o", out, "../../wasm-examples/hello")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return os.ReadFile(out)
})

func fromWASI(module, _ string, _, _ []byte) bool { return module == "wasi_snapshot_preview1" }

func TestGoProgram(t *testing.T) {
	b := hello(t)
	m, err := Scan(b, Rules{MayImport: fromWASI})
	if err != nil {
		t.Fatal(err)
	}
	if !m.Command || m.Reactor || !m.Names || m.Functions < 1000 || m.Memory == 0 || m.MaxMemory != MaxPages {
		t.Errorf("a Go program is %+v", m)
	}
	if !slices.Contains(m.Imports, Import{"wasi_snapshot_preview1", "fd_write"}) {
		t.Errorf("imports %v", m.Imports)
	}
}

// TestBigPrograms scans what the folder in IDLEMESH_BIGWASM holds: programs as
// large as cmd/compile.
func TestBigPrograms(t *testing.T) {
	dir := os.Getenv("IDLEMESH_BIGWASM")
	if dir == "" {
		t.Skip("IDLEMESH_BIGWASM names no folder of modules")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no modules in %s: %v", dir, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Scan(b, Rules{MayImport: anything})
		m.Imports, m.Exports = nil, nil
		t.Logf("%s: %+v", filepath.Base(f), m)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
		}
	}
}

// TestAcceptedCompiles changes bytes of sound modules: what Scan lets through a
// compiler may refuse, for its types, but must survive.
func TestAcceptedCompiles(t *testing.T) {
	rt := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfig().WithDebugInfoEnabled(false))
	defer rt.Close(t.Context())
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, tc := range map[string]struct {
		wasm  []byte
		tries int
	}{
		"one of everything": {small(), 5000},
		"instructions":      {fn("\x41\x00\x04\x7f\x41\x00\x05\x41\x01\x0b\x1a\x03\x40\x41\x00\x0d\x00\x0b\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00"), 5000},
	} {
		t.Run(name, func(t *testing.T) {
			compile(t, rt, tc.wasm)
			passed := 0
			for range tc.tries {
				b := mutate(rnd, tc.wasm)
				if _, err := Scan(b, Rules{MayImport: anything}); err == nil {
					compile(t, rt, b)
					passed++
				}
			}
			t.Logf("%d of %d changed modules pass the scan", passed, tc.tries)
		})
	}
}

// mutate changes one to three bytes of a copy of b.
func mutate(rnd *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + rnd.IntN(3) {
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
	}
	return b
}

func compile(t *testing.T, rt wazero.Runtime, b []byte) {
	t.Helper()
	n := allocated(func() {
		if m, err := rt.CompileModule(t.Context(), b); err == nil {
			m.Close(t.Context())
		}
	})
	if n > 16<<20 {
		t.Errorf("compiling %d bytes allocated %d: % x", len(b), n, b)
	}
}

func TestSoundModulesCompile(t *testing.T) {
	rt := wazero.NewRuntime(t.Context())
	defer rt.Close(t.Context())
	sound := map[string][]byte{"one of everything": small()}
	if long() { // TestRewrittenGoProgram compiles it too, rewritten
		sound["Go"] = hello(t)
	}
	for name, b := range sound {
		m, err := rt.CompileModule(t.Context(), b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m.Close(t.Context())
	}
}
