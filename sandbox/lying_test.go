package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/sandbox"
	"idlemesh/sandbox/frame"
)

// liar starts workers that greet like honest ones and then, for each run, do what
// lie says. A worker ends when its connection does.
func liar(lie func(c *frame.Conn, run uint32, s sandbox.Spec)) sandbox.StartFunc {
	return func(context.Context) (*sandbox.Process, error) {
		agent, own := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			c := frame.NewConn(own)
			defer c.Close()
			for {
				f, err := c.Receive()
				if err != nil {
					return
				}
				switch f.Type {
				case frame.TypeSetup:
					c.Send(frame.TypeHello, 0, frame.Hello{Version: "v"})
				case frame.TypeStart:
					var s sandbox.Spec
					if f.Into(&s) == nil {
						lie(c, f.Run, s)
					}
				}
			}
		}()
		return &sandbox.Process{Conn: agent, Kill: own.Close, Wait: func() error { <-done; return nil }}, nil
	}
}

// send sends a body that no honest worker could encode.
func send(c *frame.Conn, t frame.Type, run uint32, body any) bool {
	b, err := cbor.Marshal(body)
	return err == nil && c.SendBody(t, run, b) == nil
}

func TestLyingWorker(t *testing.T) {
	type said = func(c *frame.Conn, run uint32, s sandbox.Spec)
	write := func(names ...string) said {
		return func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			for _, n := range names {
				send(c, frame.TypeWrite, run, frame.Write{Name: n, Bytes: []byte("x"), End: true})
			}
		}
	}
	done := func(r sandbox.Result) said {
		return func(c *frame.Conn, run uint32, _ sandbox.Spec) { send(c, frame.TypeDone, run, r) }
	}
	for name, lie := range map[string]said{
		"another run's number": func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			send(c, frame.TypeDone, run+1, sandbox.Result{End: sandbox.Exited})
		},
		"endless events": func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			for send(c, frame.TypeEvent, run, sandbox.Event{Kind: sandbox.Progress, Text: strings.Repeat("x", 8000)}) {
			}
		},
		"endless small events": func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			for send(c, frame.TypeEvent, run, sandbox.Event{Kind: sandbox.Progress}) {
			}
		},
		"endless reads": func(c *frame.Conn, run uint32, s sandbox.Spec) {
			for send(c, frame.TypeRead, run, frame.Read{Blob: s.Module.Blob, N: 1}) {
			}
		},
		"a huge read": func(c *frame.Conn, run uint32, s sandbox.Spec) {
			send(c, frame.TypeRead, run, frame.Read{Blob: s.Module.Blob, N: 1 << 31})
		},
		"a read before the start": func(c *frame.Conn, run uint32, s sandbox.Spec) {
			send(c, frame.TypeRead, run, frame.Read{Blob: s.Module.Blob, N: 1, Offset: -1})
		},
		"a start":          func(c *frame.Conn, run uint32, s sandbox.Spec) { send(c, frame.TypeStart, run, s) },
		"a second hello":   func(c *frame.Conn, run uint32, _ sandbox.Spec) { send(c, frame.TypeHello, run, frame.Hello{}) },
		"a broken body":    func(c *frame.Conn, run uint32, _ sandbox.Spec) { c.SendBody(frame.TypeWrite, run, []byte{0xff}) },
		"a broken result":  func(c *frame.Conn, run uint32, _ sandbox.Spec) { c.SendBody(frame.TypeDone, run, []byte{0xff}) },
		"no such end":      done(sandbox.Result{End: 99}),
		"too many metrics": done(sandbox.Result{End: sandbox.Exited, Metrics: make([]sandbox.Metric, 65)}),
		"stdout as an event": func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			send(c, frame.TypeEvent, run, sandbox.Event{Kind: sandbox.Stdout})
		},
		"a log line of two": func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			send(c, frame.TypeEvent, run, sandbox.Event{Kind: sandbox.Log, Text: "a\nb"})
		},
		"../x":                 write("../x"),
		"out/../x":             write("out/../x"),
		"/etc/passwd":          write("/etc/passwd"),
		"out//x":               write("out//x"),
		"out/":                 write("out/"),
		"log":                  write("log"),
		"a zero in a name":     write("out/a\x00b"),
		"out of order":         write("out/b", "out/a"),
		"a file twice":         write("out/a", "out/a"),
		"a name without end":   write("out/" + strings.Repeat("x", 5000)),
		"more than the limit":  writeForever("stdout"),
		"more than a file may": writeForever("out/x"),
		"two files at once": func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			send(c, frame.TypeWrite, run, frame.Write{Name: "out/a", Bytes: []byte("x")})
			send(c, frame.TypeWrite, run, frame.Write{Name: "out/b", Bytes: []byte("x")})
		},
		"a file without end": func(c *frame.Conn, run uint32, _ sandbox.Spec) {
			send(c, frame.TypeWrite, run, frame.Write{Name: "out/a", Bytes: []byte("x")})
			send(c, frame.TypeDone, run, sandbox.Result{End: sandbox.Exited})
		},
		"it hangs up": func(c *frame.Conn, _ uint32, _ sandbox.Spec) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := openPool(t, sandbox.Config{Start: liar(lie)})
			h := newHost([]byte("module"))
			res, err := p.Execute(t.Context(), "alice", spec([]byte("module")), h)
			if err == nil {
				t.Fatalf("Execute = %+v", res)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, o := range h.order {
				if h.closed[o] != 1 {
					t.Errorf("%s closed %d times", o, h.closed[o])
				}
				if n := uint64(h.outs[o].Len()); n > 1<<20 {
					t.Errorf("%s has %d bytes", o, n)
				}
			}
		})
	}
}

