package mesh_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/quic-go/quic-go"
	"go.uber.org/goleak"

	"idlemesh/ledger/record"
	"idlemesh/mesh"
	"idlemesh/mesh/identity"
)

// echoing answers five bytes on each stream.
var echoing = map[string]mesh.Handler{mesh.Control: func(_ context.Context, _ record.NodeID, s io.ReadWriteCloser) {
	io.CopyN(s, s, 5)
	s.Close()
}}

func TestReverseStream(t *testing.T) {
	home, gate := start(t, echoing), start(t, echoing)
	home.Learn(gate.ID(), gate.Addr())
	echo(t, home, gate.ID()) // the node behind a NAT dials
	echo(t, gate, home.ID()) // the gateway comes back over the same connection
	echo(t, gate, gate.ID()) // a node speaks to itself
	for e, want := range map[*mesh.Endpoint]string{home: "direct", gate: "direct self"} {
		paths := map[string]bool{}
		for _, p := range e.Peers() {
			paths[p.Path] = true
			if rtt, ok := e.RTT(p.ID); !ok || rtt != p.RTT || rtt <= 0 {
				t.Errorf("round trip to %s = %v, %v", p.ID.Short(), rtt, ok)
			}
		}
		for _, path := range strings.Fields(want) {
			if !paths[path] {
				t.Errorf("peers are %v, want %s", paths, want)
			}
		}
	}
	if _, err := gate.Open(t.Context(), record.NodeID{1}, mesh.Control); !errors.Is(err, mesh.ErrNoPath) {
		t.Errorf("opened a stream to nobody: %v", err)
	}
	if _, ok := gate.RTT(record.NodeID{1}); ok {
		t.Error("round trip to nobody")
	}
}

func TestEndpointWithoutServe(t *testing.T) {
	gate := start(t, echoing)
	e := client(t)
	e.Learn(gate.ID(), mesh.Host("localhost:"+strings.Split(gate.Addr().String(), ":")[1]))
	echo(t, e, gate.ID())
	for range 2 {
		if err := e.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if _, err := e.Open(t.Context(), gate.ID(), mesh.Control); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("Open of a closed endpoint = %v", err)
	}
}

func TestRefusals(t *testing.T) {
	gate := start(t, echoing)
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, tc := range map[string]struct {
		id    record.NodeID
		addr  net.Addr
		proto string
		want  string
	}{
		"other protocol": {gate.ID(), gate.Addr(), "idlemesh/9", "does not speak idlemesh/9"},
		"other node":     {record.NodeID{1}, gate.Addr(), mesh.Control, "another node answers there: " + gate.ID().Short()},
		"no such name":   {record.NodeID{1}, mesh.Host("no-port"), mesh.Control, "no path to peer"},
		"bad port":       {record.NodeID{1}, mesh.Host("127.0.0.1:99999999"), mesh.Control, "no path to peer"},
	} {
		t.Run(name, func(t *testing.T) {
			e := client(t)
			e.Learn(tc.id, tc.addr)
			if _, err := e.Open(t.Context(), tc.id, tc.proto); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Open = %v; want %q", err, tc.want)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		e := client(t)
		e.Learn(record.NodeID{1}, silent.LocalAddr())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Open(ctx, record.NodeID{1}, mesh.Control); !errors.Is(err, context.Canceled) {
			t.Errorf("Open = %v", err)
		}
	})
}

// TestOtherKeys dials with certificates that no node has.
func TestOtherKeys(t *testing.T) {
	gate := start(t, echoing)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, ec.Public(), ec)
	if err != nil {
		t.Fatal(err)
	}
	bad := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ec}
	good := certificate(t)
	double := tls.Certificate{Certificate: append(good.Certificate, good.Certificate...), PrivateKey: good.PrivateKey}
	for name, cert := range map[string]tls.Certificate{"ECDSA": bad, "two": double, "none": {}} {
		t.Run(name, func(t *testing.T) {
			pc := socket(t)
			if e, err := mesh.New(pc, cert, mesh.Config{}); err == nil {
				e.Close()
				t.Error("New accepts it")
			}
			c := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{mesh.Control}}
			if cert.PrivateKey != nil {
				c.Certificates = []tls.Certificate{cert}
			}
			conn, err := quic.DialAddr(t.Context(), gate.Addr().String(), c, nil)
			if err == nil { // a client finishes its side before the server looks
				<-conn.Context().Done()
			}
			if len(gate.Peers()) != 0 {
				t.Errorf("it is a peer: %v", gate.Peers())
			}
		})
	}
}

