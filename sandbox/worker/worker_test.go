package worker_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"idlemesh/sandbox"
	"idlemesh/sandbox/frame"
	"idlemesh/sandbox/worker"
)

// TestMain lets the test binary be its own worker.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args, sandbox.Args) {
		if err := worker.Main(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// spin is a module whose _start never ends.
const spin = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" +
	"\x07\x0a\x01\x06_start\x00\x00" + "\x0a\x09\x01\x07\x00\x03\x40\x0c\x00\x0b\x0b"

// TestEndsWithItsAgent closes the connection of a worker in each of its states, also
// of one whose guest cannot be stopped: the process ends.
func TestEndsWithItsAgent(t *testing.T) {
	greet := func(c *frame.Conn) error {
		if err := c.Send(frame.TypeSetup, 0, frame.Setup{Device: "cpu"}); err != nil {
			return err
		}
		_, err := c.Receive()
		return err
	}
	bind := func(c *frame.Conn) error {
		if err := greet(c); err != nil {
			return err
		}
		return c.Send(frame.TypeBind, 0, frame.Bind{})
	}
	for name, prepare := range map[string]func(*frame.Conn) error{
		"a spare":  greet,
		"a tenant": bind,
		"a spinning guest": func(c *frame.Conn) error {
			if err := bind(c); err != nil {
				return err
			}
			err := c.Send(frame.TypeStart, 1, sandbox.Spec{Module: sandbox.Input{Blob: "m", Size: int64(len(spin))},
				Seed: make([]byte, 32), Limits: sandbox.Limits{Memory: 1 << 20, Wall: 60_000, Output: 1}})
			if err != nil {
				return err
			}
			f, err := c.Receive()
			if err != nil {
				return err
			}
			var r frame.Read
			if err := f.Into(&r); err != nil {
				return err
			}
			if err := c.Send(frame.TypeData, 1, frame.Data{ID: r.ID, Bytes: []byte(spin)}); err != nil {
				return err
			}
			f, err = c.Receive() // of a run that has gone on for a second
			if err == nil && f.Type != frame.TypeUsage {
				err = fmt.Errorf("frame %d", f.Type)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := sandbox.Reexec(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := frame.NewConn(p.Conn)
			if err := prepare(c); err != nil {
				t.Errorf("%v: %s", err, p.Tail())
			}
			c.Close()
			if err := p.Wait(); err != nil {
				t.Errorf("the worker ended with %v: %s", err, p.Tail())
			}
		})
	}
}

func TestRefusesItsAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		send func(c *frame.Conn) error
		want string
	}{
		"a start before setup": {func(c *frame.Conn) error { return c.Send(frame.TypeStart, 1, sandbox.Spec{}) }, "instead of"},
		"a setup that is none": {func(c *frame.Conn) error { return c.SendBody(frame.TypeSetup, 0, []byte{0xff}) }, "malformed"},
		"a device that is none": {func(c *frame.Conn) error {
			return c.Send(frame.TypeSetup, 0, frame.Setup{Device: "quantum"})
		}, "quantum"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := worker.InProcess(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := frame.NewConn(p.Conn)
			if err := tc.send(c); err != nil {
				t.Error(err)
			}
			if err := p.Wait(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the worker ended with %v", err)
			}
			c.Close()
		})
	}
}
