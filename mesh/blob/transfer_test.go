package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh"
	"idlemesh/mesh/blob"
)

// A lan connects stores by pipes; cut, when set, says after how many bytes from the
// peer a stream breaks.
type lan struct {
	t      testing.TB
	me     record.NodeID
	wg     sync.WaitGroup
	cut    func(to record.NodeID) int64
	opened atomic.Int64
	serve  map[record.NodeID]mesh.Handler
}

func newLAN(t testing.TB) *lan {
	l := &lan{t: t, me: record.NodeID{9}, serve: map[record.NodeID]mesh.Handler{}}
	t.Cleanup(l.wg.Wait)
	return l
}

func (l *lan) Open(ctx context.Context, to record.NodeID, proto string) (io.ReadWriteCloser, error) {
	h := l.serve[to]
	if h == nil || proto != blob.Protocol {
		return nil, errors.New("no path")
	}
	l.opened.Add(1)
	near, far := net.Pipe()
	l.wg.Go(func() { h(context.Background(), l.me, far) })
	c := &cable{Conn: near, left: 1 << 40}
	if l.cut != nil {
		c.left = l.cut(to)
	}
	return c, nil
}

type cable struct {
	net.Conn
	left int64
}

func (c *cable) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func allow(record.NodeID, record.Ref, bool) bool { return true }

// join opens a store that the lan knows by that name.
func (l *lan) join(name byte, dir string, c blob.Config) (*blob.Store, record.NodeID) {
	l.t.Helper()
	s, err := blob.Open(dir, l, c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { l.wg.Wait(); s.Close() })
	l.serve[record.NodeID{name}] = s.Serve
	return s, record.NodeID{name}
}

func TestFetchAndPush(t *testing.T) {
	for name, disk := range map[string]bool{"memory": false, "disk": true} {
		t.Run(name, func(t *testing.T) {
			dirs := [2]string{}
			if disk {
				dirs = [2]string{t.TempDir(), t.TempDir()}
			}
			l := newLAN(t)
			here, _ := l.join(1, dirs[0], blob.Config{})
			there, to := l.join(2, dirs[1], blob.Config{May: allow})
			for _, n := range sizes {
				b := content(n, 5)
				ref := put(t, there, b)
				var last int64
				if err := here.Fetch(t.Context(), ref, int64(n), func(n int64) { last = n }, to); err != nil || last != int64(n) {
					t.Fatalf("Fetch of %d bytes = %v after %d", n, err, last)
				}
				wantBlob(t, here, ref, b)
				b = content(n, 6)
				ref = put(t, here, b)
				if err := here.Push(t.Context(), ref, to, func(n int64) { last = n }); err != nil || last != int64(n) {
					t.Fatalf("Push of %d bytes = %v after %d", n, err, last)
				}
				wantBlob(t, there, ref, b)
			}
		})
	}
}

func TestFetchOfUnknownSize(t *testing.T) {
	l := newLAN(t)
	here, _ := l.join(1, "", blob.Config{MaxBlob: 50_000})
	there, to := l.join(2, "", blob.Config{May: allow})
	ok, big := put(t, there, content(50_000, 1)), put(t, there, content(50_001, 1))
	if err := here.Fetch(t.Context(), ok, -1, nil, to); err != nil {
		t.Error(err)
	}
	for _, size := range []int64{-1, 50_000, 50_001} {
		if err := here.Fetch(t.Context(), big, size, nil, to); err == nil || here.Has(big) {
			t.Errorf("Fetch of a larger blob as %d bytes = %v", size, err)
		}
	}
}

// TestResume cuts each stream after 1.5 MiB.
func TestResume(t *testing.T) {
	want := content(4<<20+100, 1)
	for name, disk := range map[string]bool{"memory": false, "disk": true} {
		t.Run(name, func(t *testing.T) {
			dir := ""
			if disk {
				dir = t.TempDir()
			}
			l := newLAN(t)
			here, _ := l.join(1, dir, blob.Config{})
			one, a := l.join(2, "", blob.Config{May: allow})
			two, b := l.join(3, "", blob.Config{May: allow})
			ref := put(t, one, want)
			put(t, two, want)
			l.cut = func(record.NodeID) int64 { return 3 << 19 }
			if err := here.Fetch(t.Context(), ref, int64(len(want)), nil, a, b); err != nil {
				t.Fatal(err)
			}
			wantBlob(t, here, ref, want)
			if n := l.opened.Load(); n != 4 {
				t.Errorf("%d streams for 4 MiB and a bit, cut after 1.5 MiB each, want 4", n)
			}
		})
	}
}

