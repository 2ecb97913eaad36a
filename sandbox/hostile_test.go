package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"idlemesh/sandbox"
	"idlemesh/sandbox/worker"
)

// everyImport lists each host function that a module may import.
func everyImport() []imp {
	var all []imp
	for _, f := range sandbox.ABI {
		all = append(all, imp{f.Module, f.Name, f.Params, f.Results})
	}
	for name, sig := range sandbox.WASI {
		params, results, _ := strings.Cut(sig, ">")
		all = append(all, imp{"wasi_snapshot_preview1", name, []byte(params), []byte(results)})
	}
	return all
}

// constant pushes n as type t.
func constant(t byte, n int64) []byte {
	switch t {
	case vi64:
		return i64(n)
	case vf64:
		return []byte{0x44, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f} // NaN
	}
	return i32(int64(int32(n)))
}

// TestHostilePointers calls every host function with arguments that point nowhere,
// everywhere and across the end of memory. Whatever it answers, the worker lives.
func TestHostilePointers(t *testing.T) {
	var mu sync.Mutex
	starts := 0
	p := openPool(t, sandbox.Config{Spares: 1, Start: func(ctx context.Context) (*sandbox.Process, error) {
		mu.Lock()
		defer mu.Unlock()
		starts++
		return sandbox.Reexec(ctx)
	}})
	values := []int64{0, 1, 3, 65_530, 1 << 20, 1<<31 - 1, -1, -1 << 31, -1 << 63}
	for _, f := range everyImport() {
		for first, a := range values {
			for _, b := range values[first%3:] {
				g := guest{imports: []imp{f}, data: "data"}
				for i, pt := range f.params {
					g.code = append(g.code, constant(pt, []int64{a, b}[min(i, 1)])...)
				}
				g.code = append(g.code, call(0)...)
				if len(f.results) > 0 {
					g.code = append(g.code, drop...)
				}
				s := spec(g.wasm())
				s.Limits.Wall = 1000
				res, err := p.Execute(t.Context(), "mallory", s, newHost(g.wasm()))
				if err != nil || res.End == sandbox.BadModule || res.End == sandbox.TimedOut && f.name != "poll_oneoff" {
					t.Errorf("%s.%s(%d, %d…) = %+v, %v", f.module, f.name, a, b, res, err)
				}
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if starts > 2 {
		t.Errorf("%d workers were needed, want 1 and a spare", starts)
	}
}

// said is a guest that logs, measures and reports, all from the text at 0.
func reporting(code []byte) guest {
	return guest{data: "tokens", code: code, imports: []imp{
		{"mesh_job_v1", "log", []byte{vi32, vi32, vi32}, nil},
		{"mesh_job_v1", "metric", []byte{vi32, vi32, vf64}, nil},
		{"mesh_job_v1", "progress", []byte{vi64, vi64, vi32, vi32}, nil},
	}}
}

func TestReports(t *testing.T) {
	p := openPool(t, sandbox.Config{})
	two := []byte{0x44, 0, 0, 0, 0, 0, 0, 0, 0x40}
	g := reporting(do(i32(2), i32(0), i32(6), call(0), i32(0), i32(6), two, call(1), i64(3), i64(4), i32(0), i32(6), call(2)))
	h := newHost(g.wasm())
	res, err := p.Execute(t.Context(), "alice", spec(g.wasm()), h)
	if err != nil || len(res.Metrics) != 1 || res.Metrics[0] != (sandbox.Metric{Name: "tokens", Value: 2}) {
		t.Fatalf("Execute = %+v, %v", res, err)
	}
	if got := h.out("log"); got != "warn tokens\n" || h.closed["log"] != 1 {
		t.Errorf("log = %q", got)
	}
	want := []sandbox.Event{{Kind: sandbox.Log, Level: sandbox.Warn, Text: "tokens"}, {Kind: sandbox.Reported, Text: "tokens", Value: 2},
		{Kind: sandbox.Progress, Done: 3, Total: 4, Text: "tokens"}}
	if fmt.Sprint(h.said) != fmt.Sprint(want) {
		t.Errorf("events %+v, want %+v", h.said, want)
	}
}

// TestFloods holds that what a guest reports without end stays bounded.
func TestFloods(t *testing.T) {
	p := openPool(t, sandbox.Config{})
	for name, code := range map[string][]byte{
		"log":      do(i32(2), i32(0), i32(6), call(0)),
		"progress": do(i64(3), i64(4), i32(0), i32(6), call(2)),
		"metric":   do(i32(0), i32(6), []byte{0x44, 0, 0, 0, 0, 0, 0, 0, 0x40}, call(1)),
	} {
		t.Run(name, func(t *testing.T) {
			g := reporting(forever(code))
			h := newHost(g.wasm())
			s := spec(g.wasm())
			s.Limits.Wall = 500
			res, err := p.Execute(t.Context(), "alice", s, h)
			if err != nil || res.End != sandbox.TimedOut {
				t.Fatalf("Execute = %+v, %v", res, err)
			}
			if n := len(h.said); n > 3000 {
				t.Errorf("%d events in half a second", n)
			}
		})
	}
}

// TestTenantsNeverShare holds that one worker is one tenant's for its whole life,
// also when there is room for few.
func TestTenantsNeverShare(t *testing.T) {
	const tenants = 5
	var mu sync.Mutex
	starts := 0
	p := sandbox.NewPool(sandbox.Config{Slots: 2, Start: func(ctx context.Context) (*sandbox.Process, error) {
		mu.Lock()
		defer mu.Unlock()
		starts++
		return worker.InProcess(ctx)
	}})
	wasm := printing(1, "hello").wasm()
	var all sync.WaitGroup
	for i := range tenants {
		all.Go(func() {
			res, err := p.Execute(t.Context(), fmt.Sprint("tenant ", i), spec(wasm), newHost(wasm))
			if err != nil || res.End != sandbox.Exited {
				t.Errorf("Execute = %+v, %v", res, err)
			}
		})
	}
	all.Wait()
	if mu.Lock(); starts != tenants {
		t.Errorf("%d workers for %d tenants", starts, tenants)
	}
	mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, err := p.Execute(t.Context(), "late", spec(wasm), newHost(wasm)); err == nil {
		t.Error("a closed pool runs")
	}
}

// TestManyAtOnce holds that runs of one tenant go on beside one whose host is slow.
func TestManyAtOnce(t *testing.T) {
	p := openPool(t, sandbox.Config{Slots: 8})
	flood := flooding(printing(1, strings.Repeat("x", 5000))).wasm()
	slow := newHost(flood)
	slow.heard = make(chan sandbox.Event)
	done := make(chan sandbox.Result, 1)
	go func() {
		s := spec(flood)
		s.Limits.Output = 4 << 20
		res, err := p.Execute(t.Context(), "alice", s, slow)
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	<-slow.heard
	wasm := printing(1, "hello").wasm()
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() {
			for range 20 {
				h := newHost(wasm)
				if res, err := p.Execute(t.Context(), "alice", spec(wasm), h); err != nil || h.out("stdout") != "hello" {
					t.Errorf("Execute = %+v, %v", res, err)
				}
			}
		})
	}
	all.Wait()
	go func() {
		for range slow.heard {
		}
	}()
	if res := <-done; res.End != sandbox.OverLimit {
		t.Errorf("the slow one: %+v", res)
	}
	close(slow.heard)
}

// TestGenerate runs the language model of wasm-examples where test data is at hand.
func TestGenerate(t *testing.T) {
	dir := os.Getenv("IDLEMESH_TESTDATA")
	if dir == "" {
		t.Skip("IDLEMESH_TESTDATA is not set")
	}
	wasm := buildGenerate(t)
	h := newHost(wasm)
	s := spec(wasm)
	s.Inputs = map[string]sandbox.Input{}
	for name, file := range map[string]string{"model": "stories260K.bin", "tokenizer": "tok512.bin"} {
		b := read(t, dir, file)
		h.blobs[nameOf(b)] = b
		s.Inputs[name] = sandbox.Input{Blob: nameOf(b), Size: int64(len(b))}
	}
	prompt, want := read(t, dir, "greedy-0.prompt"), read(t, dir, "greedy-0.txt")
	s.Args = []string{"-temperature", "0", "-steps", "200", "-prompt", strings.TrimSuffix(string(prompt), "\n")}
	s.Limits.VRAM, s.Limits.Wall = 1<<30, uint64(2*time.Minute/time.Millisecond)
	res, err := openPool(t, sandbox.Config{}).Execute(t.Context(), "alice", s, h)
	if err != nil || res.Exit != 0 || res.Usage.Work == 0 || res.Usage.CPU == 0 {
		t.Fatalf("Execute = %+v, %v\n%s", res, err, h.out("stderr"))
	}
	if h.out("stdout") != string(want) {
		t.Errorf("stdout:\n%s\nwant:\n%s", h.out("stdout"), want)
	}
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "models", name))
	if err != nil {
		t.Skip(err)
	}
	return b
}
