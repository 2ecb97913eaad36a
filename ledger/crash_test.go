package ledger_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// history is what a run acknowledged: the root at each size that was a head.
type history struct {
	mu    sync.Mutex // several goroutines of the ledger write files at once
	roots map[uint64]record.Ref
	acked uint64
	last  func() // called before the ledger is closed, if set
}

func (h *history) ack(head record.Ref, size uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.roots[size], h.acked = head, size
}

// appends runs n jobs through a fresh ledger in fs until an error, and tells h.
func (w *world) appends(fs vfs.FS, n int, h *history) error {
	c := w.config(fs)
	c.MemTable = 64 << 10 // so that it is flushed now and then
	l, err := ledger.Open("mesh", w.mesh, w.keeper, c)
	if err != nil {
		return err
	}
	batches := [][]record.Raw{{w.deposit(record.Credit)}}
	for range n {
		raws, _ := w.whole()
		batches = append(batches, raws[:1], raws[1:])
	}
	for _, b := range batches {
		outs, err := l.Apply(b)
		if err == nil {
			err = outs[len(outs)-1].Err
		}
		if err != nil {
			return errors.Join(err, l.Close())
		}
		h.ack(l.Head().Root, l.Head().Size)
	}
	if h.last != nil {
		h.last()
	}
	return l.Close()
}

// check opens what a crash left and reports what is wrong with it.
func (w *world) check(t *testing.T, fs vfs.FS, h *history, what string) {
	t.Helper()
	l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(fs))
	if err != nil {
		t.Errorf("%s: %d entries were acknowledged: %v", what, h.acked, err)
		return
	}
	defer l.Close()
	head := l.Head()
	if root, ok := h.roots[head.Size]; head.Size < h.acked || ok && root != head.Root {
		t.Errorf("%s: size %d where %d were acknowledged", what, head.Size, h.acked)
	}
	if _, err := l.Verify(t.Context(), nil); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	mint := public(w.mint).ID()
	seq, err := l.NextSeq(mint, record.Ref{})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	next := must(record.Sign(w.mint, record.Entry{V: 1, Kind: record.TypeDeposit, Seq: seq, Idem: record.Ref{1}, Deposit: &record.Deposit{
		To: mint, Amount: 1, External: "after it",
	}}))
	apply(t, l, next.Raw())
}

// TestCrash stops the machine at each file operation of a run, with none, half and all
// of what was not synced on disk. IDLEMESH_LONG=1 takes 500 appends, not 16.
func TestCrash(t *testing.T) {
	jobs := 8
	if os.Getenv("IDLEMESH_LONG") != "" {
		jobs = 250
	}
	w := newWorld()
	rng := rand.New(rand.NewPCG(1, 2))
	mem := vfs.NewCrashableMem()
	h := history{roots: map[uint64]record.Ref{}}
	ops := 0
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return nil
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		ops++
		for _, kept := range []int{0, 50, 100} {
			left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rng})
			w.check(t, left, &h, op.Path)
		}
		return nil
	}))
	if err := w.appends(fs, jobs, &h); err != nil {
		t.Fatal(err)
	}
	if h.acked != uint64(3*jobs+1) || ops < 100 {
		t.Errorf("acknowledged %d in %d operations", h.acked, ops)
	}
}

// TestDiskError lets each write of a run fail, once with an error of the disk and once
// for want of room: the append returns, and nothing acknowledged is lost.
func TestDiskError(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for at := 1; ; at += 1 + at/16 {
			w := newWorld()
			mem := vfs.NewCrashableMem()
			h := history{roots: map[uint64]record.Ref{}}
			ops := 0
			fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
					return nil
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				if ops++; ops == at {
					return &os.PathError{Op: "write", Path: op.Path, Err: cause}
				}
				return nil
			}))
			err := w.appends(fs, 6, &h)
			h.mu.Lock() // a write that hangs may go on
			all := ops
			h.mu.Unlock()
			if all < at {
				break
			}
			if err != nil && !strings.Contains(err.Error(), cause.Error()) && !errors.Is(err, ledger.ErrFull) {
				t.Errorf("operation %d: %v does not name %v", at, err, cause)
			}
			if left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0}); h.acked > 0 {
				w.check(t, left, &h, "after an error of the disk")
			}
		}
	}
}

// TestFlip flips bits all over each file of a ledger: it is repaired or refused, never
// shorter, and never changed by the refusal. IDLEMESH_LONG=1 flips 500 a file, not 24.
func TestFlip(t *testing.T) {
	w := newWorld()
	mem := vfs.NewCrashableMem()
	h := history{roots: map[uint64]record.Ref{}}
	var live *vfs.MemFS // files as they are when the machine stops in mid-run
	h.last = func() {
		live = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	}
	if err := w.appends(mem, 20, &h); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, dir := range []string{"mesh", "mesh/store"} {
		names, err := live.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		for _, name := range names {
			if path := dir + "/" + name; path != "mesh/store" && name != "LOCK" && name != "ballast" {
				t.Run(name, func(t *testing.T) { w.flips(t, live, path, &h, rng) })
			}
		}
	}
}

func (w *world) flips(t *testing.T, from *vfs.MemFS, path string, h *history, rng *rand.Rand) {
	size := len(readAll(t, from, path))
	refused, whole, many := 0, 0, 24
	if os.Getenv("IDLEMESH_LONG") != "" {
		many = 500
	}
	for range min(size, many) {
		fs := cloneFS(t, from)
		b := readAll(t, fs, path)
		b[rng.IntN(used(b))] ^= 1 << rng.IntN(8)
		writeAll(t, fs, path, b)
		before, err := fs.List("mesh/store")
		if err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(fs))
		if err == nil {
			if l.Head().Size < h.acked {
				t.Errorf("opened with %d of %d entries", l.Head().Size, h.acked)
			}
			_, err = l.Verify(t.Context(), nil)
			l.Close()
		} else if after, _ := fs.List("mesh/store"); len(after) != len(before) {
			t.Errorf("the refusal changed the files: %v to %v", before, after)
		}
		switch {
		case err == nil:
			whole++
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("not one line: %v", err)
		case errors.Is(err, ledger.ErrCorrupt):
			refused++
		default:
			t.Errorf("flipped %s: %v", path, err)
		}
	}
	t.Logf("%s, %d bytes: %d whole, %d refused", path, size, whole, refused)
}

// used is how much of a file is not the zeros that it was given ahead.
func used(b []byte) int {
	for i := len(b); i > 0; i-- {
		if b[i-1] != 0 {
			return i
		}
	}
	return max(len(b), 1)
}

func readAll(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
		t.Fatal(err)
	}
	return b
}

func writeAll(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(slices.Clone(b)); err != nil {
		t.Fatal(err)
	}
}
