package gpu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

// A source gives a file's bytes and counts how often it was asked.
type source struct {
	io.ReaderAt
	pieces int
}

func (s *source) fill(off uint64, p []byte) error {
	s.pieces++
	_, err := s.ReadAt(p, int64(off))
	return err
}

func (s *source) load(t *testing.T, run *gpu.Session, name string, size uint64) kernel.Buffer {
	t.Helper()
	b, err := run.Load(name, size, s.fill)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLoadIsShared(t *testing.T) {
	d := gpu.New(cpu.New(4<<20), 0)
	want := bytes.Repeat([]byte("weights."), 3<<17)[:3<<20-4]
	src := &source{ReaderAt: bytes.NewReader(want)}
	a, b := d.Session(0, ref), d.Session(0, ref)
	x, y := src.load(t, a, "w", uint64(len(want))), src.load(t, b, "w", uint64(len(want)))
	if src.pieces != 3 {
		t.Errorf("read in %d pieces, want 3, once", src.pieces)
	}
	for s, h := range map[*gpu.Session]kernel.Buffer{a: x, b: y} {
		got := make([]byte, len(want))
		if err := s.Read(h, 0, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("handle %d reads something else, %v", h, err)
		}
	}
	if _, err := b.Alloc(1<<20 + 8); !errors.Is(err, gpu.ErrQuota) {
		t.Errorf("a run isn't charged what it shares: %v", err)
	}
	alloc(t, b, 1<<20)
	if _, err := b.Load("w", 8, src.fill); !errors.Is(err, gpu.ErrBuffer) && !errors.Is(err, gpu.ErrQuota) {
		t.Errorf("the same name with another size: %v", err)
	}
	if err := a.Free(x); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8)
	if err := b.Read(y, 8, got); err != nil || string(got) != "weights." {
		t.Errorf("after another run's Free: %q, %v", got, err)
	}
	b.Close()
	src.load(t, a, "w", uint64(len(want)))
	if src.pieces != 3 {
		t.Errorf("read again though it was warm: %d pieces", src.pieces)
	}
}

// TestLoadIsReadOnly lets every kernel write to an input, by each of its operands.
func TestLoadIsReadOnly(t *testing.T) {
	d := gpu.New(cpu.New(1<<20), 0)
	want := bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, 1<<10)
	src := &source{ReaderAt: bytes.NewReader(want)}
	s := d.Session(0, ref)
	defer s.Close()
	w, free := src.load(t, s, "w", 4<<10), [4]kernel.Buffer{alloc(t, s, 4<<10), alloc(t, s, 4<<10), alloc(t, s, 4<<10), alloc(t, s, 4<<10)}
	if err := s.Write(w, 0, []byte{1}); !errors.Is(err, gpu.ErrFixed) {
		t.Errorf("Write = %v, want ErrFixed", err)
	}
	refused := 0
	for _, spec := range kernel.Table {
		for at := range 4 {
			for _, m := range []uint32{1, 2, 4} {
				c := kernel.Command{Op: spec.Op, M: m, N: 4, K: 4, L: 2, Params: [10]uint32{1, 8}}
				ops := []*kernel.Operand{&c.Dst, &c.A, &c.B, &c.C}
				for i, o := range ops {
					o.Buffer = free[i]
				}
				ops[at].Buffer = w
				calm(&c)
				if _, err := s.Submit([]kernel.Command{c}); err != nil && strings.Contains(err.Error(), "read only") {
					refused++
				}
			}
		}
		got := make([]byte, len(want))
		if err := s.Read(w, 0, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s changed an input (%v)", spec.Name, err)
		}
	}
	if refused == 0 {
		t.Error("no kernel tried")
	}
	// kv_append, topk and adamw write their C too.
	c := kernel.Command{Op: kernel.TopK, M: 1, N: 8, K: 2, Dst: at(free[0], 0), A: at(free[1], 0), C: kernel.Operand{Buffer: w, Type: kernel.I32}}
	if _, err := s.Submit([]kernel.Command{c}); !errors.Is(err, kernel.ErrCommand) || !strings.Contains(err.Error(), "C is written") {
		t.Errorf("topk into an input by C: %v", err)
	}
}

