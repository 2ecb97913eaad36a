package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"idlemesh/sandbox"
)

// fromInput is a guest that brings part of an input to the device twice, reads what len
// bytes of it are, and prints them; where it was refused it prints why.
func fromInput(path string, off, size int64, n int64) guest {
	g := printing(1, strings.Repeat(".", int(n)))
	g.data += path
	at := int64(16 + n)
	g.imports = append(g.imports, imp{"mesh_gpu_v1", "buffer_from_input", []byte{vi32, vi32, vi64, vi64}, []byte{vi32}},
		imp{"mesh_gpu_v1", "read", []byte{vi32, vi64, vi32, vi32}, []byte{vi32}},
		imp{"mesh_gpu_v1", "last_error", []byte{vi32, vi32}, []byte{vi32}})
	load := do(i32(at), i32(int64(len(path))), i64(off), i64(size), call(1))
	g.code = do(load, []byte{0x45, 0x04, 0x40}, // if it was refused
		i32(4), i32(16), i32(500), call(3), []byte{0x36, 2, 0}, []byte{0x05}, load, i64(0), i32(16), i32(n), call(2), drop, []byte{0x0b}, g.code)
	return g
}

// files are a Host's whose blobs lie on disk.
type files struct {
	*testHost
	dir string
}

func (f files) Open(name string) (io.ReaderAt, error) {
	if b, err := f.testHost.Open(name); err == nil {
		return b, nil
	}
	if name == "lost" {
		return nil, errors.New("the disk is gone")
	}
	return os.Open(filepath.Join(f.dir, name))
}

// TestBufferFromInput reads from an input that is larger than any guest's memory, a
// sparse file of 6 GiB, and is refused what lies outside.
func TestBufferFromInput(t *testing.T) {
	const size, mark = 6 << 30, 5<<30 + 12
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("beyond"), mark); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	p := openPool(t, sandbox.Config{})
	for name, tc := range map[string]struct {
		path      string
		off, size int64
		want      string
	}{
		"beyond 4 GiB":           {"w", mark, 6, "beyond"},
		"by its whole path":      {"/in/w", mark, 6, "beyond"},
		"part of a blob":         {"dir/part", 2, 6, "beyond"},
		"the rest":               {"dir/part", 2, 0, "beyond"},
		"no such file":           {"x", 0, 6, `no input "x"`},
		"a folder":               {"dir", 0, 6, `no input "dir"`},
		"up and away":            {"../w", 0, 6, "no input"},
		"no path":                {"", 0, 6, "no input"},
		"across the end":         {"w", size - 5, 6, "lie outside of input"},
		"behind the end":         {"w", size + 1, 0, "lie outside of input"},
		"before the beginning":   {"w", -1, 6, "lie outside of input"},
		"endless":                {"w", 6, -1, "lie outside of input"},
		"nothing":                {"w", size, 0, "at least one byte"},
		"of another's part":      {"dir/part", 2, 7, "lie outside of input"},
		"more than the VRAM has": {"w", 0, 0, "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := fromInput(tc.path, tc.off, tc.size, 6).wasm()
			s, h := spec(wasm), newHost(wasm)
			s.Inputs = map[string]sandbox.Input{"w": {Blob: "sparse", Size: size}, "dir/part": {Blob: "sparse", Offset: mark - 2, Size: 8}}
			res, err := p.Execute(t.Context(), "alice", s, files{h, dir})
			if err != nil || res.End != sandbox.Exited || !strings.Contains(h.out("stdout"), tc.want) {
				t.Errorf("printed %q, %+v, %v; want %q", h.out("stdout"), res, err, tc.want)
			}
		})
	}
	t.Run("a blob that cannot be read", func(t *testing.T) {
		wasm := fromInput("w", 0, 6, 6).wasm()
		s, h := spec(wasm), newHost(wasm)
		s.Inputs = map[string]sandbox.Input{"w": {Blob: "lost", Size: 6}}
		if res, err := p.Execute(t.Context(), "alice", s, files{h, dir}); err == nil {
			t.Errorf("the node is to blame, not %+v", res)
		}
	})
	t.Run("a blob that ends early", func(t *testing.T) {
		wasm := fromInput("w", 0, 6, 6).wasm()
		s, h := spec(wasm), newHost(wasm)
		h.blobs["short"] = []byte("abc")
		s.Inputs = map[string]sandbox.Input{"w": {Blob: "short", Size: 6}}
		if res, err := p.Execute(t.Context(), "alice", s, h); err == nil {
			t.Errorf("the node is to blame, not %+v", res)
		}
	})
}

