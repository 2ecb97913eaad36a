package blob

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"idlemesh/ledger/record"
)

func openDisk(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, nil, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestDiskFull lets every write end half-way.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	ok, err := s.PutBytes([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	s.log.write = func(f *os.File, b []byte, off int64) (int, error) {
		n, _ := f.WriteAt(b[:len(b)/2], off)
		return n, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	for _, n := range []int{100, 100_000, 3 << 20} {
		b := bytes.Repeat([]byte{7}, n)
		if _, _, err := s.Put(t.Context(), bytes.NewReader(b)); !errors.Is(err, ErrFull) {
			t.Errorf("Put of %d bytes = %v, want ErrFull", n, err)
		}
		if _, err := s.PutBytes(b); !errors.Is(err, ErrFull) || s.Has(Sum(b)) {
			t.Errorf("PutBytes of %d bytes = %v, want ErrFull", n, err)
		}
	}
	if err := s.Pin(ok, 5); !errors.Is(err, ErrFull) {
		t.Errorf("Pin = %v, want ErrFull", err)
	}
	s.log.write = (*os.File).WriteAt
	again, err := s.PutBytes([]byte("after"))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(left) != 0 {
		t.Errorf("left in tmp: %v", left)
	}
	if s.used != 2*recHead+int64(len("before")+len("after")) {
		t.Errorf("%d bytes counted", s.used)
	}
	s.Close()
	s = openDisk(t, dir)
	if !s.Has(ok) || !s.Has(again) || len(s.blobs) != 2 {
		t.Errorf("%d blobs after a full disk, want 2", len(s.blobs))
	}
}

// TestFailedSync must not ack, nor write on a file of which the disk holds who knows
// what.
func TestFailedSync(t *testing.T) {
	s := openDisk(t, t.TempDir())
	s.log.sync = func(*os.File) error { return syscall.EIO }
	if _, err := s.PutBytes([]byte("lost")); !errors.Is(err, syscall.EIO) || s.Has(Sum([]byte("lost"))) {
		t.Errorf("PutBytes = %v", err)
	}
	s.log.sync = syncData
	first := s.log.last
	if _, err := s.PutBytes([]byte("kept")); err != nil || s.log.last != first+1 {
		t.Errorf("PutBytes = %v, in segment %d after %d", err, s.log.last, first)
	}
}

func TestSyncIsShared(t *testing.T) {
	s := openDisk(t, t.TempDir())
	var syncs int // the journal's lock guards it
	first, gate := make(chan bool), make(chan bool)
	s.log.sync = func(f *os.File) error {
		if syncs++; syncs == 1 {
			first <- true
			<-gate
		}
		return nil
	}
	var wg sync.WaitGroup
	put := func(i int) {
		if _, err := s.PutBytes([]byte(fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { put(0) })
	<-first
	for i := range 99 {
		wg.Go(func() { put(1 + i) })
	}
	for waiting := 0; waiting < 99; runtime.Gosched() {
		s.log.mu.Lock()
		if s.log.next != nil {
			waiting = len(s.log.next.recs)
		}
		s.log.mu.Unlock()
	}
	gate <- true
	wg.Wait()
	if syncs != 2 {
		t.Errorf("%d syncs for 99 puts during another's, want 2 in all", syncs)
	}
}

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	fill := func(n int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8), 1}, 100) }
	for i := range 300 {
		until := record.Millis(10)
		if i%10 == 0 {
			until = 1000
		}
		if _, err := s.PutAll(until, fill(i)); err != nil {
			t.Fatal(err)
		}
	}
	absent := Sum([]byte("comes later"))
	if err := s.Pin(absent, 2000); err != nil {
		t.Fatal(err)
	}
	s.log.io.Lock()
	old := s.log.active
	s.log.active = nil
	s.log.io.Unlock()
	if err := s.Sweep(10); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old.f.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old segment: %v", err)
	}
	check := func() {
		t.Helper()
		for i := range 300 {
			b, err := s.Bytes(Sum(fill(i)), 1000)
			if i%10 == 0 && !bytes.Equal(b, fill(i)) || i%10 != 0 && !errors.Is(err, ErrMissing) {
				t.Fatalf("blob %d: %v", i, err)
			}
		}
		if len(s.pins) != 31 || s.pins[absent].until != 2000 {
			t.Errorf("%d pins, want 31", len(s.pins))
		}
		var live int64
		for seg := range s.log.all {
			live += seg.live
		}
		if want := int64(30*(300+2*recHead) + recHead); live != want {
			t.Errorf("%d bytes live, want %d", live, want)
		}
	}
	check()
	s.Close()
	s = openDisk(t, dir)
	check()
}

func TestScanFindsWhatFollowsDamage(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	// A blob that holds a record of its own, without knowing the salt.
	forged := rec{ref: record.Ref{1}, until: 1 << 40, pin: true}.appendTo(nil, make([]byte, 16))
	refs, err := s.PutAll(0, forged, []byte("second"), []byte("third"))
	if err != nil {
		t.Fatal(err)
	}
	name := s.log.active.f.Name()
	s.Close()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[segHead+5] ^= 1 // the head of the first record
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openDisk(t, dir)
	if s.Has(refs[0]) || !s.Has(refs[1]) || !s.Has(refs[2]) || len(s.pins) != 0 {
		t.Errorf("after damage %d blobs and %d pins, want 2 and 0", len(s.blobs), len(s.pins))
	}
}

func TestDamagedSegmentHead(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	if _, err := s.PutBytes([]byte("x")); err != nil {
		t.Fatal(err)
	}
	name := s.log.active.f.Name()
	s.Close()
	if err := os.WriteFile(name, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openDisk(t, dir)
	if _, err := s.PutBytes([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "small", "*")); len(list) != 2 || !strings.HasSuffix(list[0], ".damaged") {
		t.Errorf("folder holds %v", list)
	}
}

func TestCutPartIsFoundDamaged(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	data := bytes.Repeat([]byte{1, 2, 3, 4}, 3<<18)
	var tr tree
	for i := range 3 {
		tr.add(data[i*group : (i+1)*group])
	}
	ref, leaves := tr.sum()
	bad := bytes.Clone(data[:2*group])
	bad[group+5] ^= 1
	if err := os.WriteFile(s.partPath(ref), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = openDisk(t, dir)
	d, err := s.resume(ref, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.trim(d, leaves); err == nil || d.have != group {
		t.Fatalf("trim = %v, %d bytes left, want 1 MiB", err, d.have)
	}
	if err := s.receive(bytes.NewReader(data[group:]), d, leaves, int64(len(data)), ignore); err != nil || !s.holds(ref) {
		t.Errorf("receive = %v", err)
	}
}

func FuzzScan(f *testing.F) {
	salt := []byte("0123456789abcdef")
	b := append([]byte(segMagic), salt...)
	b = rec{ref: Sum([]byte("x")), until: 5, data: []byte("x")}.appendTo(b, salt)
	b = rec{ref: record.Ref{1}, until: 7, pin: true}.appendTo(b, salt)
	f.Add(b)
	f.Add(b[:len(b)-3])
	f.Add(append(b[:segHead+3:segHead+3], b[segHead:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var last int64
		_, end, err := scan(bytes.NewReader(b), int64(len(b)), func(r rec, off, n int64) {
			if off < last+recHead || n < 0 || n > small || off+n > int64(len(b)) {
				t.Fatalf("record of %d bytes at %d, after %d, in %d", n, off, last, len(b))
			}
			last = off + n
		})
		if err == nil && last != 0 && end != last || end > int64(len(b)) {
			t.Fatalf("ends at %d, last record at %d", end, last)
		}
	})
}
