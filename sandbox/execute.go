package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"idlemesh/sandbox/frame"
)

// A serving is one run as the agent sees it.
type serving struct {
	mailbox
	id     uint32
	w      *worker
	h      Host
	limits Limits
	out    outputs
	began  time.Time
	grace  time.Duration
	sent   chan struct{} // closed when the Start is

	mu    sync.Mutex
	kill  *time.Timer // ends the worker when the run does not end in time
	end   End         // why the agent stopped it; zero while it did not
	fault error       // of the host, which lost the run
}

// Execute runs s in tenant's worker and serves it from h until it ends. Ending ctx
// cancels the run. What the guest, its limits or ctx ended is a Result; an error
// means that the node is to blame, and that nothing is known of the run.
//
// A guest is stopped where it calls the host or has used a slice of its fuel, which takes
// some milliseconds at most. A worker that does not stop it is killed Grace after its wall
// limit or the end of ctx; other runs of the tenant then end with ErrWorkerLost.
func (p *Pool) Execute(ctx context.Context, tenant string, s Spec, h Host) (Result, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return Result{End: Cancelled, Error: "cancelled before it began"}, nil
	}
	s.Limits = s.Limits.withDefaults()
	body, err := frame.Encode(s)
	if err != nil {
		return Result{}, fmt.Errorf("run: %w", err)
	}
	if len(body) > frame.Max {
		return Result{End: BadModule, Error: fmt.Sprintf("inputs, args and env take %d bytes, at most %d fit", len(body), frame.Max)}, nil
	}
	pl, err := p.acquire(ctx, tenant)
	if err != nil {
		if ctx.Err() != nil {
			return Result{End: Cancelled, Error: "cancelled before it began"}, nil
		}
		return Result{}, fmt.Errorf("run: %w", err)
	}
	defer p.release(tenant, pl)
	leave, err := p.enter(ctx, pl, s.Limits.VRAM)
	if err != nil {
		if ctx.Err() != nil {
			return Result{End: Cancelled, Error: "cancelled before it began"}, nil
		}
		return Result{}, fmt.Errorf("run: %w", err)
	}
	defer leave()
	r, err := p.serve(ctx, pl.w, s, h, body)
	if err != nil {
		p.counts.runs.WithLabelValues(NodeLost.String()).Inc()
		return Result{}, fmt.Errorf("run: %w", err)
	}
	p.counts.runs.WithLabelValues(r.End.String()).Inc()
	return r, nil
}

func (p *Pool) serve(ctx context.Context, w *worker, s Spec, h Host, body []byte) (Result, error) {
	r := &serving{mailbox: mailbox{wake: make(chan struct{}, 1)}, w: w, h: h, limits: s.Limits, sent: make(chan struct{}),
		out: outputs{h: h, left: s.Limits.Output, tape: s.transcript()}, began: time.Now(), grace: p.cfg.Grace}
	w.add(r)
	defer r.out.abandon()
	r.after(TimedOut, time.Duration(min(s.Limits.Wall, 1<<42))*time.Millisecond+p.cfg.Grace)
	defer r.disarm()
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		r.cancel(Cancelled, nil)
	})
	defer func() {
		if !stop() {
			<-cancelled
		}
	}()
	err := w.conn.SendBody(frame.TypeStart, r.id, body)
	close(r.sent)
	if err != nil {
		w.end(err)
	}
	return r.loop()
}

// loop serves the run until its Done or its worker's end.
func (r *serving) loop() (Result, error) {
	for {
		select {
		case <-r.wake:
		case <-r.w.gone:
			if res, done, err := r.handleAll(); done {
				return res, err
			}
			return r.lost()
		}
		if res, done, err := r.handleAll(); done {
			return res, err
		}
	}
}

func (r *serving) handleAll() (res Result, done bool, err error) {
	for _, f := range r.take() {
		if f.Type == frame.TypeDone {
			res, err = r.finish(f)
			return res, true, err
		}
		err := r.handle(f)
		switch {
		case errors.Is(err, errLying) || errors.Is(err, frame.ErrFrame):
			r.w.end(err)
		case err != nil:
			r.cancel(NodeLost, err)
		}
	}
	return Result{}, false, nil
}

// handle serves one frame. Once the run is lost its frames are taken but not heeded.
func (r *serving) handle(f frame.Frame) error {
	r.mu.Lock()
	deaf := r.fault != nil
	r.mu.Unlock()
	var err error
	switch f.Type {
	case frame.TypeRead:
		return r.read(f, deaf)
	case frame.TypeWrite:
		var w frame.Write
		if err = f.Into(&w); err == nil && !deaf {
			err = r.out.write(w)
		}
		if err == nil && strings.HasPrefix(w.Name, "out/") {
			r.delivering()
		}
	case frame.TypeEvent:
		var e Event
		if err = f.Into(&e); err == nil && !deaf {
			err = r.out.event(e)
		}
	}
	if err != nil {
		return err
	}
	r.handled(f) // before the worker hears of it and sends more
	return r.send(frame.TypeCredit, frame.Credit{N: uint32(cost(f))})
}

// send answers the worker. A worker that cannot be written to is ending, which its
// watch notices.
func (r *serving) send(t frame.Type, body any) error {
	if err := r.w.conn.Send(t, r.id, body); err != nil {
		r.w.end(err)
	}
	return nil
}