// TestWarmInputs: a tenant's next run finds what the last brought to the device, for the
// same fuel; another tenant's does not, though it names it alike.
func TestWarmInputs(t *testing.T) {
	p := openPool(t, sandbox.Config{})
	run := func(tenant, content string) (string, uint64) {
		wasm := fromInput("w", 0, 6, 6).wasm()
		s, h := spec(wasm), newHost(wasm)
		h.blobs["blob"] = []byte(content)
		s.Inputs = map[string]sandbox.Input{"w": {Blob: "blob", Size: 6}}
		res, err := p.Execute(t.Context(), tenant, s, h)
		if err != nil || res.End != sandbox.Exited {
			t.Fatalf("%+v, %v", res, err)
		}
		return h.out("stdout"), res.Usage.Fuel
	}
	cold, fuel := run("alice", "secret")
	warm, again := run("alice", "differ") // a name has one content: that it was not read shows
	if cold != "secret" || warm != "secret" || fuel != again {
		t.Errorf("alice reads %q for %d fuel, then %q for %d", cold, fuel, warm, again)
	}
	if got, other := run("bob", "public"); got != "public" || other != fuel {
		t.Errorf("bob reads %q for %d fuel, want his own for %d", got, other, fuel)
	}
}

// TestPattern: what a tenant wrote to the device, no other and no later run reads.
func TestPattern(t *testing.T) {
	p := openPool(t, sandbox.Config{Slots: 2})
	const n, pages = 1 << 16, 8
	store := func() guest { // writes a pattern to as much as it gets
		g := guest{pages: 2, imports: []imp{{"mesh_gpu_v1", "alloc", []byte{vi64}, []byte{vi32}},
			{"mesh_gpu_v1", "write", []byte{vi32, vi64, vi32, vi32}, []byte{vi32}}}}
		g.code = do(i32(64), i32(0xa5), i32(n), []byte{0xfc, 0x0b, 0})
		for range pages {
			g.code = do(g.code, i64(n), call(0), i64(0), i32(64), i32(n), call(1), drop)
		}
		return g
	}().wasm()
	look := func() guest { // prints what fresh memory has
		g := printing(1, "")
		g.pages = 2
		g.imports = append(g.imports, imp{"mesh_gpu_v1", "alloc", []byte{vi64}, []byte{vi32}},
			imp{"mesh_gpu_v1", "read", []byte{vi32, vi64, vi32, vi32}, []byte{vi32}})
		print := do(i32(4), i32(n), []byte{0x36, 2, 0}, g.code)
		g.code = nil
		for range pages {
			g.code = do(g.code, i64(n), call(1), i64(0), i32(16), i32(n), call(2), drop, print)
		}
		return g
	}().wasm()
	for _, who := range []string{"alice", "bob", "alice", "bob"} {
		if res, err := p.Execute(t.Context(), "alice", spec(store), newHost(store)); err != nil || res.End != sandbox.Exited {
			t.Fatalf("%+v, %v", res, err)
		}
		h := newHost(look)
		if res, err := p.Execute(t.Context(), who, spec(look), h); err != nil || res.End != sandbox.Exited {
			t.Fatalf("%+v, %v", res, err)
		}
		got := h.out("stdout")
		if len(got) != n*pages || bytes.Contains([]byte(got), []byte{0xa5}) {
			t.Errorf("%s reads %d bytes, some of alice's: %v", who, len(got), fmt.Sprintf("%.40x", strings.TrimLeft(got, "\x00")))
		}
	}
}
