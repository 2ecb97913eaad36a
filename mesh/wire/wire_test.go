package wire_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// pipe is an Opener onto one Mux, as the peer from.
type pipe struct {
	mux  *wire.Mux
	from record.NodeID
}

func (p pipe) Open(ctx context.Context, _ record.NodeID, _ string) (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	go p.mux.Serve(context.WithoutCancel(ctx), p.from, there)
	return here, nil
}

var alice, bob = record.NodeID{1}, record.NodeID{2}

func mux() *wire.Mux {
	m := &wire.Mux{Roles: func(record.NodeID) wire.Role { return wire.Anyone },
		Owner: func(context.Context, record.Ref) (record.NodeID, error) { return alice, nil }}
	wire.Handle(m, wire.Cancel, func(context.Context, wire.Caller, wire.CancelRequest) (wire.Ack, error) { return wire.Ack{}, nil })
	wire.HandleStream(m, wire.Jobs, func(_ context.Context, _ wire.Caller, q wire.JobsRequest, send func(wire.JobInfo) error) error {
		for i := range q.Limit {
			if err := send(wire.JobInfo{Entry: uint64(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	return m
}

func cancel(t *testing.T) wire.CancelRequest {
	t.Helper()
	s, err := record.Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), record.Cancel{Job: record.Ref{1}})
	if err != nil {
		t.Fatal(err)
	}
	return wire.CancelRequest{Cancel: s}
}

func TestOnlyTheOwnerCancels(t *testing.T) {
	m := mux()
	if _, err := wire.Call(t.Context(), pipe{m, alice}, bob, wire.Cancel, cancel(t)); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if _, err := wire.Call(t.Context(), pipe{m, bob}, bob, wire.Cancel, cancel(t)); !wire.Is(err, wire.Denied) {
		t.Errorf("another: %v", err)
	}
	if _, err := wire.Call(t.Context(), pipe{m, bob}, bob, wire.Head, wire.HeadRequest{}); !wire.Is(err, wire.Invalid) {
		t.Errorf("an unknown verb: %v", err)
	}
}

func TestStream(t *testing.T) {
	for _, n := range []uint32{0, 1, 100} {
		var got uint32
		for j, err := range wire.Stream(t.Context(), pipe{mux(), alice}, bob, wire.Jobs, wire.JobsRequest{Limit: n}) {
			if err != nil || j.Entry != uint64(got) {
				t.Fatalf("answer %d: %+v, %v", got, j, err)
			}
			got++
		}
		if got != n {
			t.Errorf("%d answers, want %d", got, n)
		}
	}
	for range wire.Stream(t.Context(), pipe{mux(), alice}, bob, wire.Jobs, wire.JobsRequest{Limit: 1 << 30}) {
		break // leaving stops the other side, or this test never ends
	}
}

func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range wire.Stream(ctx, pipe{mux(), alice}, bob, wire.Jobs, wire.JobsRequest{Limit: 1 << 30}) {
		cancel()
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
}

func TestForeignVersion(t *testing.T) {
	here, there := net.Pipe()
	go mux().Serve(t.Context(), alice, there)
	go here.Write([]byte{9, 0, 0, 0, 0})
	b, err := io.ReadAll(here)
	if err != nil || !strings.Contains(string(b), "protocol version 9: this node speaks 1") {
		t.Errorf("answer %q, %v", b, err)
	}
}

// TestLargeRequests: what strangers send slowly does not fill the memory.
func TestLargeRequests(t *testing.T) {
	m := mux()
	frame := []byte{1, 0, 0x3f, 0xff, 0xff} // of nearly 4 MiB, which do not come
	var open []net.Conn
	for range 64 {
		here, there := net.Pipe()
		go m.Serve(t.Context(), alice, there)
		if _, err := here.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := here.Write([]byte{0}); err != nil { // it has read the length
			t.Fatal(err)
		}
		open = append(open, here)
	}
	here, there := net.Pipe()
	go m.Serve(t.Context(), alice, there)
	go here.Write(frame)
	b, err := io.ReadAll(here)
	if err != nil || !strings.Contains(string(b), "too many large requests") {
		t.Errorf("one too many: %q, %v", b, err)
	}
	if _, err := wire.Call(t.Context(), pipe{m, alice}, bob, wire.Cancel, cancel(t)); err != nil {
		t.Errorf("a small one meanwhile: %v", err)
	}
	for _, c := range open {
		c.Close()
	}
}

// FuzzServe throws foreign bytes at a Mux: it must answer or hang up, never panic.
func FuzzServe(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 3, 0xa1, 0x01, 0x01})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		mux().Serve(t.Context(), alice, &foreign{strings.NewReader(string(b))})
	})
}

type foreign struct{ *strings.Reader }

func (foreign) Write(b []byte) (int, error) { return len(b), nil }
func (foreign) Close() error                { return nil }