// TestWarm: what nobody uses stays until its room is needed, the longest unused goes
// first, and goes zeroed.
func TestWarm(t *testing.T) {
	frees := 0
	d := gpu.New(keep{cpu.New(1 << 20), func() { frees++ }}, 4<<10)
	src := &source{ReaderAt: bytes.NewReader(make([]byte, 8<<10))}
	s := d.Session(0, ref)
	handles := map[string]kernel.Buffer{}
	for _, n := range []string{"a", "b", "c", "d"} {
		handles[n] = src.load(t, s, n, 1<<10)
	}
	for _, n := range []string{"b", "a", "d", "c"} { // the order they are left in
		if err := s.Free(handles[n]); err != nil {
			t.Fatal(err)
		}
	}
	if frees != 0 {
		t.Errorf("%d were freed that had room", frees)
	}
	alloc(t, s, 1<<10) // takes b's
	src.pieces = 0
	if src.load(t, s, "a", 1<<10); src.pieces != 0 || frees != 1 {
		t.Errorf("a was read again, or %d freed for one", frees)
	}
	if src.load(t, s, "b", 1<<10); src.pieces != 1 || frees != 2 { // takes d's
		t.Errorf("b came in %d pieces, %d freed", src.pieces, frees)
	}
	if _, err := s.Alloc(2 << 10); !errors.Is(err, gpu.ErrQuota) || frees != 2 {
		t.Errorf("more than the device has: %v, %d freed", err, frees)
	}
	s.Close()
	if d.KeepWarm(0); frees != 6 {
		t.Errorf("%d freed in the end, want all 6", frees)
	}
	if _, err := d.Session(0, ref).Alloc(4 << 10); err != nil {
		t.Errorf("something is left: %v", err)
	}
}

// TestKeepWarm: no more stays than is allowed.
func TestKeepWarm(t *testing.T) {
	d := gpu.New(cpu.New(1<<20), 0)
	d.KeepWarm(2 << 10)
	src := &source{ReaderAt: bytes.NewReader(make([]byte, 8<<10))}
	s := d.Session(0, ref)
	for i := range 8 {
		src.load(t, s, fmt.Sprint(i), 1<<10)
	}
	s.Close()
	src.pieces = 0
	s = d.Session(0, ref)
	for i := range 8 {
		src.load(t, s, fmt.Sprint(i), 1<<10)
	}
	if src.pieces != 6 {
		t.Errorf("%d of 8 were read again, want 6", src.pieces)
	}
}

// TestResize: a device that is to hold less lets go of what is warm, not of what is used,
// and gives out no more until there is room again.
func TestResize(t *testing.T) {
	d := gpu.New(cpu.New(1<<20), 8<<10)
	src := &source{ReaderAt: bytes.NewReader(make([]byte, 8<<10))}
	s := d.Session(0, ref)
	h := src.load(t, s, "warm", 2<<10)
	src.load(t, s, "used", 2<<10)
	if err := s.Free(h); err != nil {
		t.Fatal(err)
	}
	d.Resize(1 << 10)
	for name, want := range map[string]int{"used": 0, "warm": 1} {
		src.pieces = 0
		_, err := s.Load(name, 2<<10, src.fill)
		if name == "warm" && !errors.Is(err, gpu.ErrQuota) || name == "used" && err != nil || src.pieces > want {
			t.Errorf("%s, after the device shrank: %v, %d pieces read", name, err, src.pieces)
		}
	}
	if d.Resize(1 << 40); d.Quota() != 8<<10 {
		t.Errorf("the device grew to %d", d.Quota())
	}
	alloc(t, s, 2<<10)
	if _, err := d.Session(0, ref).Alloc(6 << 10); !errors.Is(err, gpu.ErrQuota) {
		t.Errorf("beyond the device: %v", err)
	}
}

// TestLoadFails: a source that ends early costs nothing, and the next one may try.
func TestLoadFails(t *testing.T) {
	d := gpu.New(cpu.New(1<<20), 0)
	s := d.Session(4<<10, ref)
	broken := errors.New("the blob is gone")
	if _, err := s.Load("w", 4<<10, func(uint64, []byte) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("Load = %v", err)
	}
	for _, size := range []uint64{0, 4<<10 + 1, 1 << 63, ^uint64(0)} {
		if _, err := s.Load("x", size, nil); err == nil {
			t.Errorf("%d bytes were let in", size)
		}
	}
	src := &source{ReaderAt: bytes.NewReader(make([]byte, 4<<10))}
	if h := src.load(t, s, "w", 4<<10); h != 1 {
		t.Errorf("handle %d after refusals, want the first", h)
	}
}