func writeForever(name string) func(*frame.Conn, uint32, sandbox.Spec) {
	return func(c *frame.Conn, run uint32, _ sandbox.Spec) {
		acks := make(chan struct{})
		go func() { // take credit, so that only the limit stops it
			defer close(acks)
			for {
				if _, err := c.Receive(); err != nil {
					return
				}
			}
		}()
		for range 2 << 20 / (frame.Chunk / 4) {
			if !send(c, frame.TypeWrite, run, frame.Write{Name: name, Bytes: make([]byte, frame.Chunk/4)}) {
				break
			}
		}
		<-acks
	}
}

// TestHonestNumbers holds that the agent believes its own clock, not the worker's.
func TestHonestNumbers(t *testing.T) {
	p := openPool(t, sandbox.Config{Start: liar(func(c *frame.Conn, run uint32, _ sandbox.Spec) {
		send(c, frame.TypeDone, run, sandbox.Result{End: sandbox.Exited,
			Usage: sandbox.Usage{Wall: 1 << 40, CPU: 1 << 60, Memory: 1 << 50}})
	})})
	res, err := p.Execute(t.Context(), "alice", spec([]byte("m")), newHost([]byte("m")))
	if err != nil || res.Usage.Wall > 60_000 || res.Usage.CPU > 60e9 || res.Usage.Memory > 64<<20 {
		t.Errorf("Execute = %+v, %v", res, err)
	}
}

// A brokenHost fails as a full disk does.
type brokenHost struct {
	*testHost
	fail string
}

var errDisk = errors.New("disk full")

func (h brokenHost) Open(name string) (io.ReaderAt, error) {
	if h.fail == "open" {
		return nil, errDisk
	}
	return h.testHost.Open(name)
}

func (h brokenHost) Create(name string) (io.WriteCloser, error) {
	if h.fail == "create" {
		return nil, errDisk
	}
	return h.testHost.Create(name)
}

// TestHostFails holds that what the node cannot do is an error and no result.
func TestHostFails(t *testing.T) {
	p := openPool(t, sandbox.Config{})
	for _, what := range []string{"open", "create"} {
		t.Run(what, func(t *testing.T) {
			wasm := printing(1, fmt.Sprint("hello ", what)).wasm()
			res, err := p.Execute(t.Context(), "alice", spec(wasm), brokenHost{newHost(wasm), what})
			if !errors.Is(err, errDisk) {
				t.Errorf("Execute = %+v, %v", res, err)
			}
		})
	}
}
