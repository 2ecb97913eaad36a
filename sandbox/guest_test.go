package sandbox_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"idlemesh/sandbox"
)

// goGuest builds testdata/guest once.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "m.wasm")
	cmd := exec.Command("go", "build", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, b)
	}
	return os.ReadFile(out)
})

func runGuest(t *testing.T, p *sandbox.Pool, mode string, change func(*sandbox.Spec)) (sandbox.Result, *testHost) {
	t.Helper()
	wasm, err := goGuest()
	if err != nil {
		t.Skip("no guest: ", err)
	}
	h := newHost(wasm)
	h.blobs["a"], h.blobs["pack"] = []byte("alpha"), []byte("....beta....")
	s := spec(wasm)
	s.Args, s.Env = []string{mode}, map[string]string{"MESH_SHARD_INDEX": "0"}
	s.Inputs = map[string]sandbox.Input{"a.txt": {Blob: "a", Size: 5}, "dir/b.txt": {Blob: "pack", Offset: 4, Size: 4}}
	if change != nil {
		change(&s)
	}
	res, err := p.Execute(t.Context(), "alice", s, h)
	if err != nil {
		t.Fatal(err)
	}
	return res, h
}

func guestPool(t *testing.T) *sandbox.Pool {
	if testing.Short() {
		t.Skip("builds a Go guest")
	}
	return openPool(t, sandbox.Config{Dir: filepath.Join(t.TempDir(), "cache")})
}

func TestRepeatable(t *testing.T) {
	p := guestPool(t)
	first, a := runGuest(t, p, "repeat", nil)
	_, b := runGuest(t, p, "repeat", nil)
	if first.End != sandbox.Exited || first.Exit != 0 {
		t.Fatalf("run: %+v\n%s", first, a.out("stderr"))
	}
	for _, name := range slices.Sorted(maps.Keys(a.outs)) {
		if a.out(name) != b.out(name) {
			t.Errorf("%s differs:\n%s\n%s", name, a.out(name), b.out(name))
		}
	}
	if !strings.HasPrefix(a.out("stdout"), "2023-11-14T22:13:20.00") {
		t.Errorf("the clock starts elsewhere: %s", a.out("stdout"))
	}
	want := []string{"stdout", "out/relative", "out/sub-first", "out/sub/deep/x"}
	if got := a.order; !slices.Equal(got, want) {
		t.Errorf("outputs %q, want %q", got, want)
	}
	_, c := runGuest(t, p, "repeat", func(s *sandbox.Spec) { s.Seed = []byte(strings.Repeat("s", 32)) })
	if c.out("stdout") == a.out("stdout") {
		t.Error("another seed makes no difference")
	}
}

func TestFiles(t *testing.T) {
	res, h := runGuest(t, guestPool(t), "files", nil)
	if res.End != sandbox.Exited || res.Exit != 0 || h.out("stdout") != "ok\n" {
		t.Fatalf("run: %+v\n%s", res, h.out("stderr"))
	}
	if len(h.out("out/f")) != 200_004 || h.closed["out/f"] != 1 {
		t.Errorf("out/f has %d bytes, closed %d times", len(h.out("out/f")), h.closed["out/f"])
	}
}

func TestGuestLimits(t *testing.T) {
	p := guestPool(t)
	for mode, want := range map[string]string{"many": "limit of files", "hog": "memory limit"} {
		t.Run(mode, func(t *testing.T) {
			res, h := runGuest(t, p, mode, nil)
			if res.End != sandbox.OverLimit || !strings.Contains(res.Error, want) {
				t.Errorf("run: %+v\n%.300s", res, h.out("stderr"))
			}
		})
	}
}
