package engine

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"idlemesh/sandbox"
	"idlemesh/sandbox/wasmbin"
)

// A meter is a run's fuel. The guest gets it in slices, so that between two of them the
// run can be stopped and other goroutines of the process run. How large slices are
// changes neither what a run uses nor where it is stopped for want of fuel. A meter
// belongs to the run's goroutine, but for seen.
type meter struct {
	left  api.MutableGlobal // the guest's; nil before there is a guest
	given int64
	limit int64
	slice int64
	begun time.Time // the slice
	seen  atomic.Uint64
}

// Slices begin with firstSlice of fuel, and are made longer or shorter so that they take
// sliceTime, within bounds.
const (
	firstSlice = 1_000_000
	leastSlice = 10_000
	mostSlice  = 16_000_000
	sliceTime  = 1500 * time.Microsecond
)

func (m *meter) init(limit uint64) {
	m.limit = math.MaxInt64
	if limit > 0 && limit < math.MaxInt64 {
		m.limit = int64(limit)
	}
	m.slice = firstSlice
}

// start gives a guest its first slice.
func (m *meter) start(g api.Module) error {
	left, ok := g.ExportedGlobal(wasmbin.Fuel).(api.MutableGlobal)
	if !ok {
		return fmt.Errorf("the rewritten module exports no %s", wasmbin.Fuel)
	}
	m.left, m.begun = left, time.Now()
	m.given = min(m.slice, m.limit)
	left.Set(uint64(m.given))
	return nil
}

// used is the fuel used so far.
func (m *meter) used() uint64 {
	if m.left == nil {
		return 0
	}
	n := uint64(max(m.given-int64(m.left.Get()), 0))
	m.seen.Store(n)
	return n
}

// take charges the guest for what the host did. What is left may fall below zero.
func (m *meter) take(n uint64) {
	if m.left != nil {
		m.left.Set(m.left.Get() - min(n, 1<<40))
	}
}

// empty reports whether more than the limit was used.
func (m *meter) empty() bool { return m.used() > uint64(m.limit) }

// refill gives the next slice, on top of what was overdrawn. It is not called when
// empty.
func (m *meter) refill() {
	took := max(time.Since(m.begun), sliceTime/4)
	m.slice = min(max(m.slice*int64(sliceTime)/int64(min(took, time.Second)), leastSlice), mostSlice)
	left := int64(m.left.Get())
	more := min(max(-left, 0)+m.slice, m.limit-m.given)
	m.given += more
	m.left.Set(uint64(left + more))
	m.begun = time.Now()
}

// linkMeter makes the host module of rewritten modules.
func linkMeter(ctx context.Context, rt wazero.Runtime) error {
	_, err := rt.NewHostModuleBuilder(wasmbin.HostModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), []api.ValueType{api.ValueTypeI32}, nil).
		Export(wasmbin.HostRefuel).Instantiate(ctx)
	return err
}

// refuel is where a guest that calls nothing of ours comes by: it is stopped there, or
// lets others run and goes on.
func refuel(ctx context.Context, _ api.Module, stack []uint64) {
	r := runOf(ctx)
	if uint32(stack[0]) != 0 { // the upper half may be anything
		r.stop(sandbox.Trapped, fmt.Sprintf("calls nest too deep: they take more than %d words of stack", wasmbin.MaxDepth))
	}
	r.checkpoint()
	runtime.Gosched()
	r.checkpoint()
	r.fuel.refill()
}

// charge takes fuel for a call of the host, and ends the run there when there is none.
func (r *run) charge(n uint64) {
	r.fuel.take(n)
	r.checkpoint()
}

// checkpoint ends the guest here when its run was stopped or has no fuel.
func (r *run) checkpoint() {
	if r.fuel.left != nil && r.fuel.empty() {
		r.stop(sandbox.OverLimit, fmt.Sprintf("the fuel limit of %d was reached", r.fuel.limit))
	}
	if r.stopping.Load() {
		panic(sys.NewExitError(stoppedCode))
	}
}
