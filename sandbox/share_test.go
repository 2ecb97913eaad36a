package sandbox_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/sandbox"
	"idlemesh/sandbox/frame"
)

// loads runs a guest that brings n bytes of an input to the device, and reports whether
// they were read for it, or were there.
func loads(t *testing.T, p *sandbox.Pool, tenant string, n int, vram uint64) bool {
	t.Helper()
	wasm := fromInput("w", 0, 0, 6).wasm()
	s, h := spec(wasm), counting{testHost: newHost(wasm)}
	h.blobs["big"] = []byte(strings.Repeat("w", n))
	s.Inputs, s.Limits.VRAM = map[string]sandbox.Input{"w": {Blob: "big", Size: int64(n)}}, vram
	res, err := p.Execute(t.Context(), tenant, s, &h)
	if err != nil || res.End != sandbox.Exited || h.out("stdout") != "wwwwww" {
		t.Fatalf("%s: %q, %+v, %v", tenant, h.out("stdout"), res, err)
	}
	return h.reads.Load() > 0
}

// counting counts how often the input is opened.
type counting struct {
	*testHost
	reads atomic.Int32
}

func (c *counting) Open(name string) (io.ReaderAt, error) {
	if name == "big" {
		c.reads.Add(1)
	}
	return c.testHost.Open(name)
}

// TestSharesOfADevice: what lies warm for one tenant yields to another's lease, no more
// than it has to, and nobody's lease gets more than its own.
func TestSharesOfADevice(t *testing.T) {
	p := openPool(t, sandbox.Config{Device: "sim:t4", VRAM: 4 << 20, Slots: 4})
	const meg = 1 << 20
	if !loads(t, p, "alice", meg, 2*meg) || loads(t, p, "alice", meg, 2*meg) {
		t.Fatal("what alice brought is not there for her next run, or was before her first")
	}
	if !loads(t, p, "bob", meg, 2*meg) { // half of the other 2 MiB may stay alice's
		t.Error("bob finds what alice brought")
	}
	if loads(t, p, "alice", meg, 2*meg) {
		t.Error("alice's lay in nobody's way and is gone")
	}
	if !loads(t, p, "carol", meg, 4*meg) { // all of it
		t.Error("carol finds what others brought")
	}
	if !loads(t, p, "alice", meg, 2*meg) || !loads(t, p, "bob", meg, 2*meg) {
		t.Error("a lease of the whole device left something in its way")
	}
}

// TestLeasesWaitForMemory: a run waits for device memory that others have, and ends when
// it is cancelled meanwhile.
func TestLeasesWaitForMemory(t *testing.T) {
	p := openPool(t, sandbox.Config{Device: "sim:t4", VRAM: 4 << 20, Slots: 4})
	long := guest{imports: printing(1, "x").imports, data: iovec("up"), code: do(printing(1, "").code, forever())}.wasm()
	ctx, cancel := context.WithCancel(t.Context())
	alice := start(t, p, ctx, "alice", long, 3<<20)
	<-alice.heard
	impatient, stop := context.WithCancel(t.Context())
	carol := start(t, p, impatient, "carol", long, 2<<20)
	bob := start(t, p, ctx, "bob", long, 1<<20)
	<-bob.heard // there is room for him beside alice
	select {
	case <-carol.heard:
		t.Error("carol's run began, for which there is no room")
	case <-time.After(200 * time.Millisecond):
	}
	stop()
	if e := <-carol.done; e.err != nil || e.res.End != sandbox.Cancelled {
		t.Errorf("carol's run ended with %+v", e)
	}
	dave := start(t, p, t.Context(), "dave", printing(1, "up").wasm(), 4<<20)
	cancel()
	<-alice.done
	<-bob.done
	if e := <-dave.done; e.err != nil || e.res.End != sandbox.Exited {
		t.Errorf("dave's run, after the others, ended with %+v", e)
	}
}

type started struct {
	heard chan sandbox.Event
	done  chan ended
}

type ended struct {
	res sandbox.Result
	err error
}

func start(t *testing.T, p *sandbox.Pool, ctx context.Context, tenant string, wasm []byte, vram uint64) started {
	h := newHost(wasm)
	h.heard = make(chan sandbox.Event, 16)
	s := spec(wasm)
	s.Limits.VRAM = vram
	r := started{h.heard, make(chan ended, 1)}
	go func() {
		res, err := p.Execute(ctx, tenant, s, h)
		r.done <- ended{res, err}
	}()
	return r
}

// TestShareLies: a worker that does not give up its share when it is told to, or tells of
// one unasked, is ended; the run that needs the room goes on.
func TestShareLies(t *testing.T) {
	for name, unasked := range map[string]bool{"silent": false, "unasked": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var started atomic.Int32
				gone := make(chan struct{})
				p := sandbox.NewPool(sandbox.Config{Slots: 4, Start: func(ctx context.Context) (*sandbox.Process, error) {
					lies := started.Add(1) == 1
					proc, err := answering(func(c *frame.Conn, f frame.Frame) {
						switch f.Type {
						case frame.TypeSetup:
							c.Send(frame.TypeHello, 0, frame.Hello{Version: "v", VRAM: 4 << 20})
						case frame.TypeShare:
							if !lies {
								c.SendBody(frame.TypeShared, 0, nil)
							}
						case frame.TypeStart:
							if unasked && lies {
								c.SendBody(frame.TypeShared, 0, nil)
								c.SendBody(frame.TypeShared, 0, nil)
							}
							send(c, frame.TypeDone, f.Run, sandbox.Result{End: sandbox.Exited})
						}
					})(ctx)
					if err == nil && lies {
						wait := proc.Wait
						proc.Wait = func() error { defer close(gone); return wait() }
					}
					return proc, err
				}})
				s := spec([]byte("x"))
				res, err := p.Execute(t.Context(), "alice", s, newHost(nil)) // all of the device is hers
				if lost := errors.Is(err, sandbox.ErrWorkerLost); lost != unasked || !lost && res.End != sandbox.Exited {
					t.Errorf("alice: %+v, %v", res, err)
				}
				if res, err := p.Execute(t.Context(), "bob", s, newHost(nil)); err != nil || res.End != sandbox.Exited {
					t.Errorf("bob: %+v, %v", res, err)
				}
				<-gone
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				p.Run(ctx) // ends the others
			})
		})
	}
}

// TestLeasesWaitForTheDead: a worker that made room for another tenant's holds its memory
// until its process has ended, and the run that has it next begins after that.
func TestLeasesWaitForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 5 * time.Second
		var begun []time.Time
		p := sandbox.NewPool(sandbox.Config{Slots: 1, Start: func(ctx context.Context) (*sandbox.Process, error) {
			proc, err := answering(func(c *frame.Conn, f frame.Frame) {
				switch f.Type {
				case frame.TypeSetup:
					c.Send(frame.TypeHello, 0, frame.Hello{Version: "v", VRAM: 4 << 20})
				case frame.TypeShare:
					c.SendBody(frame.TypeShared, 0, nil)
				case frame.TypeStart:
					begun = append(begun, time.Now())
					send(c, frame.TypeDone, f.Run, sandbox.Result{End: sandbox.Exited})
				}
			})(ctx)
			wait := proc.Wait
			proc.Wait = func() error {
				time.Sleep(slow)
				return wait()
			}
			return proc, err
		}})
		for _, who := range []string{"alice", "bob"} {
			if res, err := p.Execute(t.Context(), who, spec([]byte("x")), newHost(nil)); err != nil || res.End != sandbox.Exited {
				t.Fatalf("%s: %+v, %v", who, res, err)
			}
		}
		if took := begun[1].Sub(begun[0]); took < slow {
			t.Errorf("bob's run began after %v, while alice's worker held its memory", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Run(ctx)
	})
}
