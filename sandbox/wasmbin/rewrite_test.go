package wasmbin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

func rewrite(t testing.TB, b []byte) []byte {
	t.Helper()
	out, _, err := Rewrite(b, Rules{MayImport: anything})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A bench runs modules, rewritten or not, with a meter and WASI.
type bench struct {
	rt    wazero.Runtime
	slice int64 // fuel given at once; zero means 1,000,000
	limit int64 // fuel that a run may use; zero means no limit
	calls int   // of refuel
	given int64
	deep  bool // it was told that calls nest too deep
}

const outOfFuel, tooDeep = 77, 78 // exit codes

func newBench(t testing.TB, interpreter bool) *bench {
	t.Helper()
	ctx := context.Background()
	cfg := wazero.NewRuntimeConfigCompiler()
	if interpreter {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	b := &bench{rt: wazero.NewRuntimeWithConfig(ctx, cfg.WithMemoryLimitPages(1024).WithDebugInfoEnabled(false))}
	t.Cleanup(func() { b.rt.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, b.rt)
	_, err := b.rt.NewHostModuleBuilder(HostModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(b.refuel), []api.ValueType{api.ValueTypeI32}, nil).Export(HostRefuel).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) refuel(_ context.Context, m api.Module, s []uint64) {
	b.calls++
	if uint32(s[0]) != 0 { // the upper half may be anything
		b.deep = true
		panic(sys.NewExitError(tooDeep))
	}
	g := m.ExportedGlobal(Fuel).(api.MutableGlobal)
	more := max(b.slice, 1)
	if b.slice == 0 {
		more = 1_000_000
	}
	if b.limit > 0 {
		if more = min(more, b.limit-b.given); more <= 0 {
			panic(sys.NewExitError(outOfFuel))
		}
	}
	for int64(g.Get()) < 0 && more > 0 {
		g.Set(g.Get() + uint64(more))
		b.given += more
		if b.limit > 0 {
			more = min(more, b.limit-b.given)
		}
	}
	if int64(g.Get()) < 0 {
		panic(sys.NewExitError(outOfFuel))
	}
}

// A ran is what can be seen of one run.
type ran struct {
	out    string
	err    string
	exit   uint32
	memory string
	fuel   int64
}

func plainConfig() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions()
}

// run calls a command's _start.
func (b *bench) run(t testing.TB, wasm []byte, args ...string) ran {
	t.Helper()
	r, err := b.try(wasm, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// try is run of a module that may not be one, or may not be instantiated.
func (b *bench) try(wasm []byte, args ...string) (r ran, _ error) {
	ctx := context.Background()
	code, err := b.rt.CompileModule(ctx, wasm)
	if err != nil {
		return r, err
	}
	defer code.Close(ctx)
	var out bytes.Buffer
	m, err := b.rt.InstantiateModule(ctx, code, plainConfig().
		WithStdout(&out).WithStderr(&out).WithArgs(append([]string{"m"}, args...)...).WithEnv("PWD", "/"))
	if err != nil {
		return r, err
	}
	defer m.Close(ctx)
	b.calls, b.given, b.deep = 0, 0, false
	for _, name := range []string{Start, "_start"} {
		if f := m.ExportedFunction(name); f != nil && err == nil {
			_, err = f.Call(ctx)
		}
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		r.exit = exit.ExitCode()
	} else if err != nil {
		r.err = err.Error()
	}
	r.out = out.String()
	if g := m.ExportedGlobal(Fuel); g != nil {
		r.fuel = b.given - int64(g.Get())
	}
	if mem := m.ExportedMemory("memory"); mem != nil {
		all, _ := mem.Read(0, mem.Size())
		r.memory = fmt.Sprintf("%d bytes, %08x", mem.Size(), crc32.ChecksumIEEE(all))
	}
	return r, nil
}

func TestRewrittenGoProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Go guest")
	}
	wasm := rewrite(t, hello(t))
	if got := newBench(t, false).run(t, wasm); got.out != "hello from the sandbox\n" || got.exit != 0 || got.err != "" || got.fuel == 0 {
		t.Errorf("rewritten it does %+v", got)
	}
	if !slices.Equal(wasm, rewrite(t, hello(t))) {
		t.Error("rewritten twice it is not the same")
	}
}

// memory returns the first eight bytes of a command's memory after it ran.
func (b *bench) memory(t testing.TB, wasm []byte) []byte {
	t.Helper()
	m, err := b.rt.InstantiateWithConfig(context.Background(), wasm, plainConfig().WithStartFunctions("_start"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	v, _ := m.Memory().Read(0, 8)
	return slices.Clone(v)
}

// low shows bytes as the number that they are, lowest first.
func low(b []byte) string {
	slices.Reverse(b)
	return fmt.Sprintf("%x", b)
}