func TestResumeAfterRestart(t *testing.T) {
	want := content(4<<20+100, 1)
	dir := t.TempDir()
	l := newLAN(t)
	there, to := l.join(2, "", blob.Config{May: allow})
	ref := put(t, there, want)
	here, _ := l.join(1, dir, blob.Config{})
	l.cut = func(record.NodeID) int64 { return 5<<19 - 2<<20*(l.opened.Load()/2) } // 2.5 MiB, then 0.5
	if err := here.Fetch(t.Context(), ref, int64(len(want)), nil, to); err == nil {
		t.Fatal("fetched through cut streams")
	}
	l.wg.Wait()
	here.Close()
	here, _ = l.join(1, dir, blob.Config{})
	l.cut = nil
	first := int64(-1)
	progress := func(n int64) {
		if first < 0 {
			first = n
		}
	}
	if err := here.Fetch(t.Context(), ref, int64(len(want)), progress, to); err != nil || first != 2<<20 {
		t.Errorf("Fetch = %v, went on at %d; want at 2 MiB", err, first)
	}
	wantBlob(t, here, ref, want)
}

// flipping serves another's blobs with one byte changed, far from the start.
func flipping(h mesh.Handler, at int) mesh.Handler {
	return func(ctx context.Context, from record.NodeID, s io.ReadWriteCloser) {
		h(ctx, from, &flipper{s, at})
	}
}

type flipper struct {
	io.ReadWriteCloser
	at int
}

func (f *flipper) Write(p []byte) (int, error) {
	if f.at >= 0 && f.at < len(p) {
		p = bytes.Clone(p)
		p[f.at] ^= 1
	}
	f.at -= len(p)
	return f.ReadWriteCloser.Write(p)
}

func TestWrongBytesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ size, at int }{
		"small": {1000, 500}, "one group": {100_000, 70_000}, "leaves": {3 << 20, 40}, "third group": {3 << 20, 5 << 19},
	} {
		t.Run(name, func(t *testing.T) {
			want := content(tc.size, 1)
			l := newLAN(t)
			here, _ := l.join(1, t.TempDir(), blob.Config{})
			bad, liar := l.join(2, "", blob.Config{May: allow})
			good, honest := l.join(3, "", blob.Config{May: allow})
			ref := put(t, bad, want)
			l.serve[liar] = flipping(l.serve[liar], tc.at)
			if err := here.Fetch(t.Context(), ref, int64(tc.size), nil, liar); err == nil || here.Has(ref) {
				t.Fatalf("Fetch from a liar = %v", err)
			}
			put(t, good, want)
			if err := here.Fetch(t.Context(), ref, int64(tc.size), nil, liar, honest); err != nil {
				t.Fatal(err)
			}
			wantBlob(t, here, ref, want)
		})
	}
}

func TestMay(t *testing.T) {
	b := content(100_000, 1)
	for name, tc := range map[string]struct {
		may func(record.NodeID, record.Ref, bool) bool
		err error
	}{
		"nil allows nobody": {nil, blob.ErrDenied},
		"another peer":      {func(p record.NodeID, _ record.Ref, _ bool) bool { return p == record.NodeID{8} }, blob.ErrDenied},
		"the peer":          {func(p record.NodeID, _ record.Ref, _ bool) bool { return p == record.NodeID{9} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t)
			here, _ := l.join(1, "", blob.Config{})
			there, to := l.join(2, "", blob.Config{May: tc.may})
			mine, theirs := put(t, here, b), put(t, there, b[1:])
			if err := here.Fetch(t.Context(), theirs, -1, nil, to); !errors.Is(err, tc.err) {
				t.Errorf("Fetch = %v, want %v", err, tc.err)
			}
			if err := here.Push(t.Context(), mine, to, nil); !errors.Is(err, tc.err) || there.Has(mine) != (tc.err == nil) {
				t.Errorf("Push = %v, want %v", err, tc.err)
			}
			if tc.err == nil {
				return
			}
			if err := here.Fetch(t.Context(), record.Ref{1}, -1, nil, to); !errors.Is(err, blob.ErrDenied) {
				t.Errorf("a stranger learns that a blob is missing: %v", err)
			}
		})
	}
}

