package wasmbin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// long reports whether tests may take a minute: .ci/run lets them.
func long() bool { return os.Getenv("IDLEMESH_LONG") != "" }

// specTests are the tests of the WebAssembly specification that wazero comes with.
func specTests(t *testing.T) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Skipf("cannot find wazero's sources: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "internal/integration_test/spectest/v2/testdata/*.json"))
	if err != nil || len(files) == 0 {
		t.Skip("wazero's sources come without the tests of the specification")
	}
	return files
}

type specValue struct {
	Type     string          `json:"type"`
	LaneType string          `json:"lane_type"`
	Value    json.RawMessage `json:"value"`
}

type specCommand struct {
	Type     string `json:"type"`
	Line     int    `json:"line"`
	Filename string `json:"filename"`
	Name     string `json:"name"`
	Action   struct {
		Type   string      `json:"type"`
		Module string      `json:"module"`
		Field  string      `json:"field"`
		Args   []specValue `json:"args"`
	} `json:"action"`
	Expected []specValue `json:"expected"`
}

// words are a value as the host passes it.
func (v specValue) words() []uint64 {
	if v.Type != "v128" {
		return []uint64{laneBits(v.Value)}
	}
	var lanes []json.RawMessage
	if json.Unmarshal(v.Value, &lanes) != nil {
		return []uint64{0, 0}
	}
	words, bits := []uint64{0, 0}, 128/len(lanes)
	for i, l := range lanes {
		words[i*bits/64] |= laneBits(l) << (i * bits % 64)
	}
	return words
}

func laneBits(raw json.RawMessage) uint64 {
	s := strings.Trim(string(raw), `"`)
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n
	}
	n, _ := strconv.ParseInt(s, 10, 64) // "null" is a null reference, and zero too
	return uint64(n)
}

// sameBits reports whether two results are equal, or NaNs of any kind both.
func (v specValue) sameBits(a, b []uint64) bool {
	kind := v.Type
	if kind == "v128" {
		kind = v.LaneType
	}
	for i := range a {
		switch kind {
		case "f32":
			for s := 0; s < 64; s += 32 {
				x, y := uint32(a[i]>>s), uint32(b[i]>>s)
				if x != y && (x&0x7fffffff <= 0x7f800000 || y != 0x7fc00000) {
					return false
				}
			}
		case "f64":
			if x, y := a[i], b[i]; x != y && (x&(1<<63-1) <= 0x7ff<<52 || y != 0x7ff8<<48) {
				return false
			}
		default:
			if a[i] != b[i] {
				return false
			}
		}
	}
	return true
}

// A specRun is one module of a test, as it is and rewritten.
type specRun struct{ was, is api.Module }

// TestSpecification runs the assertions of the specification's tests on each module as
// it is and rewritten, and compares what they return or trap with. IDLEMESH_LONG brings in
// those that take longest, and all for vectors, which differ in little but the lanes.
func TestSpecification(t *testing.T) {
	was, is := newBench(t, false), newBench(t, false)
	done, least := 0, 20_000
	files := specTests(t)
	if !long() {
		vectors := 0
		files, least = slices.DeleteFunc(files, func(name string) bool {
			name = filepath.Base(name)
			if !strings.HasPrefix(name, "simd_") {
				return slices.Contains([]string{"const.json", "br_table.json", "skip-stack-guard-page.json"}, name)
			}
			vectors++
			return vectors%8 != 0
		}), 8_000
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var test struct {
				Commands []specCommand `json:"commands"`
			}
			if err := json.Unmarshal(b, &test); err != nil {
				t.Fatal(err)
			}
			var r specRun
			for _, c := range test.Commands {
				switch c.Type {
				case "module":
					r.close()
					r = openSpec(t, was, is, filepath.Join(filepath.Dir(file), c.Filename))
				case "assert_return", "assert_trap", "action", "assert_exhaustion":
					if r.is != nil && c.Action.Type == "invoke" && c.Action.Module == "" {
						r.compare(t, c)
						done++
					}
				}
			}
			r.close()
		})
	}
	t.Logf("%d calls compared", done)
	if done < least {
		t.Errorf("only %d calls were compared", done)
	}
}

func (r specRun) close() {
	if r.is != nil {
		r.was.Close(context.Background())
		r.is.Close(context.Background())
	}
}

// openSpec instantiates a module, if the scan accepts it and it needs nothing.
func openSpec(t *testing.T, was, is *bench, file string) (r specRun) {
	ctx := context.Background()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if r.was, err = was.rt.InstantiateWithConfig(ctx, b, cfg); err != nil {
		return specRun{}
	}
	out, _, err := Rewrite(b, Rules{MayImport: anything})
	if err != nil {
		if !errors.As(err, new(*FormatError)) {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		r.was.Close(ctx)
		return specRun{}
	}
	if r.is, err = is.rt.InstantiateWithConfig(ctx, out, cfg); err != nil {
		t.Errorf("%s rewritten: %v", filepath.Base(file), err)
		r.was.Close(ctx)
		return specRun{}
	}
	if f := r.is.ExportedFunction(Start); f != nil {
		if _, err := f.Call(ctx); err != nil {
			t.Errorf("%s: start: %v", filepath.Base(file), err)
		}
	}
	return r
}

func (r specRun) compare(t *testing.T, c specCommand) {
	var args []uint64
	for _, a := range c.Action.Args {
		args = append(args, a.words()...)
	}
	r.is.ExportedGlobal(Depth).(api.MutableGlobal).Set(MaxDepth)
	a, errA := r.was.ExportedFunction(c.Action.Field).Call(context.Background(), args...)
	b, errB := r.is.ExportedFunction(c.Action.Field).Call(context.Background(), args...)
	what := fmt.Sprintf("line %d, %s%v", c.Line, c.Action.Field, args)
	if c.Type == "assert_exhaustion" {
		var exit *sys.ExitError
		if !errors.As(errB, &exit) || exit.ExitCode() != tooDeep {
			t.Errorf("%s returned %v", what, errB)
		}
		return
	}
	if errA != nil || errB != nil {
		if firstLine(errA) != firstLine(errB) {
			t.Errorf("%s: %v, rewritten %v", what, errA, errB)
		}
		return
	}
	for _, v := range c.Expected {
		n := len(v.words())
		if !v.sameBits(a[:n], b[:n]) {
			t.Errorf("%s is %x, rewritten %x", what, a[:n], b[:n])
		}
		a, b = a[n:], b[n:]
	}
}

func firstLine(err error) string {
	if err == nil {
		return "no error"
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
