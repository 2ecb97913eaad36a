//go:build !wasip1

package guest_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"idlemesh/sandbox"
	"idlemesh/sandbox/worker"
)

// A compiler builds the example correlate in one language, from the root of the repository.
type compiler struct {
	tools []string // that must be there
	build func(t *testing.T, out string) [][]string
}

const example = "wasm-examples/correlate/"

var compilers = map[string]compiler{
	"c": {[]string{"clang-14", "wasm-ld-14"}, func(_ *testing.T, out string) [][]string {
		return [][]string{{"clang-14", "--target=wasm32-wasi", "-O2", "-Wall", "-Wextra", "-Werror", "-Isandbox/guest/c", "-o", out, example + "c/main.c", "-lm"}}
	}},
	"rust": {[]string{"/usr/bin/rustc", "/usr/lib/rustlib/wasm32-wasi"}, func(t *testing.T, out string) [][]string {
		lib := filepath.Join(t.TempDir(), "libidlemesh.rlib")
		rustc := []string{"/usr/bin/rustc", "--edition", "2021", "--target", "wasm32-wasi", "-O", "-D", "warnings"}
		return [][]string{
			append(rustc[:len(rustc):len(rustc)], "--crate-name", "idlemesh", "--crate-type", "rlib", "-o", lib, "sandbox/guest/rust/src/lib.rs"),
			append(rustc[:len(rustc):len(rustc)], "-C", "strip=symbols", "--extern", "idlemesh="+lib, "-o", out, example+"rust/main.rs"),
		}
	}},
	"assemblyscript": {[]string{"asc"}, func(_ *testing.T, out string) [][]string {
		return [][]string{{"asc", example + "assemblyscript/main.ts", "-O", "--exportStart", "_start", "--use", "abort=sandbox/guest/assemblyscript/wasi/aborted", "-o", out}}
	}},
}

func (c compiler) compile(t *testing.T) []byte {
	t.Helper()
	for _, tool := range c.tools {
		if _, err := os.Stat(tool); strings.HasPrefix(tool, "/") && err == nil {
			continue
		}
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: docs/module-author.md says how to get it", tool)
		}
	}
	out := filepath.Join(t.TempDir(), "m.wasm")
	for _, args := range c.build(t, out) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = "../.."
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, said)
		}
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

const table = "height,weight,noise,same\n1.5,50,3,1\n1.6,60,-2,1\n1.7,72,8,1\n1.8,79,0.5,1\n1.9,91,1e0,1\n\n"

// correlation is what the example computes, in binary64 and in no language of its own.
func correlation(t *testing.T) (want [][]float64) {
	records, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	n := len(records[0])
	columns := make([][]float64, n)
	for _, r := range records[1:] {
		for i, c := range r {
			v, err := strconv.ParseFloat(c, 64)
			if err != nil {
				t.Fatal(err)
			}
			columns[i] = append(columns[i], v)
		}
	}
	for i := range columns {
		want = append(want, make([]float64, n))
		for j := range columns {
			want[i][j] = pearson(columns[i], columns[j])
		}
	}
	return want
}

func pearson(x, y []float64) float64 {
	var mx, my, xy, xx, yy float64
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(y))
	}
	for i := range x {
		xy, xx, yy = xy+(x[i]-mx)*(y[i]-my), xx+(x[i]-mx)*(x[i]-mx), yy+(y[i]-my)*(y[i]-my)
	}
	if xx*yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// TestLanguages builds the same example in each language and runs it as a job is run.
func TestLanguages(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	want := correlation(t)
	for name, c := range compilers {
		t.Run(name, func(t *testing.T) {
			wasm := c.compile(t)
			res, h := run(t, wasm, table)
			if res.End != sandbox.Exited || res.Exit != 0 || h.text("stdout") != "5 rows, 4 columns\n" {
				t.Fatalf("%+v, stdout %q, stderr %q", res, h.text("stdout"), h.text("stderr"))
			}
			if len(res.Metrics) != 1 || res.Metrics[0] != (sandbox.Metric{Name: "rows", Value: 5}) || res.Usage.FLOP == 0 {
				t.Errorf("metrics %v, %d FLOP", res.Metrics, res.Usage.FLOP)
			}
			compare(t, h.text("out/correlation.csv"), want)
			if res, h := run(t, wasm, "a,b\n1,2\n3,x\n"); res.Exit != 1 || !strings.Contains(h.text("stderr"), "/in/table:3: ") {
				t.Errorf("a bad table: exit %d, %q", res.Exit, h.text("stderr"))
			}
			if res, h := run(t, wasm, ""); res.Exit != 1 || h.text("stderr") == "" {
				t.Errorf("an empty table: exit %d, %q", res.Exit, h.text("stderr"))
			}
		})
	}
}

func compare(t *testing.T, got string, want [][]float64) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil || len(records) != len(want)+1 || strings.Join(records[0], ",") != ",height,weight,noise,same" {
		t.Fatalf("%v: %q", err, got)
	}
	for i, row := range want {
		for j, w := range row {
			if v, err := strconv.ParseFloat(records[i+1][j+1], 64); err != nil || math.Abs(v-w) > 1e-4 {
				t.Errorf("row %d column %d: %s, want %.4f", i, j, records[i+1][j+1], w)
			}
		}
	}
}

func run(t *testing.T, wasm []byte, table string) (sandbox.Result, *memory) {
	t.Helper()
	p := sandbox.NewPool(sandbox.Config{Start: worker.InProcess})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	h := &memory{in: map[string][]byte{"m": wasm, "t": []byte(table)}, out: map[string]*bytes.Buffer{}}
	res, err := p.Execute(ctx, "tenant", sandbox.Spec{Module: sandbox.Input{Blob: "m", Size: int64(len(wasm))}, Seed: make([]byte, 32), FLOPS: 1e12, Bandwidth: 1e11,
		Inputs: map[string]sandbox.Input{"table": {Blob: "t", Size: int64(len(table))}},
		Limits: sandbox.Limits{Memory: 256 << 20, Wall: 60_000, Output: 1 << 20, VRAM: 1 << 20}}, h)
	cancel()
	if e := <-done; err != nil || e != nil {
		t.Fatal(err, e)
	}
	return res, h
}

// A memory is a Host of bytes.
type memory struct {
	in map[string][]byte

	mu  sync.Mutex
	out map[string]*bytes.Buffer
}

func (m *memory) Open(name string) (io.ReaderAt, error) {
	if b, ok := m.in[name]; ok {
		return bytes.NewReader(b), nil
	}
	return nil, fmt.Errorf("no blob %s", name)
}

func (m *memory) Create(name string) (io.WriteCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out[name] = &bytes.Buffer{}
	return closer{m.out[name]}, nil
}

func (*memory) Event(sandbox.Event) {}

func (m *memory) text(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.out[name]; b != nil {
		return b.String()
	}
	return ""
}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }
