package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lukechampine.com/blake3"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
)

// content returns n bytes that depend on seed.
func content(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func open(t testing.TB, dir string, c blob.Config) *blob.Store {
	t.Helper()
	s, err := blob.Open(dir, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *blob.Store, b []byte) record.Ref {
	t.Helper()
	ref, n, err := s.Put(t.Context(), bytes.NewReader(b))
	if err != nil || n != int64(len(b)) {
		t.Fatalf("Put of %d bytes = %d, %v", len(b), n, err)
	}
	return ref
}

func wantBlob(t testing.TB, s *blob.Store, ref record.Ref, want []byte) {
	t.Helper()
	r, err := s.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes, %v; want the %d stored", len(got), err, len(want))
	}
}

var sizes = []int{0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 5000, 16383, 16384, 16385, 32767, 32768, 32769, 65536,
	1<<20 - 1, 1 << 20, 1<<20 + 1, 2 << 20, 3<<20 - 7, 5<<20 + 12345}

func TestSumIsBLAKE3(t *testing.T) {
	for _, n := range sizes {
		b := content(n, 1)
		want := record.Ref(blake3.Sum256(b))
		if got := blob.Sum(b); got != want {
			t.Errorf("Sum of %d bytes = %s, want %s", n, got, want)
		}
		if got, size, err := blob.SumReader(bytes.NewReader(b)); got != want || size != int64(n) || err != nil {
			t.Errorf("SumReader of %d bytes = %s, %d, %v; want %s", n, got, size, err, want)
		}
	}
}

func TestPutGet(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir, blob.Config{})
			for _, n := range sizes {
				b := content(n, 2)
				ref := put(t, s, b)
				if ref != record.Ref(blake3.Sum256(b)) {
					t.Errorf("%d bytes are named %s", n, ref)
				}
				wantBlob(t, s, ref, b)
				if again, err := s.PutBytes(b); again != ref || err != nil {
					t.Errorf("PutBytes of %d bytes = %s, %v; want %s", n, again, err, ref)
				}
				wantBlob(t, s, ref, b)
			}
			if dir != "" {
				s.Close()
				s = open(t, dir, blob.Config{})
				for _, n := range sizes {
					wantBlob(t, s, blob.Sum(content(n, 2)), content(n, 2))
				}
			}
			if _, err := s.Get(record.Ref{1}); !errors.Is(err, blob.ErrMissing) {
				t.Errorf("Get of a blob that is not there = %v", err)
			}
		})
	}
}

func TestReadAt(t *testing.T) {
	s := open(t, t.TempDir(), blob.Config{})
	want := content(3<<20+100, 3)
	ref := put(t, s, want)
	r, err := s.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, at := range []struct{ off, n int }{{0, 10}, {1<<20 - 5, 10}, {5, 3 << 20}, {3 << 20, 100}, {3<<20 + 50, 100}, {4 << 20, 1}, {1 << 20, 1 << 20}} {
		p := make([]byte, at.n)
		n, err := r.ReadAt(p, int64(at.off))
		exp := want[min(at.off, len(want)):min(at.off+at.n, len(want))]
		if !bytes.Equal(p[:n], exp) || (err == io.EOF) != (n < at.n) || err != nil && err != io.EOF {
			t.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %d", at.n, at.off, n, err, len(exp))
		}
	}
	if _, err := r.ReadAt(nil, -1); err == nil {
		t.Error("read at -1")
	}
}

func TestPutStopsWithItsReader(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, blob.Config{})
	bad := errors.New("bad reader")
	if _, _, err := s.Put(t.Context(), io.MultiReader(bytes.NewReader(content(3<<20, 1)), iotestErr{bad})); !errors.Is(err, bad) {
		t.Errorf("Put = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Put(ctx, bytes.NewReader(content(3<<20, 1))); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v", err)
	}
	if n := files(t, dir); len(n) != 0 {
		t.Errorf("left %v", n)
	}
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	return list
}