// TestLoadAtOnce: runs that want the same wait for who came first; if he is ended, another
// goes on.
func TestLoadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gpu.New(cpu.New(8<<20), 0)
		first, second := d.Session(0, ref), d.Session(0, ref)
		var wg sync.WaitGroup
		hold := make(chan struct{})
		wg.Go(func() {
			_, err := first.Load("w", 3<<20, func(off uint64, p []byte) error {
				if off > 0 {
					<-hold
				}
				return nil
			})
			if !errors.Is(err, gpu.ErrClosed) {
				t.Errorf("a Load that was ended: %v", err)
			}
		})
		synctest.Wait()
		src := &source{ReaderAt: bytes.NewReader(make([]byte, 3<<20))}
		wg.Go(func() { src.load(t, second, "w", 3<<20) })
		synctest.Wait()
		if src.pieces != 0 {
			t.Error("two load at once")
		}
		first.Close()
		close(hold)
		wg.Wait()
		if src.pieces != 3 {
			t.Errorf("the second loaded %d pieces, want 3", src.pieces)
		}
	})
}

// hollow takes any amount of bytes and keeps one in each 64 MiB.
type hollow struct {
	*cpu.Backend
	kept map[uint64]byte
	at   uint64
}

func (h *hollow) Info() kernel.Info                   { return kernel.Info{VRAM: 1 << 40} }
func (h *hollow) Alloc(uint64) (kernel.Buffer, error) { return 1, nil }
func (h *hollow) Free(kernel.Buffer)                  {}
func (h *hollow) Write(_ kernel.Buffer, off uint64, p []byte) error {
	if off != h.at {
		return fmt.Errorf("a piece at %d, want %d", off, h.at)
	}
	h.at += uint64(len(p))
	if off%(64<<20) == 0 {
		h.kept[off] = p[0]
	}
	return nil
}

// begins reads the first bytes of each piece, which saves copying gigabytes of holes.
type begins struct{ io.ReaderAt }

func (b begins) ReadAt(p []byte, off int64) (int, error) {
	if n, err := b.ReaderAt.ReadAt(p[:min(len(p), 64)], off); err != nil {
		return n, err
	}
	return len(p), nil
}

// TestLoadBeyond4GiB loads more than a guest's memory can hold, from a sparse file.
func TestLoadBeyond4GiB(t *testing.T) {
	const size = 4<<30 + 128<<20
	f, err := os.Create(filepath.Join(t.TempDir(), "weights"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	marks := []uint64{0, 64 << 20, 4<<30 - 64<<20, 4 << 30, 4<<30 + 64<<20}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for i, off := range marks {
		if _, err := f.WriteAt([]byte{byte(i + 1)}, int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	h := &hollow{Backend: cpu.New(1), kept: map[uint64]byte{}}
	src := &source{ReaderAt: begins{f}}
	src.load(t, gpu.New(h, 0).Session(0, ref), "w", size)
	if h.at != size {
		t.Errorf("%d bytes of %d came", h.at, uint64(size))
	}
	for off, b := range h.kept {
		if want := byte(slices.Index(marks, off) + 1); b != want {
			t.Errorf("at %d is %d, want %d", off, b, want)
		}
	}
}

// TestInputsFeedKernels multiplies what an input brought.
func TestInputsFeedKernels(t *testing.T) {
	s := gpu.New(cpu.New(1<<20), 0).Session(0, ref)
	in, err := binary.Append(nil, binary.LittleEndian, []float32{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	src := &source{ReaderAt: bytes.NewReader(in)}
	w, x := src.load(t, s, "w", 16), alloc(t, s, 16)
	add := kernel.Command{Op: kernel.Add, M: 1, N: 4, Dst: at(x, 0), A: at(w, 0), B: at(w, 0)}
	if _, err := s.Submit([]kernel.Command{add}); err != nil {
		t.Fatal(err)
	}
	var got [4]float32
	out := make([]byte, 16)
	if err := s.Read(x, 0, out); err != nil {
		t.Fatal(err)
	}
	if _, err := binary.Decode(out, binary.LittleEndian, &got); err != nil || got != [4]float32{2, 4, 6, 8} {
		t.Errorf("twice the input is %v, %v", got, err)
	}
}
