package ledger_test

import (
	"errors"
	"os"
	"path"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// A smallDisk says how much room there is.
type smallDisk struct {
	vfs.FS
	free atomic.Uint64
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load(), TotalBytes: 1 << 40}, nil
}

func TestDiskFull(t *testing.T) {
	w := newWorld()
	disk := &smallDisk{FS: vfs.NewMem()}
	disk.free.Store(1 << 30)
	l := w.open(t, disk)
	apply(t, l, w.deposit(5))
	if st, err := disk.Stat("mesh/ballast"); err != nil || st.Size() == 0 {
		t.Errorf("ballast: %v, %v", st, err)
	}
	disk.free.Store(63 << 20)
	next := w.deposit(6)
	for range 3 {
		if _, err := l.Apply([]record.Raw{next}); !errors.Is(err, ledger.ErrFull) {
			t.Errorf("append to a full disk: %v", err)
		}
	}
	if _, err := disk.Stat("mesh/ballast"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ballast was not given up: %v", err)
	}
	if got := rows(t, l, ledger.Query{}); len(got) != 1 {
		t.Errorf("a full disk shows %d entries", len(got))
	}
	disk.free.Store(1 << 30)
	apply(t, l, next)
}

// TestNoRoom lets every write of the WAL fail for want of room, though the disk said
// that there was some: the append returns soon, and what waits is written when there
// is room again.
func TestNoRoom(t *testing.T) {
	w := newWorld()
	var full atomic.Bool
	disk := &smallDisk{FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpRemove && path.Ext(op.Path) == ".log" {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	}))}
	disk.free.Store(1 << 30)
	l := w.open(t, disk)
	apply(t, l, w.deposit(5))
	full.Store(true)
	next := w.deposit(6)
	begin := time.Now()
	if _, err := l.Apply([]record.Raw{next}); !errors.Is(err, ledger.ErrFull) {
		t.Fatalf("append without room: %v", err)
	}
	t.Logf("refused after %v", time.Since(begin))
	full.Store(false)
	for { // the commit that waited goes on by itself, so this is known in the end
		outs, err := l.Apply([]record.Raw{next})
		if errors.Is(err, ledger.ErrFull) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil || !outs[0].Known || outs[0].Index != 1 {
			t.Fatalf("append with room again: %+v, %v", outs, err)
		}
		break
	}
	if rep, err := l.Verify(t.Context(), nil); err != nil || rep.Entries != 2 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}

// TestCloseWithoutRoom closes a ledger whose commit waits for room.
func TestCloseWithoutRoom(t *testing.T) {
	w := newWorld()
	var full atomic.Bool
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite && path.Ext(op.Path) == ".log" {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	}))
	l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(fs))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, l, w.deposit(5))
	full.Store(true)
	if _, err := l.Apply([]record.Raw{w.deposit(6)}); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("append without room: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("Close: %v", err)
	}
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	again, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(left))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := again.Head().Size; n != 1 && n != 2 {
		t.Errorf("%d entries are left", n)
	}
}

// TestRotInUse damages a table under a running ledger: it refuses from the moment it
// notices, and the process lives.
func TestRotInUse(t *testing.T) {
	w := newWorld()
	mem := vfs.NewMem()
	w.fill(t, mem, 120)
	names, err := mem.List("mesh/store")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(mem))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range names {
		if path.Ext(name) == ".sst" {
			f, err := mem.OpenReadWrite("mesh/store/"+name, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			for at := int64(0); at < 1<<20; at += 97 {
				if _, err := f.WriteAt([]byte{0xff}, at); err != nil {
					t.Fatal(err)
				}
			}
			f.Close()
		}
	}
	if _, err := l.Verify(t.Context(), nil); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("Verify: %v", err)
	}
	if _, err := l.Apply([]record.Raw{w.deposit(1)}); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("Apply: %v", err)
	}
	if _, err := l.Entry(0); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("Entry: %v", err)
	}
}

func TestOpenOnFullDisk(t *testing.T) {
	w := newWorld()
	var full atomic.Bool
	disk := &smallDisk{FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && path.Ext(op.Path) == ".log" && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return &os.PathError{Op: "create", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	}))}
	if _, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(disk)); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("with no room: %v", err)
	}
	disk.free.Store(1 << 30)
	full.Store(true)
	if _, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(disk)); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("with none for the WAL: %v", err)
	}
}
