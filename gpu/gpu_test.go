package gpu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

var ref = kernel.Reference{FLOPS: 1e9, Bandwidth: 1e9}

func at(b kernel.Buffer, off uint64) kernel.Operand { return kernel.Operand{Buffer: b, Offset: off} }

func alloc(t *testing.T, s *gpu.Session, size uint64) kernel.Buffer {
	t.Helper()
	b, err := s.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOpen(t *testing.T) {
	for name, want := range map[string]string{"": "cpu", "cpu": "cpu", "sim:t4": "t4"} {
		d, err := gpu.Open(name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Info().Model; got != want {
			t.Errorf("Open(%q) is a %s, want %s", name, got, want)
		}
		d.Close()
	}
	for _, name := range []string{"cuda:0", "sim:", "sim:none", "cpu:1"} {
		if _, err := gpu.Open(name, 0); err == nil || !strings.Contains(err.Error(), name[:3]) {
			t.Errorf("Open(%q) = %v, want an error that says what there is", name, err)
		}
	}
}

func TestQuotas(t *testing.T) {
	d := gpu.New(cpu.New(1<<20), 4096)
	a, b := d.Session(3072, ref), d.Session(0, ref)
	first := alloc(t, a, 2000)
	if _, err := a.Alloc(1025); !errors.Is(err, gpu.ErrQuota) {
		t.Errorf("beyond the session's quota: %v", err)
	}
	if _, err := b.Alloc(2049); !errors.Is(err, gpu.ErrQuota) {
		t.Errorf("beyond what the other session left: %v", err)
	}
	for _, size := range []uint64{math.MaxUint64, math.MaxUint64 - 300, 1 << 63} {
		if _, err := b.Alloc(size); !errors.Is(err, gpu.ErrQuota) {
			t.Errorf("%d bytes: %v, want ErrQuota", size, err)
		}
	}
	if _, err := b.Alloc(0); err == nil {
		t.Error("an empty buffer was given out")
	}
	if err := a.Free(first); err != nil {
		t.Fatal(err)
	}
	alloc(t, b, 4096)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	alloc(t, a, 3072)
}

func TestTinyBuffersAreNotFree(t *testing.T) {
	s := gpu.New(cpu.New(1<<20), 0).Session(1<<16, ref)
	n := 0
	for ; n < 1000; n++ {
		if _, err := s.Alloc(1); err != nil {
			break
		}
	}
	if n != 256 {
		t.Errorf("%d buffers of a byte in 64 KiB, want 256", n)
	}
}

func TestHandlesAreOnesOwnAndNotUsedAgain(t *testing.T) {
	d := gpu.New(cpu.New(1<<20), 0)
	a, b := d.Session(0, ref), d.Session(0, ref)
	one, two := alloc(t, a, 8), alloc(t, a, 8)
	mine := alloc(t, b, 8)
	if mine != one {
		t.Errorf("the first handle of a session is %d, then %d: a run would not repeat", one, mine)
	}
	if err := b.Write(mine, 0, []byte("secret!!")); err != nil {
		t.Fatal(err)
	}
	if err := b.Read(two, 0, make([]byte, 8)); !errors.Is(err, gpu.ErrBuffer) {
		t.Errorf("reading another run's handle: %v", err)
	}
	if _, err := b.Submit([]kernel.Command{{Op: kernel.Fill, M: 1, N: 1, Dst: at(two, 0)}}); !errors.Is(err, kernel.ErrCommand) {
		t.Errorf("filling another run's handle: %v", err)
	}
	if err := a.Free(two); err != nil {
		t.Fatal(err)
	}
	if again := alloc(t, a, 8); again == two || again == one {
		t.Errorf("handle %d was given out twice", again)
	}
	for name, err := range map[string]error{"twice": a.Free(two), "none": a.Free(0), "write": a.Write(two, 0, nil)} {
		if !errors.Is(err, gpu.ErrBuffer) {
			t.Errorf("%s: %v, want ErrBuffer", name, err)
		}
	}
}

func TestBounds(t *testing.T) {
	s := gpu.New(cpu.New(1<<20), 0).Session(0, ref)
	b := alloc(t, s, 10)
	for _, tc := range []struct {
		off uint64
		n   int
		ok  bool
	}{{0, 10, true}, {10, 0, true}, {4, 6, true}, {4, 7, false}, {11, 0, false}, {math.MaxUint64, 1, false}, {math.MaxUint64 - 3, 8, false}} {
		p := make([]byte, tc.n)
		if r, w := s.Read(b, tc.off, p), s.Write(b, tc.off, p); (r == nil) != tc.ok || (w == nil) != tc.ok {
			t.Errorf("%d bytes at %d: read %v, write %v", tc.n, tc.off, r, w)
		}
	}
}

// keep is a backend that lets a test look at memory after it was freed.
type keep struct {
	*cpu.Backend
	freed func()
}

func (k keep) Free(b kernel.Buffer) {
	k.Backend.Free(b)
	k.freed()
}

func TestMemoryComesAndGoesZeroed(t *testing.T) {
	frees := 0
	d := gpu.New(keep{cpu.New(1 << 20), func() { frees++ }}, 0)
	s := d.Session(0, ref)
	for range 50 {
		b := alloc(t, s, 4096)
		p := make([]byte, 4096)
		if err := s.Read(b, 0, p); err != nil || !bytes.Equal(p, make([]byte, 4096)) {
			t.Fatalf("a new buffer is not zero (%v)", err)
		}
		s.Write(b, 0, bytes.Repeat([]byte{7}, 4096))
		s.Free(b)
	}
	alloc(t, s, 1)
	alloc(t, s, 1)
	s.Close()
	if frees != 52 {
		t.Errorf("%d buffers freed, want 52", frees)
	}
}

func TestAllOrNone(t *testing.T) {
	s := gpu.New(cpu.New(1<<20), 0).Session(0, ref)
	b := alloc(t, s, 16)
	fill := kernel.Command{Op: kernel.Fill, M: 1, N: 4, Dst: at(b, 0), Params: [10]uint32{1}}
	bad := fill
	bad.N = 5
	if _, err := s.Submit([]kernel.Command{fill, bad}); !errors.Is(err, kernel.ErrCommand) || !strings.Contains(err.Error(), "command 1") {
		t.Fatalf("Submit = %v, want a refusal of command 1", err)
	}
	p := make([]byte, 16)
	if s.Read(b, 0, p); !bytes.Equal(p, make([]byte, 16)) {
		t.Error("the first command of a refused list ran")
	}
	if got := s.Spent(); got != (kernel.Spent{}) {
		t.Errorf("a refused list costs %+v", got)
	}
	if fill.Dst.Buffer != b {
		t.Error("Submit changed the caller's commands")
	}
}

func TestMeter(t *testing.T) {
	s := gpu.New(cpu.New(1<<20), 0).Session(0, kernel.Reference{FLOPS: 3e9, Bandwidth: 7e9})
	b, c := alloc(t, s, 400), alloc(t, s, 400)
	add := kernel.Command{Op: kernel.Add, M: 1, N: 10, Dst: at(b, 0), A: at(b, 0), B: at(c, 0)}
	for i := range 5 {
		ev, err := s.Submit([]kernel.Command{add, add})
		if err != nil || ev != kernel.Event(i+1) {
			t.Fatalf("event %d, %v, want %d", ev, err, i+1)
		}
		if err := s.Wait(t.Context(), ev); err != nil {
			t.Error(err)
		}
	}
	got := s.Spent()
	// Ten times 120 bytes at 7 GB/s: 17,142 ps each, cut off once at the end.
	if got.FLOP != 100 || got.Bytes != 1200 || got.Work != 171 || got.Busy == 0 {
		t.Errorf("Spent = %+v, want 100 FLOP, 1200 bytes, 171 ns and a busy time", got)
	}
	for _, ev := range []kernel.Event{0, 6} {
		if err := s.Wait(t.Context(), ev); err == nil {
			t.Errorf("Wait(%d) waits for nothing", ev)
		}
	}
}

// eager says when a launch begins.
type eager struct {
	*cpu.Backend
	begun chan struct{}
}

func (e eager) Launch(stop <-chan struct{}, cmds []kernel.Command) error {
	close(e.begun)
	return e.Backend.Launch(stop, cmds)
}

func TestCloseEndsARunningList(t *testing.T) {
	begun := make(chan struct{})
	s := gpu.New(eager{cpu.New(64 << 20), begun}, 0).Session(0, ref)
	a, b, c := alloc(t, s, 1<<22), alloc(t, s, 1<<22), alloc(t, s, 1<<22)
	gemm := kernel.Command{Op: kernel.Gemm, M: 1024, N: 1024, K: 1024, Dst: at(c, 0), A: at(a, 0), B: at(b, 0)}
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { _, err = s.Submit(slices.Repeat([]kernel.Command{gemm}, 30)) })
	<-begun
	s.Close()
	wg.Wait()
	if !errors.Is(err, cpu.ErrStopped) {
		t.Errorf("Submit = %v, want an end by Close", err)
	}
	if s.Spent().FLOP != 30<<31 {
		t.Errorf("a list that was begun is metered at %d FLOP", s.Spent().FLOP)
	}
	if _, err := s.Alloc(1); !errors.Is(err, gpu.ErrClosed) {
		t.Errorf("Alloc after Close = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestSessionsAtOnce(t *testing.T) {
	d := gpu.New(cpu.New(1<<20), 0)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s := d.Session(0, ref)
			defer s.Close()
			for n := range 50 {
				b, err := s.Alloc(64)
				if err != nil {
					t.Error(err)
					return
				}
				word := uint32(i<<16 | n)
				if _, err := s.Submit([]kernel.Command{{Op: kernel.Fill, M: 4, N: 4, Dst: at(b, 0), Params: [10]uint32{word}}}); err != nil {
					t.Error(err)
				}
				p := make([]byte, 64)
				if err := s.Read(b, 0, p); err != nil || binary.LittleEndian.Uint32(p[60:]) != word {
					t.Errorf("session %d reads %x, %v", i, p[60:], err)
				}
				s.Free(b)
			}
		})
	}
	wg.Wait()
	if _, err := d.Session(0, ref).Alloc(1 << 20); err != nil {
		t.Errorf("closed sessions left memory taken: %v", err)
	}
}

// BenchmarkSubmit is the host's part of a small kernel call: reading it, checking it,
// counting what it costs and finding its operands.
func BenchmarkSubmit(b *testing.B) {
	s := gpu.New(cpu.New(0), 0).Session(0, ref)
	defer s.Close()
	h, _ := s.Alloc(64)
	var guest []byte
	for range kernel.MaxCommands {
		c := kernel.Command{Op: kernel.Fill, M: 1, N: 1, Dst: kernel.Operand{Buffer: h}}
		guest, _ = binary.Append(guest, binary.LittleEndian, c)
	}
	cmds := make([]kernel.Command, kernel.MaxCommands)
	b.ReportAllocs()
	for b.Loop() {
		n, err := kernel.Decode(cmds, guest)
		if err == nil {
			_, err = s.Submit(cmds[:n])
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N*kernel.MaxCommands), "ns/command")
	b.ReportMetric(0, "ns/op")
}