func TestDialsAreShared(t *testing.T) {
	gate, e := start(t, echoing), client(t)
	e.Learn(gate.ID(), gate.Addr())
	reg := prometheus.NewRegistry()
	counted := client(t, mesh.Config{Metrics: reg})
	counted.Learn(gate.ID(), gate.Addr())
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { echo(t, counted, gate.ID()) })
	}
	wg.Wait()
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"idlemesh_mesh_connections": 1, "idlemesh_mesh_dials_total ok": 1,
		"idlemesh_mesh_dials_total failed": 0, "idlemesh_mesh_streams_total self": 50,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v, %v; want %v", name, v, ok, want)
		}
	}
}

func TestRestartedPeerIsDialledAgain(t *testing.T) {
	cert, pc := certificate(t), socket(t)
	addr := pc.LocalAddr().(*net.UDPAddr)
	e := client(t)
	for range 3 {
		gate, stop := serve(t, pc, cert, mesh.Config{}, echoing)
		e.Learn(gate.ID(), addr)
		echo(t, e, gate.ID())
		echo(t, e, gate.ID())
		stop()
		for len(e.Peers()) > 0 { // until it has heard
			runtime.Gosched()
		}
		var err error
		if pc, err = net.ListenUDP("udp", addr); err != nil {
			t.Fatal(err)
		}
	}
	pc.Close()
}

func TestHandlerContextEndsWithItsStream(t *testing.T) {
	var entered, ended = make(chan bool), make(chan bool)
	gate := start(t, map[string]mesh.Handler{mesh.Control: func(ctx context.Context, _ record.NodeID, s io.ReadWriteCloser) {
		entered <- true
		<-ctx.Done()
		s.Close()
		ended <- true
	}})
	e := client(t)
	e.Learn(gate.ID(), gate.Addr())
	for _, leave := range []func(io.Closer){
		func(s io.Closer) { s.Close() },
		func(io.Closer) { e.Close() },
	} {
		s, err := e.Open(t.Context(), gate.ID(), mesh.Control)
		if err != nil {
			t.Fatal(err)
		}
		s.Write([]byte("x"))
		<-entered
		leave(s)
		<-ended
	}
}

func TestStreamsWaitForTheirTurn(t *testing.T) {
	var mu sync.Mutex
	var now, most int
	leave := make(chan bool)
	gate := start(t, map[string]mesh.Handler{mesh.Control: func(_ context.Context, _ record.NodeID, s io.ReadWriteCloser) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-leave
		mu.Lock()
		now--
		mu.Unlock()
		s.Write([]byte{1})
		s.Close()
	}}, mesh.Config{Streams: 3})
	e := client(t)
	e.Learn(gate.ID(), gate.Addr())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := e.Open(t.Context(), gate.ID(), mesh.Control)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			s.Write([]byte{1})
			if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	for range 20 {
		leave <- true
	}
	wg.Wait()
	if most > 3 {
		t.Errorf("%d streams of one peer were served at once, want at most 3", most)
	}
}

