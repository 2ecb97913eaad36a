package engine

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
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
		r.checkpoint()
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
		r.checkpoint()
	}
}

// wasiChecks refuse what would make wazero allocate or multiply without bound.
var wasiChecks = map[string]func(stack []uint64) (errno uint64){
	"fd_renumber": func(s []uint64) uint64 {
		if uint32(s[1]) > maxOpen { // the table of open files would grow to it
			return errnoBADF
		}
		return 0
	},
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

// checkpoint ends the guest here when its run was stopped.
func (r *run) checkpoint() {
	if r.stopping.Load() {
		panic(sys.NewExitError(stoppedCode))
	}
}

// stoppedCode is never seen: a stopped run has its own reason.
const stoppedCode = 1
