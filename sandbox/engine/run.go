package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"

	"idlemesh/gpu/kernel"
	"idlemesh/sandbox"
	"idlemesh/sandbox/wasmbin"
)

type runKey struct{}

// A run is what host functions act on; it travels in the context of one call. Its
// fields belong to the run's goroutine unless they say otherwise.
type run struct {
	eng    *Engine
	spec   sandbox.Spec
	host   sandbox.Host
	bare   sandbox.Host    // host without what writes down what is heard from it
	ctx    context.Context // ends when the run is to stop
	cancel context.CancelFunc

	fuel    meter
	slept   int64 // nanoseconds
	random  *rand.ChaCha8
	mem     memory
	fs      *fileSystem
	out     *outputs
	log     logger
	prog    progress
	metrics map[string]float64
	metered time.Time // the last event of a metric
	cmds    []kernel.Command
	sent    []byte // the commands of this submit, in the guest's memory
	info    kernel.Info
	tape    *tape // nil unless the run is recorded or replayed

	began  time.Time
	thread threadClock
	cpu    atomic.Int64 // of the thread when the guest began, nanoseconds
	kernel atomic.Int64 // nanoseconds of that thread spent in the device

	moved   uint64 // bytes that a call of WASI has read, written or made
	refusal string // the last refusal of mesh_gpu_v1

	stopping atomic.Bool

	mu    sync.Mutex
	acc   Accelerator // nil until the guest calls it
	end   sandbox.End // why the run was stopped; zero while it was not
	why   string
	short string // the limit that the guest ran into last
}

// Run runs s, served by h, until it ends or ctx does. Now and then report, which
// may be nil, is told from another goroutine what the run has used so far. What the
// guest, a limit or ctx ended is a Result; an End of NodeLost is the node's fault.
func (e *Engine) Run(ctx context.Context, s sandbox.Spec, h sandbox.Host, report func(sandbox.Usage)) (res sandbox.Result) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := e.newRun(ctx, s, h)
	defer r.cancel()
	defer func() {
		if p := recover(); p != nil {
			res = r.broken(p)
		}
	}()
	defer context.AfterFunc(ctx, func() { r.stop(sandbox.Cancelled, "cancelled") })()
	wall := time.AfterFunc(time.Duration(s.Limits.Wall)*time.Millisecond, func() {
		r.stop(sandbox.TimedOut, fmt.Sprintf("the time limit of %d ms was reached", s.Limits.Wall))
	})
	defer wall.Stop()
	defer r.reporting(report)()
	defer func() {
		if err := r.close(); err != nil {
			res.End, res.Error = sandbox.NodeLost, readable(err.Error())
		}
	}()
	return r.do()
}

func (e *Engine) newRun(ctx context.Context, s sandbox.Spec, h sandbox.Host) *run {
	r := &run{eng: e, spec: s, host: h, bare: h, metrics: map[string]float64{},
		mem: memory{limit: s.Limits.Memory}, began: time.Now(), thread: thisThread()}
	r.fuel.init(s.Limits.Fuel)
	r.cpu.Store(int64(r.thread.now()))
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.info = e.cfg.Info
	if s.Record || s.Replay.Size > 0 {
		r.tape = &tape{Host: h, r: r, left: map[string]*digest{}}
		r.host = r.tape
	}
	r.out = newOutputs(r)
	r.log.r, r.prog.r = r, r
	return r
}

// do prepares, runs and delivers.
func (r *run) do() sandbox.Result {
	m, err := r.prepare()
	if errors.As(err, new(badModule)) {
		return r.result(err)
	}
	if err != nil {
		r.lose(err)
		return r.result(err)
	}
	defer r.eng.mods.put(m)
	r.cpu.Store(int64(r.thread.now())) // compiling isn't the guest's own work: a cache would change the bill
	if !r.stopping.Load() {            // it may never ask again
		err = r.call(m)
	}
	res := r.result(err)
	if res.End != sandbox.Cancelled && res.End != sandbox.NodeLost {
		r.finish()
	}
	if r.tape != nil && res.End != sandbox.Cancelled && res.End != sandbox.TimedOut && res.End != sandbox.NodeLost {
		if err := r.tape.finish(res); err != nil {
			r.lose(err)
		}
	}
	if err := r.lost(); err != nil {
		return sandbox.Result{End: sandbox.NodeLost, Error: err.Error(), Usage: res.Usage}
	}
	return res
}

