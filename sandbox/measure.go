package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"idlemesh/sandbox/frame"
)

// patience is how many times as long as it was asked to a measurement may take.
const patience = 4

// Measure lets a worker of its own measure the device, in about limit, and returns what
// it says of itself and what it measured: kernel.Measured, CBOR. report is told of each
// step before it begins. Ending ctx ends it.
func (p *Pool) Measure(ctx context.Context, limit time.Duration, report func(frame.Measured)) (frame.Hello, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout+patience*limit)
	defer cancel()
	ms := max(uint32(limit.Milliseconds()), 1)
	hello, end, err := p.ask(ctx, frame.Measure{Limit: ms}, report)
	if err == nil && end.Err != "" {
		err = errors.New(end.Err)
	}
	if err != nil {
		return hello, nil, fmt.Errorf("measure: %w", err)
	}
	return hello, end.Result, nil
}

// Paths lists the ways that kernels may be run on this machine, the best first.
func (p *Pool) Paths(ctx context.Context) ([]frame.Path, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, end, err := p.ask(ctx, frame.Measure{}, nil)
	return end.Paths, err
}

// ask puts q to a worker that is started for it, and ended after it.
func (p *Pool) ask(ctx context.Context, q frame.Measure, report func(frame.Measured)) (frame.Hello, frame.Measured, error) {
	w, err := p.launch(ctx)
	if err != nil {
		return frame.Hello{}, frame.Measured{}, err
	}
	p.mu.Lock()
	p.alive[w] = true
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { w.end(ctx.Err()) })
	end, err := w.measured(q, report)
	stop()
	w.end(errIdle)
	_ = w.proc.Wait() // how it ended says no more
	p.mu.Lock()
	delete(p.alive, w)
	p.mu.Unlock()
	close(w.gone)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return w.hello, end, err
}

// measured puts q to a worker and returns its last word.
func (w *worker) measured(q frame.Measure, report func(frame.Measured)) (frame.Measured, error) {
	if err := w.conn.Send(frame.TypeMeasure, 0, q); err != nil {
		return frame.Measured{}, errors.Join(ErrWorkerLost, err)
	}
	const most = 100 // steps
	for range most {
		f, err := w.conn.Receive()
		if err != nil {
			return frame.Measured{}, errors.Join(ErrWorkerLost, err)
		}
		var m frame.Measured
		if f.Type != frame.TypeMeasured || f.Run != 0 {
			return m, fmt.Errorf("%w: frame %d instead of a measurement", errLying, f.Type)
		}
		if err := f.Into(&m); err != nil {
			return m, err
		}
		if m.End {
			return m, nil
		}
		if report != nil {
			report(m)
		}
	}
	return frame.Measured{}, fmt.Errorf("%w: more than %d steps", errLying, most)
}
