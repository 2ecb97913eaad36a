package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"idlemesh/sandbox/frame"
)

// A worker is a worker process as the agent sees it.
type worker struct {
	proc  *Process
	conn  *frame.Conn
	hello frame.Hello
	gone  chan struct{} // closed when the process has ended

	share  uint64        // bytes of the device's that it was told; who holds Pool.sharing has it
	shared chan struct{} // an answer to that

	mu   sync.Mutex
	runs map[uint32]*serving
	last uint32 // run number
	why  error  // it was ended for
}

// errLying is wrapped by the reasons to end a worker that breaks the protocol.
var errLying = errors.New("worker breaks the protocol")

// start starts a worker, waits for its hello and listens to it.
func (p *Pool) start(ctx context.Context) (*worker, error) {
	w, err := p.launch(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.alive[w] = true
		p.ended.Go(func() { p.watch(w) })
	}
	p.mu.Unlock()
	if closed {
		w.end(ErrClosed)
		_ = w.proc.Wait()
		return nil, ErrClosed
	}
	return w, nil
}

// launch starts a worker and waits for its hello.
func (p *Pool) launch(ctx context.Context) (*worker, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	proc, err := p.cfg.Start(ctx)
	if err != nil {
		return nil, err
	}
	w := &worker{proc: proc, conn: frame.NewConn(proc.Conn), gone: make(chan struct{}), shared: make(chan struct{}, 1), runs: map[uint32]*serving{}}
	p.counts.started.Inc()
	stop := context.AfterFunc(ctx, func() { w.end(ctx.Err()) })
	err = w.greet(frame.Setup{Device: p.cfg.Device, VRAM: p.cfg.VRAM, Memory: p.cfg.Memory})
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		if errors.Is(err, io.EOF) { // it ends by itself and is about to say why
			late := time.AfterFunc(time.Second, func() { w.end(err) })
			_ = proc.Wait()
			late.Stop()
			w.end(err)
		} else {
			w.end(err)
			_ = proc.Wait()
		}
		close(w.gone)
		return nil, fmt.Errorf("start worker: %w%s", err, lastWords(proc))
	}
	w.share = w.hello.VRAM
	return w, nil
}

// lastWords returns the first line of what a dead worker said.
func lastWords(proc *Process) string {
	if proc.Tail == nil || proc.Tail() == "" {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(proc.Tail()), "\n")
	return ": " + clip(first, 512)
}

func clip(s string, n int) string { return s[:min(n, len(s))] }

func (w *worker) greet(s frame.Setup) error {
	if err := w.conn.Send(frame.TypeSetup, 0, s); err != nil {
		return err
	}
	f, err := w.conn.Receive()
	if err != nil {
		return err
	}
	if f.Type != frame.TypeHello || f.Run != 0 {
		return fmt.Errorf("%w: frame %d instead of a hello", errLying, f.Type)
	}
	return f.Into(&w.hello)
}

// watch hands a worker's frames to its runs until it ends. It never waits for a run.
func (p *Pool) watch(w *worker) {
	for {
		f, err := w.conn.Receive()
		if err == nil {
			err = w.dispatch(f)
		}
		if err != nil {
			w.end(err)
			break
		}
	}
	_ = w.proc.Wait() // how it ended says no more than why
	w.mu.Lock()
	why := w.why
	w.mu.Unlock()
	if !errors.Is(why, ErrClosed) && !errors.Is(why, errIdle) {
		p.counts.lost.Inc()
		p.cfg.Log.Warn("worker ended", "why", why, "said", strings.TrimPrefix(lastWords(w.proc), ": "))
	}
	p.mu.Lock()
	delete(p.alive, w)
	p.mu.Unlock()
	close(w.gone)
}

func (w *worker) dispatch(f frame.Frame) error {
	if f.Type == frame.TypeShared && f.Run == 0 {
		select {
		case w.shared <- struct{}{}:
			return nil
		default:
			return fmt.Errorf("%w: it tells of a share that it was not given", errLying)
		}
	}
	w.mu.Lock()
	s := w.runs[f.Run]
	if f.Type == frame.TypeDone {
		delete(w.runs, f.Run)
	}
	w.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w: frame %d for run %d, which it does not have", errLying, f.Type, f.Run)
	}
	return s.accept(f)
}

// end ends the worker for the first reason given. It does not wait.
func (w *worker) end(why error) {
	w.mu.Lock()
	if w.why == nil {
		w.why = why
	}
	w.mu.Unlock()
	_ = w.proc.Kill() // it may have ended by itself
	_ = w.conn.Close()
}

func (w *worker) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why != nil
}

// add gives a run its number.
func (w *worker) add(s *serving) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	s.id = w.last
	w.runs[s.id] = s
}

// alone reports whether the worker had at most this one run.
func (w *worker) alone(s *serving) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs) == 0 || len(w.runs) == 1 && w.runs[s.id] == s
}

// A mailbox holds what a worker sent for a run and nobody has looked at. Its size is
// bounded by what the worker has credit for.
type mailbox struct {
	wake chan struct{}

	mu    sync.Mutex
	queue []frame.Frame
	bytes int
	reads int
	usage Usage // as last reported
}

// cost is what a frame uses of its run's window.
func cost(f frame.Frame) int { return len(f.Body) + frame.Overhead }

// accept takes a frame in, or says how it lies.
func (m *mailbox) accept(f frame.Frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch f.Type {
	case frame.TypeWrite, frame.TypeEvent:
		if m.bytes += cost(f); m.bytes > frame.Window {
			return fmt.Errorf("%w: run %d sends without credit", errLying, f.Run)
		}
	case frame.TypeRead:
		if m.reads++; m.reads > frame.Reads {
			return fmt.Errorf("%w: run %d has too many reads open", errLying, f.Run)
		}
	case frame.TypeUsage:
		return f.Into(&m.usage)
	case frame.TypeDone:
	default:
		return fmt.Errorf("%w: unexpected frame %d", errLying, f.Type)
	}
	m.queue = append(m.queue, f)
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return nil
}

func (m *mailbox) take() []frame.Frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue
	m.queue = nil
	return q
}

// handled says that the agent is done with f.
func (m *mailbox) handled(f frame.Frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch f.Type {
	case frame.TypeWrite, frame.TypeEvent:
		m.bytes -= cost(f)
	case frame.TypeRead:
		m.reads--
	}
}
