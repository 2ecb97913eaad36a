package quorum

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

var quiet = slog.New(slog.DiscardHandler)

// TestStoreCrash stops the machine at each file operation of a keepers' log: what was
// stored, and the vote, are there afterwards, whatever else the disk kept.
func TestStoreCrash(t *testing.T) {
	mem, rng := vfs.NewCrashableMem(), rand.New(rand.NewPCG(1, 2))
	var (
		mu         sync.Mutex // Pebble writes from several goroutines
		last, vote uint64     // that were acknowledged
		ops        int
	)
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		ops++
		for _, kept := range []int{0, 50, 100} {
			left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rng})
			checkStore(t, left, last, vote)
		}
		return nil
	}))
	s, err := openStore(fs, "log", 1, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= 60; i += 3 {
		logs := []*raft.Log{storedLog(i), storedLog(i + 1), storedLog(i + 2)}
		if err := s.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		last = i + 2
		mu.Unlock()
		if err := s.SetUint64([]byte("vote"), i); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		vote = i
		mu.Unlock()
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if ops < 100 {
		t.Errorf("%d operations", ops)
	}
}

func storedLog(i uint64) *raft.Log {
	return &raft.Log{Index: i, Term: i / 7, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(i)}, 200), Extensions: []byte{byte(i)}}
}

func checkStore(t *testing.T, fs vfs.FS, last, vote uint64) {
	t.Helper()
	s, err := openStore(fs, "log", 1, quiet)
	if err != nil {
		t.Fatalf("%d were stored: %v", last, err)
	}
	defer s.close()
	for i := uint64(1); i <= last; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil || !bytes.Equal(l.Data, storedLog(i).Data) || l.Term != i/7 {
			t.Fatalf("log %d of %d: %v", i, last, err)
		}
	}
	if got, err := s.GetUint64([]byte("vote")); vote > 0 && (err != nil || got < vote) {
		t.Fatalf("vote %d, was %d, %v", got, vote, err)
	}
}

// TestStore: raft deletes from both ends, and asks for what is not there.
func TestStore(t *testing.T) {
	s, err := openStore(vfs.NewMem(), "log", 1, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	edges := func(first, last uint64) {
		t.Helper()
		a, errA := s.FirstIndex()
		b, errB := s.LastIndex()
		if a != first || b != last || errA != nil || errB != nil {
			t.Errorf("edges %d and %d, want %d and %d, %v, %v", a, b, first, last, errA, errB)
		}
	}
	edges(0, 0)
	for i := uint64(5); i < 15; i++ {
		if err := s.StoreLog(storedLog(i)); err != nil {
			t.Fatal(err)
		}
	}
	edges(5, 14)
	for _, r := range [][2]uint64{{1, 7}, {13, 20}} {
		if err := s.DeleteRange(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	edges(8, 12)
	var l raft.Log
	if err := s.GetLog(7, &l); err != raft.ErrLogNotFound {
		t.Errorf("a log that is gone: %v", err)
	}
	if err := s.StoreLog(&raft.Log{Index: 13, Type: raft.LogNoop}); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[uint64]uint64{13: 12, 12: 12, 9: 9, 7: 0} {
		if got, err := s.lastCommand(at); got != want || err != nil {
			t.Errorf("last batch up to %d is %d, want %d, %v", at, got, want, err)
		}
	}
	if _, err := s.Get([]byte("none")); err == nil || err.Error() != "not found" {
		t.Errorf("a value that is not there: %v", err)
	}
}

// TestOnTime is the rule for ledger time.
func TestOnTime(t *testing.T) {
	const now, s = record.Millis(1_800_000_000_000), record.Millis(1000)
	for name, tc := range map[string]struct {
		batch record.Millis
		fresh bool
		good  bool
	}{
		"of now":                 {now, true, true},
		"29 s ahead":             {now + 29*s, true, true},
		"31 s ahead":             {now + 31*s, true, false},
		"31 s ahead, left over":  {now + 31*s, false, false},
		"29 s behind":            {now - 29*s, true, true},
		"31 s behind":            {now - 31*s, true, false},
		"an hour old, left over": {now - 3600*s, false, true},
		"before time began":      {-1 << 62, true, false},
	} {
		if err := onTime(tc.batch, now, tc.fresh); (err == nil) != tc.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeLog(f *testing.F) {
	f.Add(encodeLog(storedLog(3)))
	f.Add(encodeLog(&raft.Log{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l raft.Log
		if decodeLog(b, &l) == nil && !bytes.Equal(encodeLog(&l), b) {
			t.Errorf("%x is not encoded so", b)
		}
	})
}

// FuzzUnpack gives a copy of the ledger that another keeper might send.
func FuzzUnpack(f *testing.F) {
	for _, m := range []manifest{{}, {Files: []file{{"a", 2}, {"b", 1}}}, {Files: []file{{"../a", 1}}}, {Files: []file{{"a", 1 << 60}}}} {
		b, err := record.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{0, 0, 0, byte(len(b))}, append(b, "xyz"...)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("q", 0o700); err != nil {
			t.Fatal(err)
		}
		in := &incoming{s: &snapshots{fs: mem, dir: "q"}}
		_ = in.unpack(bytes.NewReader(b)) // an error is as good: it must not write elsewhere
		names, err := mem.List("")
		if err != nil || len(names) != 1 || names[0] != "q" {
			t.Errorf("it wrote %v, %v", names, err)
		}
	})
}

// A fullFS has no room.
type fullFS struct{ vfs.FS }

func (fullFS) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{AvailBytes: 10}, nil }

// TestStoreFull: a full disk is refused before Pebble would wait for room for ever.
func TestStoreFull(t *testing.T) {
	mem := vfs.NewMem()
	s, err := openStore(mem, "log", 1, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openStore(fullFS{mem}, "log", 100, quiet); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.StoreLog(storedLog(1)); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("StoreLog: %v", err)
	}
	if last, err := s.LastIndex(); last != 0 || err != nil {
		t.Errorf("the log ends at %d, %v", last, err)
	}
}

// TestFits: no command is larger than what a follower should hold.
func TestFits(t *testing.T) {
	for name, tc := range map[string]struct{ n, size, want int }{
		"few":            {3, 100, 3},
		"many":           {2000, 100, maxEntries},
		"large":          {200, 16 << 10, maxBytes / (16 << 10)},
		"one, too large": {2, 2 * maxBytes, 1},
	} {
		batch := make([]record.Raw, tc.n)
		for i := range batch {
			batch[i] = make(record.Raw, tc.size)
		}
		if got := fits(batch); got != tc.want {
			t.Errorf("%s: %d fit, want %d", name, got, tc.want)
		}
	}
}
