package sandbox_test

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"idlemesh/sandbox"
)

// telling is a guest that runs code, then prints what f, an answer of mesh_gpu_v1,
// puts at 16.
func telling(f string, code ...[]byte) guest {
	g := printing(1, "")
	g.imports = append(g.imports, imp{"mesh_gpu_v1", f, []byte{vi32, vi32}, []byte{vi32}},
		imp{"mesh_gpu_v1", "alloc", []byte{vi64}, []byte{vi32}})
	store := []byte{0x36, 2, 0}
	g.code = do(do(code...), i32(4), i32(16), i32(500), call(1), store, g.code)
	return g
}

func TestDevice(t *testing.T) {
	p := openPool(t, sandbox.Config{Device: "sim:rtx4090"})
	run := func(g guest) string {
		h := newHost(g.wasm())
		if res, err := p.Execute(t.Context(), "alice", spec(g.wasm()), h); err != nil || res.Exit != 0 || res.End != sandbox.Exited {
			t.Fatalf("Execute = %+v, %v", res, err)
		}
		return h.out("stdout")
	}
	var info struct {
		Model, Backend string
		VRAM           uint64
		Simulated      bool
	}
	if err := json.Unmarshal([]byte(run(telling("info"))), &info); err != nil || info.Model == "" || !info.Simulated || info.VRAM == 0 {
		t.Errorf("info = %+v, %v", info, err)
	}
	if got := run(telling("last_error", i64(2<<20), call(2), drop)); !strings.Contains(got, "quota") {
		t.Errorf("last_error after an alloc beyond the limit: %q", got)
	}
	if got := run(telling("last_error", i64(1<<19), call(2), drop)); got != "" {
		t.Errorf("last_error after an alloc within it: %q", got)
	}
}

// TestConfined looks at a worker from outside.
func TestConfined(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("walls are Linux's")
	}
	t.Setenv("SECRET", "of the agent")
	p := sandbox.NewPool(sandbox.Config{}) // not running, so that no spare is just starting
	defer func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	hello, err := p.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(hello.Layers, " "); got != "landlock seccomp" {
		t.Errorf("missing layers %q", got)
	}
	pids := children(t)
	if len(pids) == 0 {
		t.Fatal("no worker")
	}
	for _, pid := range pids {
		if env, err := os.ReadFile("/proc/" + pid + "/environ"); err == nil && strings.Contains(string(env), "SECRET") {
			t.Errorf("environment %q", env)
		}
		limits, err := os.ReadFile("/proc/" + pid + "/limits")
		if err != nil {
			t.Skip(err)
		}
		for name, want := range map[string]string{"Max core file size": "0", "Max data size": strconv.Itoa(2 << 30), "Max open files": "128"} {
			_, rest, _ := strings.Cut(string(limits), name)
			if f := strings.Fields(rest); len(f) < 2 || f[0] != want || f[1] != want {
				t.Errorf("%s: %.40q, want %s", name, rest, want)
			}
		}
		if status, _ := os.ReadFile("/proc/" + pid + "/status"); !strings.Contains(string(status), "NoNewPrivs:\t1") {
			t.Error("the worker may gain privileges")
		}
	}
}

// children lists this process's children.
func children(t testing.TB) (pids []string) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip(err)
	}
	for _, d := range dirs {
		status, _ := os.ReadFile("/proc/" + d.Name() + "/status")
		if strings.Contains(string(status), "\nPPid:\t"+strconv.Itoa(os.Getpid())+"\n") {
			pids = append(pids, d.Name())
		}
	}
	return pids
}