func TestFetchRefuses(t *testing.T) {
	l := newLAN(t)
	here, _ := l.join(1, "", blob.Config{Size: 1 << 20})
	there, to := l.join(2, "", blob.Config{May: allow})
	ref := put(t, there, content(2<<20, 1))
	if err := here.Fetch(t.Context(), record.Ref{1}, -1, nil, to, record.NodeID{7}); !errors.Is(err, blob.ErrMissing) {
		t.Errorf("nobody has it: %v", err)
	}
	if err := here.Fetch(t.Context(), record.Ref{1}, -1, nil); !errors.Is(err, blob.ErrMissing) {
		t.Errorf("no holder: %v", err)
	}
	if err := here.Fetch(t.Context(), ref, 2<<20, nil, to); !errors.Is(err, blob.ErrFull) {
		t.Errorf("no room here: %v", err)
	}
	mine := put(t, there, content(900_000, 2))
	if _, err := here.PutAll(9, content(500_000, 3)); err != nil {
		t.Fatal(err)
	}
	if err := here.Fetch(t.Context(), mine, -1, nil, to); !errors.Is(err, blob.ErrFull) {
		t.Errorf("pinned blobs fill the store: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := here.Fetch(ctx, mine, -1, nil, to); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPushIsAskedFirst(t *testing.T) {
	l := newLAN(t)
	here, _ := l.join(1, "", blob.Config{})
	there, to := l.join(2, "", blob.Config{May: allow})
	b := content(1<<20, 1)
	ref := put(t, here, b)
	put(t, there, b)
	h, got := l.serve[to], &counter{}
	l.serve[to] = func(ctx context.Context, from record.NodeID, s io.ReadWriteCloser) {
		got.ReadWriteCloser = s
		h(ctx, from, got)
	}
	if err := here.Push(t.Context(), ref, to, nil); err != nil {
		t.Fatal(err)
	}
	if n := got.n.Load(); n > 200 {
		t.Errorf("%d bytes sent of a blob that is there", n)
	}
}

type counter struct {
	io.ReadWriteCloser
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func TestPushAll(t *testing.T) {
	l := newLAN(t)
	here, _ := l.join(1, "", blob.Config{})
	there, to := l.join(2, t.TempDir(), blob.Config{May: allow})
	var refs []record.Ref
	var total int64
	for i := range 5000 { // more than one batch
		n := i % 100
		if i%1000 == 0 {
			n = 2<<20 + i
		}
		b := append(content(n, 1), byte(i), byte(i>>8))
		total += int64(len(b))
		refs = append(refs, put(t, here, b))
	}
	refs = append(refs, refs[0], refs[1])
	var last int64
	if err := here.PushAll(t.Context(), refs, to, func(n int64) { last = n }); err != nil {
		t.Fatal(err)
	}
	for i, ref := range refs {
		if !there.Has(ref) {
			t.Fatalf("blob %d is not there", i)
		}
	}
	if last < total || l.opened.Load() != 2 {
		t.Errorf("%d bytes of %d reported, in %d streams, want 2", last, total, l.opened.Load())
	}
	if err := here.PushAll(t.Context(), []record.Ref{{1}}, to, nil); !errors.Is(err, blob.ErrMissing) {
		t.Errorf("pushed what is not here: %v", err)
	}
}

func TestPushGoesOn(t *testing.T) {
	l := newLAN(t)
	here, _ := l.join(1, "", blob.Config{})
	there, to := l.join(2, t.TempDir(), blob.Config{May: allow})
	want := content(4<<20, 1)
	ref := put(t, here, want)
	ctx, cancel := context.WithCancel(t.Context())
	err := here.Push(ctx, ref, to, func(n int64) {
		if n > 5<<19 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Push = %v", err)
	}
	l.wg.Wait()
	first := int64(-1)
	err = here.Push(t.Context(), ref, to, func(n int64) {
		if first < 0 {
			first = n
		}
	})
	if err != nil || first <= 2<<20 {
		t.Errorf("Push = %v, went on at %d; want beyond 2 MiB", err, first)
	}
	wantBlob(t, there, ref, want)
}

func TestFetchesShareOneTransfer(t *testing.T) {
	l := newLAN(t)
	here, _ := l.join(1, "", blob.Config{})
	there, to := l.join(2, "", blob.Config{May: allow})
	ref := put(t, there, content(3<<20, 1))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := here.Fetch(t.Context(), ref, -1, nil, to); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := l.opened.Load(); n != 1 {
		t.Errorf("%d transfers, want 1", n)
	}
}

// TestStall is held up by a peer that sends nothing, and one that reads nothing.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		here, _ := l.join(1, "", blob.Config{Stall: time.Minute, May: allow})
		ref := put(t, here, content(1<<20, 1))
		l.serve[record.NodeID{2}] = func(ctx context.Context, _ record.NodeID, s io.ReadWriteCloser) {
			io.ReadFull(s, make([]byte, 10))
			time.Sleep(time.Hour)
			s.Close()
		}
		start := time.Now()
		if err := here.Fetch(t.Context(), record.Ref{1}, -1, nil, record.NodeID{2}); err == nil || time.Since(start) > 2*time.Minute {
			t.Errorf("Fetch = %v after %v", err, time.Since(start))
		}
		start = time.Now()
		if err := here.Push(t.Context(), ref, record.NodeID{2}, nil); err == nil || time.Since(start) > 2*time.Minute {
			t.Errorf("Push = %v after %v", err, time.Since(start))
		}
		near, far := net.Pipe()
		defer near.Close()
		start = time.Now()
		here.Serve(t.Context(), record.NodeID{}, far)
		if d := time.Since(start); d > 2*time.Minute {
			t.Errorf("Serve waited %v for a request", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if err := here.Fetch(ctx, record.Ref{1}, -1, nil, record.NodeID{2}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Fetch = %v after %v", err, time.Since(start))
		}
	})
}