func (r *run) prepare() (m *module, err error) {
	if len(r.spec.Seed) != 32 {
		return nil, badModule{fmt.Errorf("a seed of %d bytes, want 32", len(r.spec.Seed))}
	}
	if r.random, err = newRandom(r.spec.Seed); err != nil {
		return nil, err
	}
	if r.fs, err = newFileSystem(r); err != nil {
		return nil, err
	}
	if r.tape == nil {
		return r.eng.mods.get(r.ctx, r.spec.Module, r.host)
	}
	if m, err = r.eng.mods.get(r.ctx, r.spec.Module, r.tape.Host); err != nil {
		return nil, err
	}
	if err := r.tape.begin(m.hash); err != nil {
		r.eng.mods.put(m)
		return nil, err
	}
	return m, nil
}

// call instantiates m and calls its start function, if it has one, and its _start.
func (r *run) call(m *module) error {
	ctx := experimental.WithMemoryAllocator(context.WithValue(r.ctx, runKey{}, r), &r.mem)
	cfg, err := r.config()
	if err != nil {
		return err
	}
	g, err := r.instantiate(ctx, m, cfg)
	if err != nil {
		return linkError(err)
	}
	defer g.Close(ctx)
	if err := r.fuel.start(g); err != nil {
		return err
	}
	defer r.fuel.used() // remembers it
	if f := g.ExportedFunction(wasmbin.Start); f != nil {
		if _, err := f.Call(ctx); err != nil {
			return err
		}
		if err := resetDepth(g); err != nil {
			return err
		}
	}
	_, err = g.ExportedFunction("_start").Call(ctx)
	return err
}

// resetDepth prepares a guest for another call: what the last one left is of no meaning.
func resetDepth(g api.Module) error {
	depth, ok := g.ExportedGlobal(wasmbin.Depth).(api.MutableGlobal)
	if !ok {
		return fmt.Errorf("the rewritten module exports no %s", wasmbin.Depth)
	}
	depth.Set(wasmbin.MaxDepth)
	return nil
}

// linkError tells an error of linking from one of the start function.
func linkError(err error) error {
	if errors.As(err, new(*sys.ExitError)) || strings.HasPrefix(err.Error(), "start ") {
		return err
	}
	return badModule{err}
}

func (r *run) instantiate(ctx context.Context, m *module, cfg wazero.ModuleConfig) (api.Module, error) {
	m.first.Lock()
	if m.ready {
		m.first.Unlock()
		return r.eng.rt.InstantiateModule(ctx, m.code, cfg)
	}
	defer m.first.Unlock()
	g, err := r.eng.rt.InstantiateModule(ctx, m.code, cfg)
	m.ready = err == nil
	return g, err
}

func (r *run) config() (wazero.ModuleConfig, error) {
	mount, ok := wazero.NewFSConfig().(sysfs.FSConfig)
	if !ok {
		return nil, errors.New("wazero mounts no file systems of ours")
	}
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithArgs(append([]string{"module"}, r.spec.Args...)...).
		WithStdout(r.out.stdout).WithStderr(r.out.stderr).
		WithFSConfig(mount.WithSysFSMount(r.fs, "/")).
		WithWalltime(r.wall, sys.ClockResolution(tick)).
		WithNanotime(r.monotonic, sys.ClockResolution(tick)).
		WithNanosleep(r.sleep).WithRandSource(chance{r})
	env := maps.Clone(r.spec.Env)
	if _, ok := env["PWD"]; !ok { // Go's runtime takes its working directory from here
		cfg = cfg.WithEnv("PWD", "/")
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		cfg = cfg.WithEnv(k, env[k])
	}
	return cfg, nil
}

// stop ends the run at its next host call or slice of fuel. The first reason counts.
func (r *run) stop(end sandbox.End, why string) {
	r.mu.Lock()
	if r.end == 0 {
		r.end, r.why = end, why
	}
	acc := r.acc
	r.mu.Unlock()
	r.stopping.Store(true)
	r.cancel()
	if acc != nil {
		_ = acc.Close() // the list that is running ends early; close hears of errors
	}
}