func (r *serving) read(f frame.Frame, deaf bool) error {
	var q frame.Read
	if err := f.Into(&q); err != nil {
		return err
	}
	if q.Offset < 0 || q.N > frame.Chunk {
		return fmt.Errorf("%w: read of %d bytes at %d", errLying, q.N, q.Offset)
	}
	d := frame.Data{ID: q.ID, Err: "the run is lost"}
	var err error
	if !deaf {
		d.Err = ""
		if d.Bytes, err = readBlob(r.h, q); err != nil {
			d.Err = clip(strings.ToValidUTF8(err.Error(), "?"), 1024)
		}
	}
	r.handled(f)
	return errors.Join(err, r.send(frame.TypeData, d))
}

func readBlob(h Host, q frame.Read) ([]byte, error) {
	b, err := h.Open(q.Blob)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, q.N)
	n, err := b.ReadAt(buf, q.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:n], nil
}

// finish reads the run's result. The agent's own clock says how long it took.
func (r *serving) finish(f frame.Frame) (Result, error) {
	var res Result
	err := f.Into(&res)
	if err == nil {
		err = checkResult(res)
	}
	if err == nil {
		err = r.out.complete(res.End)
	}
	r.mu.Lock()
	end, fault := r.end, r.fault
	r.mu.Unlock()
	switch {
	case fault != nil:
		return Result{}, fault
	case err != nil:
		if errors.Is(err, errLying) || errors.Is(err, frame.ErrFrame) {
			r.w.end(err)
		}
		return Result{}, err
	case res.End == NodeLost:
		return Result{}, fmt.Errorf("worker: %s", res.Error)
	case end == Cancelled && res.End == TimedOut: // both, and ctx came first
		res.End = Cancelled
	}
	r.measure(&res.Usage)
	return res, nil
}

func checkResult(r Result) error {
	if r.End < Exited || r.End > NodeLost || len(r.Metrics) > 64 {
		return fmt.Errorf("%w: a result with end %d and %d metrics", errLying, r.End, len(r.Metrics))
	}
	for _, m := range r.Metrics {
		if len(m.Name) > 256 || math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
			return fmt.Errorf("%w: a metric that is none", errLying)
		}
	}
	return nil
}

// measure corrects what the worker claims by what the agent saw: one thread cannot
// have used more processor time than passed.
func (r *serving) measure(u *Usage) {
	took := time.Since(r.began)
	u.Wall = uint64(took.Milliseconds()) + 1
	u.CPU = min(u.CPU, uint64(took))
	u.Memory = min(u.Memory, r.limits.Memory)
}

// lost says how a run ended whose worker did.
func (r *serving) lost() (Result, error) {
	r.mailbox.mu.Lock()
	res := Result{Usage: r.usage}
	r.mailbox.mu.Unlock()
	r.measure(&res.Usage)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fault != nil:
		return Result{}, r.fault
	case r.end == TimedOut:
		res.End, res.Error = TimedOut, fmt.Sprintf("the time limit of %d ms was reached", r.limits.Wall)
		return res, nil
	case r.end == Cancelled:
		res.End, res.Error = Cancelled, "cancelled"
		return res, nil
	case r.w.alone(r) && r.w.proc.Tail != nil && outOfMemory(r.w.proc.Tail()):
		res.End, res.Error = OverLimit, "the worker process ran out of memory"
		return res, nil
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return Result{}, fmt.Errorf("%w: %w%s", ErrWorkerLost, r.w.why, lastWords(r.w.proc))
}

// outOfMemory reports whether the Go runtime died for want of memory. A guest cannot
// write there. Near the cap the runtime finds out in one of three ways: it is refused
// memory and says so, it is refused a thread's stack, or it uses an address that it was
// not given: a fault at zero in its own code, while it runs no goroutine.
func outOfMemory(words string) bool {
	for _, sign := range []string{"out of memory", "cannot allocate memory", "pthread_create failed: Resource temporarily unavailable"} {
		if strings.Contains(words, sign) {
			return true
		}
	}
	_, fault, segv := strings.Cut(words, "SIGSEGV: segmentation violation\n")
	head, frames, idle := strings.Cut(fault, "[idle]:\n")
	return segv && idle && strings.Contains(head, "addr=0x0\n") && strings.Contains(head, "goroutine 0 ") && strings.HasPrefix(frames, "runtime.")
}

// cancel stops the run from the agent's side: by word, and after Grace by force.
func (r *serving) cancel(end End, fault error) {
	r.mu.Lock()
	first := r.end == 0 && r.fault == nil
	if r.fault == nil && fault != nil {
		r.fault = fault
	}
	r.mu.Unlock()
	if first {
		r.after(end, r.grace)
		<-r.sent
		_ = r.send(frame.TypeCancel, nil) // its failure ends the worker
	}
}

// after ends the worker in d, on behalf of this run, unless it ends before.
func (r *serving) after(end End, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kill != nil {
		r.kill.Stop()
	}
	if end != TimedOut {
		r.end = end
	}
	r.kill = time.AfterFunc(d, func() {
		r.mu.Lock()
		if r.end == 0 {
			r.end = TimedOut
		}
		r.mu.Unlock()
		r.w.end(fmt.Errorf("run %d did not stop in time", r.id))
	})
}

func (r *serving) disarm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kill.Stop()
}

// delivering gives a run that has ended time to hand over its files.
func (r *serving) delivering() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end == 0 && r.out.files == 1 {
		const slowest = 4 << 20 // bytes a second
		r.kill.Reset(r.grace + time.Minute + time.Duration(min(r.limits.Output/slowest, 1<<20))*time.Second)
	}
}
