package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// place puts raws at a mark of an order.
func place(t testing.TB, l *ledger.Ledger, mark uint64, at record.Millis, raws ...record.Raw) {
	t.Helper()
	outs, err := l.Place(ledger.Check(raws), ledger.Place{Mark: mark, Time: at})
	if err != nil || outs[len(outs)-1].Err != nil {
		t.Fatalf("place %d: %+v, %v", mark, outs, err)
	}
}

// TestPlace: equal batches at equal places make equal ledgers, whatever the clocks say,
// and each is placed once, over a restart too.
func TestPlace(t *testing.T) {
	w := newWorld()
	fs := [2]*vfs.MemFS{vfs.NewMem(), vfs.NewMem()}
	a, b := w.open(t, fs[0]), must(ledger.Open("mesh", w.mesh, w.keeper, ledger.Config{FS: fs[1], Now: func() time.Time { return time.Unix(1, 0) }}))
	one, two := w.deposit(1), w.deposit(2)
	for _, l := range []*ledger.Ledger{a, b} {
		place(t, l, 7, 5000, one)
		place(t, l, 9, 4000, two) // time does not go back
	}
	if a.Head().Root != b.Head().Root || a.Time() != 5000 || a.Mark() != 9 {
		t.Errorf("%+v at %d and %d, %+v", a.Head(), a.Time(), a.Mark(), b.Head())
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = must(ledger.Open("mesh", w.mesh, w.keeper, w.config(fs[1])))
	defer b.Close()
	for mark := range uint64(9) {
		if _, err := b.Place(ledger.Check([]record.Raw{w.deposit(3)}), ledger.Place{Mark: mark + 1}); !errors.Is(err, ledger.ErrPlaced) {
			t.Errorf("place %d again: %v", mark+1, err)
		}
	}
	if rep, err := b.Verify(t.Context(), nil); err != nil || rep.Entries != 2 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}

// TestReplaceRefuses: a copy that is not the same log, longer, is never put in place.
func TestReplaceRefuses(t *testing.T) {
	w := newWorld()
	long := w.open(t, vfs.NewMem())
	for range 8 {
		apply(t, long, w.deposit(1))
	}
	other := newWorld() // with the same keys
	for name, tc := range map[string]struct {
		have []record.Raw // that the ledger has
		head func() tree.Head
	}{
		"another log":           {have: []record.Raw{other.deposit(99)}, head: long.Head},
		"another head":          {head: func() tree.Head { return tree.Head{Size: 8, Root: record.Ref{1}} }},
		"shorter than its head": {head: func() tree.Head { return tree.Head{Size: 9} }},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			l := w.open(t, fs)
			if tc.have != nil {
				apply(t, l, tc.have...)
			}
			before := l.Head()
			from := copyOf(t, long, fs)
			if err := l.Replace(from, tc.head()); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("Replace: %v", err)
			}
			if l.Head() != before {
				t.Errorf("the ledger is now %+v", l.Head())
			}
		})
	}
}

// copyOf writes a checkpoint of l to another file system, and returns where.
func copyOf(t *testing.T, l *ledger.Ledger, fs *vfs.MemFS) string {
	t.Helper()
	const name = "copy"
	src := ledger.FilesOf(l)
	if err := src.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(name); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.Clone(src, fs, name, name, vfs.CloneSync); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestReplaceCrash stops the machine at each file operation of a Replace: the ledger
// opens as it was or as the copy is, and goes on.
func TestReplaceCrash(t *testing.T) {
	w := newWorld()
	long := w.open(t, vfs.NewMem())
	mem := vfs.NewCrashableMem()
	var (
		mu    sync.Mutex
		on    bool
		ops   int
		sizes = map[uint64]int{}
	)
	rng := rand.New(rand.NewPCG(1, 2))
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if !on {
			return nil
		}
		ops++
		for _, kept := range []int{0, 50, 50, 50, 100} {
			l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rng})))
			if err != nil {
				t.Errorf("at %s: %v", op.Path, err)
				continue
			}
			sizes[l.Head().Size]++
			if _, err := l.Verify(t.Context(), nil); err != nil {
				t.Errorf("at %s: %v", op.Path, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		return nil
	}))
	l := w.open(t, fs)
	for i := range 12 {
		raw := w.deposit(1)
		place(t, long, uint64(i+1), 5000, raw)
		if i < 4 {
			place(t, l, uint64(i+1), 5000, raw)
		}
	}
	from := copyOf(t, long, mem)
	mu.Lock()
	on = true
	mu.Unlock()
	if err := l.Replace(from, long.Head()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	on = false
	mu.Unlock()
	if l.Head().Root != long.Head().Root || l.Mark() != 12 {
		t.Errorf("now %+v at %d", l.Head(), l.Mark())
	}
	if len(sizes) != 2 || sizes[4] == 0 || sizes[12] == 0 || ops < 10 {
		t.Errorf("%d crashes left ledgers of %s", ops, fmt.Sprint(sizes))
	}
	place(t, l, 13, 6000, w.deposit(1))
}
