package engine

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"idlemesh/sandbox"
)

const (
	errnoBADF  = 8
	errnoINVAL = 28
)

// maxSubscriptions bounds poll_oneoff; wazero multiplies their number without a look.
const maxSubscriptions = 4096

// linkWASI makes wazero's own WASI preview 1, each function wrapped: a stopped run
// ends there, arguments that wazero would allocate by are checked, and our file
// system's own error numbers get through.
func linkWASI(ctx context.Context, rt wazero.Runtime) error {
	compiled, err := wasi_snapshot_preview1.NewBuilder(rt).Compile(ctx)
	if err != nil {
		return err
	}
	b := rt.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	for name, def := range compiled.ExportedFunctions() {
		body, ok := def.GoFunction().(api.GoModuleFunction)
		if !ok {
			return fmt.Errorf("wasi function %s has no Go body", name)
		}
		b.NewFunctionBuilder().WithGoModuleFunction(wrapWASI(name, body), def.ParamTypes(), def.ResultTypes()).
			WithName(name).Export(name)
	}
	_, err = b.Instantiate(ctx)
	return err
}

func wrapWASI(name string, body api.GoModuleFunction) api.GoModuleFunc {
	refuse := wasiChecks[name]
	return func(ctx context.Context, m api.Module, stack []uint64) {
		r := runOf(ctx)
		r.charge(sandbox.WASIFuel + r.extra(name, stack))
		if refuse != nil {
			if errno := refuse(stack); errno != 0 {
				stack[0] = errno
				return
			}
		}
		body.Call(ctx, m, stack)
		if r.fs.errno != 0 {
			stack[0], r.fs.errno = uint64(r.fs.errno), 0
		}
		r.charge(r.moved / sandbox.BytesPerFuel)
		r.moved = 0
	}
}

// extra is what a call of WASI costs by its arguments, beside what it moves.
func (r *run) extra(name string, s []uint64) uint64 {
	switch name {
	case "args_get", "environ_get":
		return r.argBytes() / sandbox.BytesPerFuel
	case "poll_oneoff":
		return uint64(min(uint32(s[2]), maxSubscriptions)) * sandbox.EachFuel
	case "fd_read", "fd_write", "fd_pread", "fd_pwrite":
		return uint64(min(uint32(s[2]), maxVectors)) * sandbox.EachFuel
	}
	return 0
}

// argBytes is how long arguments and environment are.
func (r *run) argBytes() (n uint64) {
	for _, a := range r.spec.Args {
		n += uint64(len(a)) + 1
	}
	for k, v := range r.spec.Env {
		n += uint64(len(k)+len(v)) + 2
	}
	return n
}

// maxVectors bounds the parts that one read or write is made of.
const maxVectors = 1024

func manyVectors(s []uint64) uint64 {
	if uint32(s[2]) > maxVectors {
		return errnoINVAL
	}
	return 0
}

// wasiChecks refuse what would make wazero allocate or multiply without bound.
var wasiChecks = map[string]func(stack []uint64) (errno uint64){
	"fd_renumber": func(s []uint64) uint64 {
		if uint32(s[1]) > maxOpen { // the table of open files would grow to it
			return errnoBADF
		}
		return 0
	},
	"fd_read": manyVectors, "fd_write": manyVectors, "fd_pread": manyVectors, "fd_pwrite": manyVectors,
	"poll_oneoff": func(s []uint64) uint64 {
		if uint32(s[2]) > maxSubscriptions {
			return errnoINVAL
		}
		return 0
	},
}

func runOf(ctx context.Context) *run {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		panic("host function called outside a run")
	}
	return r
}

// stoppedCode is never seen: a stopped run has its own reason.
const stoppedCode = 1