// lose ends the run by the node's fault.
func (r *run) lose(err error) error {
	r.stop(sandbox.NodeLost, err.Error())
	return err
}

func (r *run) lost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end == sandbox.NodeLost {
		return errors.New(r.why)
	}
	return nil
}

// ranShort remembers which limit the guest ran into, in case it ends by that.
func (r *run) ranShort(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short = what
}

// result says how a run ended whose last call returned err.
func (r *run) result(err error) sandbox.Result {
	res := sandbox.Result{End: sandbox.Exited, Usage: r.usage(), Metrics: r.measured()}
	var exit *sys.ExitError
	var bad badModule
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.end != 0:
		res.End, res.Error = r.end, r.why
		return res
	case errors.As(err, &bad):
		res.End, res.Error = sandbox.BadModule, readable(bad.Error())
		return res
	case errors.As(err, &exit):
		res.Exit = exit.ExitCode()
	case err != nil:
		res.End, res.Error = sandbox.Trapped, readable(err.Error())
	}
	if r.mem.asked > 0 {
		r.short = r.mem.refusal()
	}
	if r.short != "" && (res.Exit != 0 || res.End == sandbox.Trapped) {
		res.End, res.Error = sandbox.OverLimit, strings.TrimSuffix(r.short+"\n"+res.Error, "\n")
	}
	return res
}

// broken turns a panic into a result: a refused first memory is the module's fault,
// anything else ours.
func (r *run) broken(p any) sandbox.Result {
	if e, ok := p.(initialError); ok {
		return sandbox.Result{End: sandbox.OverLimit, Error: e.Error(), Usage: r.usage()}
	}
	return sandbox.Result{End: sandbox.NodeLost, Error: readable(fmt.Sprintf("engine: %v", p)), Usage: r.usage()}
}

// usage may be called from any goroutine.
func (r *run) usage() sandbox.Usage {
	cpu := int64(r.thread.now()) - r.cpu.Load() - r.kernel.Load()
	u := sandbox.Usage{Wall: uint64(time.Since(r.began).Milliseconds()) + 1, CPU: uint64(max(cpu, 0)), Memory: r.mem.held(),
		Fuel: r.fuel.seen.Load()}
	r.mu.Lock()
	acc := r.acc
	r.mu.Unlock()
	if acc != nil {
		s := acc.Spent()
		u.Work, u.Kernel, u.FLOP, u.Bytes = s.Work, s.Busy, s.FLOP, s.Bytes
	}
	return u
}

// reporting calls report each second, and once when the run is stopped, which may be
// the last that is heard of it, until the function that it returns is called.
func (r *run) reporting(report func(sandbox.Usage)) (stop func()) {
	if report == nil {
		return func() {}
	}
	var mu sync.Mutex
	var done bool
	var timer *time.Timer
	now := func() {
		mu.Lock()
		defer mu.Unlock()
		if !done {
			report(r.usage())
			timer.Reset(time.Second)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(time.Second, now)
	stopped := context.AfterFunc(r.ctx, now)
	return func() {
		stopped()
		mu.Lock()
		defer mu.Unlock()
		done = true
		timer.Stop()
	}
}

func (r *run) measured() []sandbox.Metric {
	var ms []sandbox.Metric
	for _, name := range slices.Sorted(maps.Keys(r.metrics)) {
		ms = append(ms, sandbox.Metric{Name: name, Value: r.metrics[name]})
	}
	return ms
}

// close gives everything back. Its error means that the device may not have.
func (r *run) close() error {
	r.mem.region.free()
	if r.fs != nil {
		r.fs.close()
	}
	r.out.abandon()
	if r.acc == nil {
		return nil
	}
	return r.acc.Close()
}

// maxText bounds what a result says of a guest, in bytes.
const maxText = 4 << 10

// readable returns s as valid UTF-8 of bounded length.
func readable(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// finish delivers what the run left. Each part that fails has made the run lost.
func (r *run) finish() {
	r.prog.flush()
	if r.out.close() == nil && r.fs != nil {
		if err := r.fs.deliver(r.host); err != nil {
			r.lose(err)
		}
	}
}
