package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"idlemesh/sandbox/wasmbin"
)

// build returns the Go program in dir, built for WASI.
func build(dir string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "m.wasm")
	cmd := exec.Command("go", "build", "-o", out, dir)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(err, errors.New(string(b)))
	}
	return os.ReadFile(out)
}

var meterGuest = sync.OnceValues(func() ([]byte, error) { return build("./testdata/meter") })

// BenchmarkMetering compares programs as they are with what wasmbin makes of them. The
// smallest of several runs counts, each after one of the other kind, so that what else
// the machine does counts little.
func BenchmarkMetering(b *testing.B) {
	guest, err := meterGuest()
	if err != nil {
		b.Skip("no guest: ", err)
	}
	for _, p := range []struct {
		name string
		wasm []byte
	}{{"sha256", guest}, {"sort", guest}, {"json", guest}, {"regexp", guest}, {"gzip", guest}, {"matmul", matmul()}} {
		b.Run(p.name, func(b *testing.B) {
			metered, _, err := wasmbin.Rewrite(p.wasm, wasmbin.Rules{MayImport: func(string, string, []byte, []byte) bool { return true }})
			if err != nil {
				b.Fatal(err)
			}
			was, is := newMachine(b, p.wasm), newMachine(b, metered)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			plain, counted := time.Duration(1<<62), time.Duration(1<<62)
			var fuel int64
			for range max(b.N, 7) {
				d, _ := was.run(b, p.name)
				plain = min(plain, d)
				d, fuel = is.run(b, p.name)
				counted = min(counted, d)
			}
			b.ReportMetric(100*float64(counted-plain)/float64(plain), "overhead-%")
			b.ReportMetric(float64(fuel)/float64(plain.Nanoseconds()), "fuel/ns")
			b.ReportMetric(float64(plain.Microseconds())/1000, "plain-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A machine runs one module on bare wazero.
type machine struct {
	rt    wazero.Runtime
	code  wazero.CompiledModule
	given int64
}

func newMachine(b *testing.B, wasm []byte) *machine {
	ctx := context.Background()
	m := &machine{rt: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithDebugInfoEnabled(false))}
	b.Cleanup(func() { m.rt.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, m.rt)
	const slice = 1_000_000
	_, err := m.rt.NewHostModuleBuilder(wasmbin.HostModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, g api.Module, s []uint64) {
			f := g.ExportedGlobal(wasmbin.Fuel).(api.MutableGlobal)
			f.Set(f.Get() + slice)
			m.given += slice
		}), []api.ValueType{api.ValueTypeI32}, nil).Export(wasmbin.HostRefuel).Instantiate(ctx)
	if err == nil {
		m.code, err = m.rt.CompileModule(experimental.WithCompilationWorkers(ctx, 2), wasm)
	}
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (m *machine) run(b *testing.B, args ...string) (took time.Duration, fuel int64) {
	ctx := context.Background()
	var out bytes.Buffer
	g, err := m.rt.InstantiateModule(ctx, m.code, wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdout(&out).WithStderr(&out).WithArgs(append([]string{"m"}, args...)...).WithEnv("PWD", "/").
		WithSysNanotime().WithSysWalltime())
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close(ctx)
	m.given = 0
	begin := threadTime()
	_, err = g.ExportedFunction("_start").Call(ctx)
	took = threadTime() - begin
	var exit *sys.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 0) {
		b.Fatalf("%v\n%s", err, out.String())
	}
	if f := g.ExportedGlobal(wasmbin.Fuel); f != nil {
		fuel = m.given - int64(f.Get())
	}
	return took, fuel
}

// matmul is a module that multiplies two matrices of 200×200 f64, by the plain three
// loops that a C compiler makes of it: a row at a, a column at b.
func matmul() []byte {
	const n = 200
	get := func(x byte) []byte { return []byte{0x20, x} }
	set := func(x byte) []byte { return []byte{0x21, x} }
	const i, j, k, a, b, sum = 0, 1, 2, 3, 4, 5
	add := func(x byte, by int64) []byte { return do(get(x), i32(by), []byte{0x6a, 0x22, x}) }
	loop := func(body ...[]byte) []byte {
		return do([]byte{0x03, 0x40}, slices.Concat(body...), []byte{0x0d, 0, 0x0b})
	}
	below := func(x byte) []byte { return do(i32(n), []byte{0x47}) }
	inner := loop(
		get(sum), get(a), []byte{0x2b, 3, 0}, get(b), []byte{0x2b, 3, 0}, []byte{0xa2, 0xa0}, set(sum),
		add(a, 8), drop, add(b, 8*n), drop, add(k, 1), below(k))
	body := loop(i32(0), set(j), loop(
		i32(0), set(k), get(i), i32(8*n), []byte{0x6c}, set(a), get(j), i32(8), []byte{0x6c}, i32(8*n*n), []byte{0x6a}, set(b),
		[]byte{0x44}, make([]byte, 8), set(sum), inner,
		get(i), i32(n), []byte{0x6c}, get(j), []byte{0x6a}, i32(8), []byte{0x6c}, i32(16*n*n), []byte{0x6a}, get(sum), []byte{0x39, 3, 0},
		add(j, 1), below(j)), add(i, 1), below(i))
	locals := []byte{2, 5, vi32, 1, vf64}
	code := slices.Concat(locals, body, []byte{0x0b})
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, vec([]byte{0x60, 0, 0})), section(3, vec([]byte{0})),
		section(5, vec([]byte{0, 16})), section(7, vec(slices.Concat(text("_start"), []byte{0, 0}))),
		section(10, vec(append(uleb(uint64(len(code))), code...))))
}
