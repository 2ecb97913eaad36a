package sandbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
	"idlemesh/sandbox"
)

// hangs is the name of a device with a kernel that does not end: a fill with words of deadly.
const (
	hangs  = "hangs"
	deadly = 0xdead
)

type hanging struct{ *cpu.Backend }

func (h hanging) Launch(stop <-chan struct{}, cmds []kernel.Command) error {
	if cmds[0].Op == kernel.Fill && cmds[0].Params[0] == deadly {
		select {}
	}
	return h.Backend.Launch(stop, cmds)
}

func (hanging) MaxLaunch() time.Duration { return 300 * time.Millisecond }

// open opens devices for the workers of these tests.
func open(name string, quota uint64) (*gpu.Device, error) {
	if name == hangs {
		return gpu.New(hanging{cpu.New(quota)}, quota), nil
	}
	return gpu.Open(name, quota)
}

// filling is a guest that says it is up, and fills a buffer with a word, on the device.
func filling(word byte, more byte) guest {
	c := make([]byte, kernel.Size)
	c[0], c[8], c[72], c[76], c[88], c[89] = byte(kernel.Fill), 1, 1, 1, word, more
	g := printing(1, "up")
	at := int64(16 + len("up"))
	g.data += string(c)
	g.imports = append(g.imports, imp{"mesh_gpu_v1", "alloc", []byte{vi64}, []byte{vi32}},
		imp{"mesh_gpu_v1", "submit", []byte{vi32, vi32}, []byte{vi64}})
	g.code = do(g.code, i64(4), call(1), drop, i32(at), i32(1), call(2), drop, g.code)
	return g
}

// TestHungKernel: a kernel that does not end, ends its worker, whose runs are lost; other
// tenants' runs go on, and its own tenant's next run has a new worker.
func TestHungKernel(t *testing.T) {
	p := openPool(t, sandbox.Config{Device: hangs, Slots: 4})
	good := filling(7, 0).wasm()
	long := guest{imports: printing(1, "x").imports, data: iovec("up"), code: do(printing(1, "").code, forever())}.wasm()
	h := newHost(long)
	h.heard = make(chan sandbox.Event, 16)
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		res sandbox.Result
		err error
	}
	bob := make(chan end, 1)
	go func() {
		res, err := p.Execute(ctx, "bob", spec(long), h)
		bob <- end{res, err}
	}()
	<-h.heard
	bad := filling(deadly&0xff, deadly>>8).wasm()
	if res, err := p.Execute(t.Context(), "mallory", spec(bad), newHost(bad)); !errors.Is(err, sandbox.ErrWorkerLost) {
		t.Errorf("a hung kernel: %+v, %v; want a lost worker", res, err)
	}
	for _, who := range []string{"mallory", "carol"} {
		out := newHost(good)
		if res, err := p.Execute(t.Context(), who, spec(good), out); err != nil || res.End != sandbox.Exited || out.out("stdout") != "upup" {
			t.Errorf("%s afterwards: %+v, %v, %q", who, res, err, out.out("stdout"))
		}
	}
	cancel()
	if e := <-bob; e.err != nil || e.res.End != sandbox.Cancelled {
		t.Errorf("bob's run ended with %+v, %v; want his own cancel", e.res, e.err)
	}
}