func TestFlippedBytesAreFound(t *testing.T) {
	for name, n := range map[string]int{"small": 1000, "large": 100_000, "groups": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, blob.Config{})
			want := content(n, 4)
			ref := put(t, s, want)
			path := files(t, dir)[0]
			clean, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []int{len(clean) - 1, len(clean) - n/2, len(clean) * 9 / 10} {
				bad := bytes.Clone(clean)
				bad[at] ^= 1
				s.Close()
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, bad, 0o600); err != nil {
					t.Fatal(err)
				}
				s = open(t, dir, blob.Config{})
				r, err := s.Get(ref)
				if err == nil {
					_, err = io.ReadAll(r)
					r.Close()
				}
				if !errors.Is(err, blob.ErrMissing) || !strings.Contains(err.Error(), ref.String()) {
					t.Errorf("byte %d flipped: %v; want ErrMissing with the name", at, err)
				}
				if s.Has(ref) {
					t.Errorf("byte %d flipped: still here", at)
				}
				if again := put(t, s, want); again != ref {
					t.Errorf("put again as %s", again)
				}
				wantBlob(t, s, ref, want)
				if err := os.WriteFile(path, clean, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestPutRepairs puts a blob whose stored bytes have rotten since the last Open.
func TestPutRepairs(t *testing.T) {
	for _, n := range []int{1000, 100_000} {
		dir := t.TempDir()
		s := open(t, dir, blob.Config{})
		want := content(n, 4)
		ref := put(t, s, want)
		s.Close()
		path := files(t, dir)[0]
		b, _ := os.ReadFile(path)
		b[len(b)-500] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, blob.Config{})
		put(t, s, want)
		wantBlob(t, s, ref, want)
	}
}

func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, blob.Config{})
	var refs []record.Ref
	for i := range 20 {
		refs = append(refs, put(t, s, content(500, byte(i))))
	}
	s.Close()
	path := files(t, dir)[0]
	whole, _ := os.ReadFile(path)
	for cut := len(whole); cut >= 0; cut -= 101 {
		if err := os.WriteFile(path, append(bytes.Clone(whole[:cut]), make([]byte, cut%7)...), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, blob.Config{})
		for i, ref := range refs {
			wholly := 24+(i+1)*(56+500) <= cut
			if s.Has(ref) != wholly {
				t.Fatalf("cut at %d: blob %d is here = %v", cut, i, s.Has(ref))
			}
			if wholly {
				wantBlob(t, s, ref, content(500, byte(i)))
			}
		}
		ref := put(t, s, []byte("after the crash"))
		s.Close()
		s = open(t, dir, blob.Config{})
		wantBlob(t, s, ref, []byte("after the crash"))
		s.Close()
		for _, f := range files(t, dir) {
			os.Remove(f)
		}
	}
}

func TestPinsKeep(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir, blob.Config{Size: 3 << 20})
			reopen := func() {
				if dir != "" {
					s.Close()
					s = open(t, dir, blob.Config{Size: 3 << 20})
				}
			}
			kept, err := s.PutAll(1000, content(100, 1), content(40_000, 2))
			if err != nil {
				t.Fatal(err)
			}
			later := blob.Sum(content(200, 3))
			if err := s.Pin(later, 2000); err != nil { // before it comes
				t.Fatal(err)
			}
			if err := s.Pin(later, 500); err != nil { // changes nothing
				t.Fatal(err)
			}
			put(t, s, content(200, 3))
			kept = append(kept, later)
			reopen()
			for i := range 20 { // 10 MB of others
				put(t, s, content(500_000, byte(100+i)))
				put(t, s, content(1000, byte(100+i)))
			}
			has := func(want ...bool) {
				t.Helper()
				for i, ref := range kept {
					if s.Has(ref) != want[i] {
						t.Errorf("pinned blob %d is here = %v, want %v", i, s.Has(ref), want[i])
					}
				}
			}
			has(true, true, true)
			for _, step := range []struct {
				now  record.Millis
				want []bool
			}{{999, []bool{true, true, true}}, {1000, []bool{false, false, true}}, {2000, []bool{false, false, false}}} {
				if err := s.Sweep(step.now); err != nil {
					t.Fatal(err)
				}
				has(step.want...)
			}
		})
	}
}

