package blob_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/identity"
)

// node starts an endpoint that serves a store.
func node(t testing.TB, dir string) (*blob.Store, *mesh.Endpoint) {
	t.Helper()
	key, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := key.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := mesh.New(pc, cert, mesh.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := blob.Open(dir, e, blob.Config{May: allow})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- e.Serve(ctx, map[string]mesh.Handler{mesh.Blob: s.Serve}) }()
	t.Cleanup(func() { cancel(); <-done; pc.Close(); s.Close() })
	return s, e
}

func TestOverQUIC(t *testing.T) {
	here, a := node(t, t.TempDir())
	there, b := node(t, t.TempDir())
	a.Learn(b.ID(), b.Addr())
	for _, n := range []int{0, 100, 5<<20 + 3} {
		want := content(n, 7)
		ref := put(t, there, want)
		if err := here.Fetch(t.Context(), ref, int64(n), nil, b.ID()); err != nil {
			t.Fatal(err)
		}
		wantBlob(t, here, ref, want)
		want = content(n, 8)
		ref = put(t, there, want)
		if err := there.Push(t.Context(), ref, a.ID(), nil); err != nil { // over the connection that a dialled
			t.Fatal(err)
		}
		wantBlob(t, here, ref, want)
	}
	if err := here.Fetch(t.Context(), record.Ref{1}, -1, nil, b.ID()); !errors.Is(err, blob.ErrMissing) || !strings.Contains(err.Error(), b.ID().Short()) {
		t.Errorf("Fetch = %v", err)
	}
}

func BenchmarkOverQUIC(b *testing.B) {
	here, a := node(b, b.TempDir())
	there, c := node(b, "")
	a.Learn(c.ID(), c.Addr())
	data := content(64<<20, 1)
	b.Run("fetch", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for i := 0; b.Loop(); i++ {
			data[0], data[1] = byte(i), byte(i>>8)
			b.StopTimer()
			ref := put(b, there, data)
			b.StartTimer()
			if err := here.Fetch(b.Context(), ref, -1, nil, c.ID()); err != nil {
				b.Fatal(err)
			}
		}
	})
	c.Learn(a.ID(), a.Addr())
	b.Run("push4", func(b *testing.B) { // four small ones, in one stream and one sync
		b.ReportAllocs()
		for i := uint32(0); b.Loop(); i++ {
			tag := []byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}
			refs, err := there.PutAll(0, append(tag, 1), append(tag, 2), append(tag, 3), append(tag, 4))
			if err != nil {
				b.Fatal(err)
			}
			if err := there.PushAll(b.Context(), refs, a.ID(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
