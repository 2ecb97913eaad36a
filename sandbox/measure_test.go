package sandbox_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/gpu/kernel"
	"idlemesh/sandbox"
	"idlemesh/sandbox/frame"
)

func TestMeasure(t *testing.T) {
	p := sandbox.NewPool(sandbox.Config{VRAM: 256 << 20})
	var names []string
	hello, b, err := p.Measure(t.Context(), time.Millisecond, func(m frame.Measured) {
		names = append(names, m.Name)
		if len(p.Processes()) != 1 {
			t.Errorf("the processes are %v while one measures", p.Processes())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var m kernel.Measured
	if err := cbor.Unmarshal(b, &m); err != nil || m.FLOPS == 0 || m.Tokens == 0 || len(names) != 5 || hello.Hardware == "" {
		t.Errorf("measured %+v, %v, on %q, steps %q", m, err, hello.Hardware, names)
	}
	if n := len(p.Processes()); n != 0 {
		t.Errorf("%d workers are left", n)
	}
	paths, err := p.Paths(t.Context())
	if err != nil || len(paths) == 0 || paths[len(paths)-1].Device != "cpu" || !paths[len(paths)-1].Opens {
		t.Errorf("Paths = %+v, %v, want the processor last", paths, err)
	}
	small := sandbox.NewPool(sandbox.Config{VRAM: 1 << 20})
	if _, _, err := small.Measure(t.Context(), time.Millisecond, nil); err == nil || !strings.Contains(err.Error(), "quota") {
		t.Errorf("a device of a megabyte: %v", err)
	}
}

// TestMeasureLies meets workers that do not measure.
func TestMeasureLies(t *testing.T) {
	for name, tc := range map[string]struct {
		say  func(c *frame.Conn)
		want string
	}{
		"another frame": {func(c *frame.Conn) { send(c, frame.TypeUsage, 0, sandbox.Usage{}) }, "instead of a measurement"},
		"of a run":      {func(c *frame.Conn) { send(c, frame.TypeMeasured, 7, frame.Measured{}) }, "instead of a measurement"},
		"no end": {func(c *frame.Conn) {
			for send(c, frame.TypeMeasured, 0, frame.Measured{Total: 5}) {
			}
		}, "more than 100 steps"},
		"nonsense": {func(c *frame.Conn) { c.SendBody(frame.TypeMeasured, 0, []byte{0xff}) }, "malformed"},
		"gone":     {func(c *frame.Conn) { c.Close() }, "worker process ended"},
		"refused":  {func(c *frame.Conn) { send(c, frame.TypeMeasured, 0, frame.Measured{End: true, Err: "too hot"}) }, "too hot"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sandbox.NewPool(sandbox.Config{Start: mute(tc.say)})
			if _, _, err := p.Measure(t.Context(), time.Second, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Measure = %v, want %q", err, tc.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := sandbox.NewPool(sandbox.Config{Start: mute(func(*frame.Conn) { cancel() })})
	if _, _, err := p.Measure(ctx, time.Hour, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a worker that says nothing: %v", err)
	}
}

// mute starts workers that greet and answer Measure with say.
func mute(say func(c *frame.Conn)) sandbox.StartFunc {
	return answering(func(c *frame.Conn, f frame.Frame) {
		switch f.Type {
		case frame.TypeSetup:
			c.Send(frame.TypeHello, 0, frame.Hello{Version: "v"})
		case frame.TypeMeasure:
			say(c)
		}
	})
}

// answering starts workers that answer each frame by answer.
func answering(answer func(c *frame.Conn, f frame.Frame)) sandbox.StartFunc {
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
				answer(c, f)
			}
		}()
		return &sandbox.Process{Conn: agent, Kill: own.Close, Wait: func() error { <-done; return nil }}, nil
	}
}
