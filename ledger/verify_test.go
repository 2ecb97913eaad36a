package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// fill makes a ledger of a few jobs and closes it.
func (w *world) fill(t testing.TB, fs vfs.FS, jobs int) {
	t.Helper()
	l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(fs))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, l, w.deposit(record.Credit))
	for range jobs {
		raws, _ := w.whole()
		apply(t, l, raws...)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	w := newWorld()
	fs := vfs.NewMem()
	w.fill(t, fs, 300)
	l, err := ledger.OpenReadOnly("mesh", w.mesh, w.config(fs))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var told uint64
	rep, err := l.Verify(t.Context(), func(done, total uint64) { told = done })
	if err != nil || rep.Entries != 901 || rep.Head.Size != 901 || told != 901 || rep.Keys < 901*10 {
		t.Errorf("Verify = %+v, %v; told %d", rep, err, told)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Verify(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}

// TestVerifyFinds changes each kind of key behind the ledger's back, as a thief would,
// with checksums that are right.
func TestVerifyFinds(t *testing.T) {
	w := newWorld()
	fs := vfs.NewMem()
	w.fill(t, fs, 3)
	for _, prefix := range []string{"e/", "t/", "h/", "a/", "k/", "c/", "j/", "l/", "n/", "y/", "d/", "s/b/", "s/q/", "s/j/", "s/t/", "s/l/", "s/x/", "s/d/"} {
		for how, change := range map[string]func(db *pebble.DB, k, v []byte) error{
			"changed": func(db *pebble.DB, k, v []byte) error {
				v[len(v)/2] ^= 1
				return db.Set(k, v, pebble.Sync)
			},
			"missing": func(db *pebble.DB, k, v []byte) error { return db.Delete(k, pebble.Sync) },
			"extra": func(db *pebble.DB, k, v []byte) error {
				k[len(k)/2+1] ^= 1
				return db.Set(k, v, pebble.Sync)
			},
		} {
			t.Run(prefix+how, func(t *testing.T) {
				copied := cloneFS(t, fs)
				tamper(t, copied, prefix, change)
				l, err := ledger.OpenReadOnly("mesh", w.mesh, w.config(copied))
				if err == nil {
					_, err = l.Verify(t.Context(), nil)
					l.Close()
				}
				if !errors.Is(err, ledger.ErrCorrupt) {
					t.Errorf("%s %s: %v", prefix, how, err)
				}
			})
		}
	}
}

// tamper changes the second key under a prefix, or the first if there is one only.
func tamper(t *testing.T, fs vfs.FS, prefix string, change func(db *pebble.DB, k, v []byte) error) {
	db, err := pebble.Open(fs.PathJoin("mesh", "store"), &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: append([]byte(prefix), 0xff)})
	if err != nil {
		t.Fatal(err)
	}
	it.First()
	k, v := append([]byte(nil), it.Key()...), append([]byte(nil), it.Value()...)
	if it.Next() {
		k, v = append([]byte(nil), it.Key()...), append([]byte(nil), it.Value()...)
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if len(v) == 0 {
		v = []byte{0}
	}
	if err := change(db, k, v); err != nil {
		t.Fatal(err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// cloneFS copies the files of a ledger.
func cloneFS(t testing.TB, from vfs.FS) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	for _, dir := range []string{"mesh", "mesh/store"} {
		if err := to.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		names, err := from.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if path := dir + "/" + name; path != "mesh/store" && name != "ballast" {
				if err := vfs.CopyAcrossFS(from, path, to, path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return to
}