func TestFull(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir, blob.Config{Size: 1 << 20})
			if _, err := s.PutAll(9, content(600_000, 1)); err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{600_000, 2 << 20} {
				if _, _, err := s.Put(t.Context(), bytes.NewReader(content(n, 2))); !errors.Is(err, blob.ErrFull) {
					t.Errorf("Put of %d bytes = %v, want ErrFull", n, err)
				}
				if s.Has(blob.Sum(content(n, 2))) {
					t.Error("half a blob is visible")
				}
			}
			put(t, s, content(300_000, 3)) // nothing of the failed ones takes room
			put(t, s, content(300_000, 4)) // the last one goes, it is not pinned
			if s.Has(blob.Sum(content(300_000, 3))) || !s.Has(blob.Sum(content(600_000, 1))) {
				t.Error("the wrong blob went")
			}
		})
	}
}

func TestConcurrently(t *testing.T) {
	s := open(t, t.TempDir(), blob.Config{Size: 2 << 20})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 40 {
				b := content(10+(k%4)*30_000, byte(k%10*7+i%2))
				ref, err := s.PutBytes(b)
				if err != nil {
					t.Error(err)
					return
				}
				if k%5 == 0 {
					s.Pin(ref, record.Millis(k))
				}
				if r, err := s.Get(ref); err == nil {
					got, err := io.ReadAll(r)
					if err != nil || !bytes.Equal(got, b) {
						t.Errorf("read %d bytes, %v", len(got), err)
					}
					r.Close()
				} else if !errors.Is(err, blob.ErrMissing) {
					t.Error(err)
				}
				if k%10 == 9 {
					if err := s.Sweep(record.Millis(k)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestCrypt(t *testing.T) {
	plain := content(100_003, 1)
	secret := []byte("tenant's secret")
	key := blob.ContentKey(secret, blob.Sum(plain))
	if key == blob.ContentKey([]byte("another"), blob.Sum(plain)) || key == blob.ContentKey(secret, record.Ref{}) {
		t.Error("keys of different owners or contents are equal")
	}
	var sealed bytes.Buffer
	w := blob.Encrypt(key, &sealed)
	for b := plain; len(b) > 0; b = b[min(len(b), 777):] {
		if _, err := w.Write(b[:min(len(b), 777)]); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Contains(sealed.Bytes(), plain[:16]) {
		t.Error("plain bytes are stored")
	}
	r := blob.Decrypt(bytes.NewReader(sealed.Bytes()), key)
	for _, at := range []struct{ off, n int }{{0, 100_003}, {1, 15}, {15, 2}, {16, 16}, {99_999, 4}, {4097, 50_000}} {
		p := make([]byte, at.n)
		if n, err := r.ReadAt(p, int64(at.off)); n != at.n || err != nil && err != io.EOF || !bytes.Equal(p, plain[at.off:at.off+at.n]) {
			t.Errorf("ReadAt(%d bytes, %d) = %d, %v, or other bytes", at.n, at.off, n, err)
		}
	}
	if n, err := r.ReadAt(make([]byte, 10), 100_003); n != 0 || err != io.EOF {
		t.Errorf("ReadAt the end = %d, %v", n, err)
	}
}

func ExampleStore() {
	s, err := blob.Open("", nil, blob.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, _ := s.PutBytes([]byte("hello"))
	b, err := s.Bytes(ref, 100)
	fmt.Printf("%s %s %v\n", ref, b, err)
	// Output: 5khrmpntq2bjexseshc6ldklwnig56gbj23yvbxjbdcwestheahq hello <nil>
}

func BenchmarkPutSmall(b *testing.B) {
	s := open(b, b.TempDir(), blob.Config{})
	b.SetParallelism(8) // 16 on two cores
	var mu sync.Mutex
	var n uint64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			id := n
			mu.Unlock()
			if _, err := s.PutBytes(fmt.Appendf(make([]byte, 300), "%d", id)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkGetSmall(b *testing.B) {
	s := open(b, b.TempDir(), blob.Config{})
	ref := put(b, s, content(1000, 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Bytes(ref, 1000); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLarge(b *testing.B) {
	data := content(64<<20, 1)
	b.Run("sum", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			blob.Sum(data)
		}
	})
	b.Run("put", func(b *testing.B) {
		s := open(b, b.TempDir(), blob.Config{})
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			put(b, s, data)
		}
	})
	b.Run("get", func(b *testing.B) {
		s := open(b, b.TempDir(), blob.Config{})
		ref := put(b, s, data)
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			r, err := s.Get(ref)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 1<<20)); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
	})
}