// TestConnectionsOfOnePeer opens more than a peer may have.
func TestConnectionsOfOnePeer(t *testing.T) {
	reg := prometheus.NewRegistry()
	gate := start(t, echoing, mesh.Config{Metrics: reg})
	tr := &quic.Transport{Conn: socket(t)}
	defer tr.Close()
	c := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{mesh.Control}, Certificates: []tls.Certificate{certificate(t)}}
	var conns []*quic.Conn
	for range 40 {
		conn, err := tr.Dial(t.Context(), gate.Addr(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseWithError(0, "")
		s, err := conn.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Write([]byte("hello"))
		if _, err := io.ReadFull(s, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for i, conn := range conns[:8] {
		<-conn.Context().Done()
		if err := context.Cause(conn.Context()); !strings.Contains(err.Error(), "too many connections") {
			t.Errorf("connection %d ended with %v", i, err)
		}
	}
	if conns[39].Context().Err() != nil {
		t.Error("the newest connection was closed")
	}
}

func TestNothingIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a, stopA := serve(t, socket(t), certificate(t), mesh.Config{}, echoing)
	b, stopB := serve(t, socket(t), certificate(t), mesh.Config{}, echoing)
	a.Learn(b.ID(), b.Addr())
	echo(t, a, b.ID())
	echo(t, b, b.ID())
	s, err := b.Open(t.Context(), a.ID(), mesh.Control) // left open
	if err != nil {
		t.Fatal(err)
	}
	s.Write([]byte("x"))
	stopA()
	stopB()
	if err := a.Serve(t.Context(), echoing); err == nil {
		t.Error("a closed endpoint serves")
	}
}

func Example() {
	listen := func() *mesh.Endpoint {
		key, _ := identity.New()
		cert, _ := key.Certificate()
		pc, _ := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		e, _ := mesh.New(pc, cert, mesh.Config{})
		return e
	}
	home, gate := listen(), listen()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { gate.Serve(ctx, echoing) })
	home.Learn(gate.ID(), gate.Addr())
	s, err := home.Open(ctx, gate.ID(), mesh.Control)
	if err != nil {
		fmt.Println(err)
		return
	}
	io.WriteString(s, "hello")
	io.CopyN(io.Discard, io.TeeReader(s, writer(func(p []byte) { fmt.Printf("%s\n", p) })), 5)
	s.Close()
	home.Close()
	cancel()
	wg.Wait()
	// Output: hello
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func BenchmarkStream(b *testing.B) {
	one, other := start(b, echoing), start(b, echoing)
	one.Learn(other.ID(), other.Addr())
	for name, to := range map[string]*mesh.Endpoint{"self": one, "peer": other} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				echo(b, one, to.ID())
			}
		})
		b.Run(name+"16", func(b *testing.B) {
			b.SetParallelism(8) // 16 on two cores
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					echo(b, one, to.ID())
				}
			})
		})
	}
}

func echo(t testing.TB, from *mesh.Endpoint, to record.NodeID) {
	t.Helper()
	s, err := from.Open(t.Context(), to, mesh.Control)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	io.WriteString(s, "hello")
	b := make([]byte, 5)
	if _, err := io.ReadFull(s, b); err != nil || !bytes.Equal(b, []byte("hello")) {
		t.Errorf("echo = %q, %v", b, err)
	}
}

func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := key.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func socket(t testing.TB) net.PacketConn {
	t.Helper()
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	return pc
}

func client(t testing.TB, c ...mesh.Config) *mesh.Endpoint {
	t.Helper()
	e, err := mesh.New(socket(t), certificate(t), append(c, mesh.Config{})[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func start(t testing.TB, h map[string]mesh.Handler, c ...mesh.Config) *mesh.Endpoint {
	t.Helper()
	e, stop := serve(t, socket(t), certificate(t), append(c, mesh.Config{})[0], h)
	t.Cleanup(stop)
	return e
}

// serve runs an endpoint until stop, which waits for it.
func serve(t testing.TB, pc net.PacketConn, cert tls.Certificate, c mesh.Config, h map[string]mesh.Handler) (e *mesh.Endpoint, stop func()) {
	t.Helper()
	e, err := mesh.New(pc, cert, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, h) }()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	}
}
