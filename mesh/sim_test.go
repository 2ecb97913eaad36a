package mesh_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"idlemesh/ledger/record"
	"idlemesh/mesh"
)

// A fabric is a simulated network that can be cut in two.
type fabric struct {
	simnet.PerfectRouter
	cut  atomic.Bool
	join sync.RWMutex // no packet reaches a link that has not started
}

func (f *fabric) SendPacket(p simnet.Packet) error {
	if f.cut.Load() {
		return nil // lost
	}
	f.join.RLock()
	defer f.join.RUnlock()
	_ = f.PerfectRouter.SendPacket(p) // who has no such address never answers
	return nil
}

// inSim calls test in virtual time with two sockets, 20 ms apart.
func inSim(t *testing.T, test func(t *testing.T, f *fabric, socket func(host byte) net.PacketConn)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fabric{}
		test(t, f, func(host byte) net.PacketConn {
			n := &simnet.Simnet{Router: f} // of its own, since it starts its links all at once
			f.join.Lock()
			c := n.NewEndpoint(&net.UDPAddr{IP: net.IPv4(10, 0, 0, host).To4(), Port: 7}, simnet.NodeBiDiLinkSettings{Latency: 10 * time.Millisecond})
			err := n.Start()
			f.join.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { n.Close() })
			return c
		})
	})
}

// ask sends one request of 60 bytes and waits for its answer.
func ask(ctx context.Context, from *mesh.Endpoint, to record.NodeID) error {
	s, err := from.Open(ctx, to, mesh.Control)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Write(append([]byte("hello"), make([]byte, 55)...)); err != nil {
		return err
	}
	_, err = io.ReadFull(s, make([]byte, 5))
	return err
}

func TestPartitionHeals(t *testing.T) {
	inSim(t, func(t *testing.T, f *fabric, socket func(byte) net.PacketConn) {
		gate, stop := serve(t, socket(1), certificate(t), mesh.Config{}, echoing)
		defer stop()
		home, stop := serve(t, socket(2), certificate(t), mesh.Config{}, echoing)
		defer stop()
		home.Learn(gate.ID(), gate.Addr())
		if err := ask(t.Context(), home, gate.ID()); err != nil {
			t.Fatal(err)
		}
		if rtt, ok := home.RTT(gate.ID()); !ok || rtt != 20*time.Millisecond {
			t.Errorf("round trip = %v, want 20ms", rtt)
		}
		f.cut.Store(true)
		start := time.Now()
		s, err := home.Open(t.Context(), gate.ID(), mesh.Control)
		if err != nil {
			t.Fatal(err)
		}
		s.Write([]byte("lost"))
		if _, err := s.Read(make([]byte, 1)); err == nil || time.Since(start) > 31*time.Second {
			t.Errorf("a dead path is noticed after %v: %v", time.Since(start), err)
		}
		start = time.Now()
		if err := ask(t.Context(), home, gate.ID()); !errors.Is(err, mesh.ErrNoPath) || time.Since(start) > 5*time.Second {
			t.Errorf("Open in a partition = %v after %v", err, time.Since(start))
		}
		if len(home.Peers()) != 0 {
			t.Errorf("peers in a partition: %v", home.Peers())
		}
		f.cut.Store(false)
		if err := ask(t.Context(), home, gate.ID()); err != nil {
			t.Errorf("after the partition: %v", err)
		}
		if err := ask(t.Context(), gate, home.ID()); err != nil {
			t.Errorf("back over the new connection: %v", err)
		}
	})
}

// TestCrashIsNoticed lets a node come back that has forgotten its connections.
func TestCrashIsNoticed(t *testing.T) {
	inSim(t, func(t *testing.T, f *fabric, socket func(byte) net.PacketConn) {
		cert := certificate(t)
		gate, stop := serve(t, socket(1), cert, mesh.Config{}, echoing)
		home, stopHome := serve(t, socket(2), certificate(t), mesh.Config{}, echoing)
		defer stopHome()
		gateID := gate.ID()
		home.Learn(gateID, gate.Addr())
		if err := ask(t.Context(), home, gateID); err != nil {
			t.Fatal(err)
		}
		f.cut.Store(true) // so that it cannot say goodbye
		stop()
		f.cut.Store(false)
		_, stop = serve(t, socket(1), cert, mesh.Config{}, echoing)
		defer stop()
		start := time.Now()
		if err := ask(t.Context(), home, gateID); err == nil {
			t.Error("the old connection still works")
		}
		if err := ask(t.Context(), home, gateID); err != nil {
			t.Errorf("after the crash: %v", err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("a crash costs %v", d)
		}
	})
}

// TestOneAddressOfManyAnswers has the good one behind seven that are silent.
func TestOneAddressOfManyAnswers(t *testing.T) {
	inSim(t, func(t *testing.T, f *fabric, socket func(byte) net.PacketConn) {
		gate, stop := serve(t, socket(1), certificate(t), mesh.Config{}, echoing)
		defer stop()
		home, stop := serve(t, socket(2), certificate(t), mesh.Config{}, echoing)
		defer stop()
		home.Learn(gate.ID(), mesh.Host("10.0.0.1:7"))
		for i := range 7 {
			home.Learn(gate.ID(), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 100+byte(i)).To4(), Port: 7})
		}
		start := time.Now()
		if err := ask(t.Context(), home, gate.ID()); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("Open = %v after %v", err, time.Since(start))
		}
	})
}
