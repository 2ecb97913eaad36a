package ledger

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger/record"
)

// slots opens fresh slots in memory.
func slots(t testing.TB) (*vfs.MemFS, *kept) {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("d", 0o700); err != nil {
		t.Fatal(err)
	}
	k, err := openKept(fs, "d", -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
	return fs, k
}

// TestKeptSlots writes heads and damages the newest: the one before it is left.
func TestKeptSlots(t *testing.T) {
	fs, k := slots(t)
	if _, slot, err := readKept(fs, "d"); slot != -1 || err != nil {
		t.Errorf("fresh: slot %d, %v", slot, err)
	}
	for size := range uint64(5) {
		batch := []record.Raw{bytes.Repeat([]byte{byte(size)}, int(size)*40_000)}
		if err := k.write(keptHead{Size: size, Batch: batch}); err != nil {
			t.Fatal(err)
		}
		best, slot, err := readKept(fs, "d")
		if err != nil || best.Size != size || slot != int(size%2) || !bytes.Equal(best.Batch[0], batch[0]) {
			t.Errorf("after size %d: size %d in slot %d, %v", size, best.Size, slot, err)
		}
	}
	for at := range int64(keptFixed + 40) {
		f := k.files[0] // of size 4
		was := make([]byte, 1)
		if _, err := f.ReadAt(was, at); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{was[0] ^ 4}, at); err != nil {
			t.Fatal(err)
		}
		if best, slot, err := readKept(fs, "d"); err != nil || best.Size != 3 || slot != 1 {
			t.Errorf("byte %d flipped: size %d in slot %d, %v", at, best.Size, slot, err)
		}
		if _, err := f.WriteAt(was, at); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzKept(f *testing.F) {
	fs, k := slots(f)
	if err := k.write(keptHead{Size: 3, Before: 2, Batch: []record.Raw{{1, 2, 3}}}); err != nil {
		f.Fatal(err)
	}
	b, err := readFile(fs, keptName(fs, "d", 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:200])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := parseKept(b)
		if !ok {
			return
		}
		again, err := record.Encode(h)
		if err != nil || !bytes.Contains(b, again) {
			t.Errorf("read %+v, which is not in the file: %v", h, err)
		}
	})
}
