package engine

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"idlemesh/sandbox"
)

const (
	streamBuffer = 32 << 10
	streamDelay  = 20 * time.Millisecond // how long printed text may wait for more
)

var errStopped = errors.New("the run is stopped")

// outputs are the two streams of a run and the bytes that all its outputs share.
type outputs struct {
	r              *run
	left           uint64 // bytes of Limits.Output
	stdout, stderr *stream
}

func newOutputs(r *run) *outputs {
	o := &outputs{r: r, left: r.spec.Limits.Output}
	o.stdout, o.stderr = &stream{o: o, name: "stdout"}, &stream{o: o, name: "stderr"}
	return o
}

func (o *outputs) close() error { return errors.Join(o.stdout.close(), o.stderr.close()) }

func (o *outputs) abandon() {
	o.stdout.abandon()
	o.stderr.abandon()
}

// A stream is stdout or stderr: what is printed goes out at once when nothing was
// printed lately, else together with what follows within streamDelay.
type stream struct {
	o    *outputs
	name string

	mu    sync.Mutex
	w     io.WriteCloser
	buf   []byte
	sent  time.Time
	timer *time.Timer // running while buf waits
	done  bool
}

// Write implements io.Writer for the guest. A guest that prints past the limit is
// stopped: it would not notice an error.
func (s *stream) Write(p []byte) (int, error) {
	if uint64(len(p)) > s.o.left {
		s.o.r.stop(sandbox.OverLimit, fmt.Sprintf("the output limit of %d bytes was reached", s.o.r.spec.Limits.Output))
		return 0, errStopped
	}
	s.o.left -= uint64(len(p))
	s.o.r.moved += uint64(len(p))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf)+len(p) >= streamBuffer || time.Since(s.sent) >= streamDelay {
		return len(p), s.flushLocked(p)
	}
	s.buf = append(s.buf, p...)
	if s.timer == nil {
		s.timer = time.AfterFunc(streamDelay, s.late)
	}
	return len(p), nil
}

func (s *stream) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && !s.done {
		_ = s.flushLocked(nil) // it stops the run itself
	}
}

// flushLocked sends what waits, then p.
func (s *stream) flushLocked(p []byte) (err error) {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if len(s.buf)+len(p) == 0 {
		return nil
	}
	if s.w == nil {
		if s.w, err = s.o.r.host.Create(s.name); err != nil {
			return s.o.r.lose(err)
		}
	}
	for _, b := range [...][]byte{s.buf, p} {
		if len(b) == 0 {
			continue
		}
		if _, err = s.w.Write(b); err != nil {
			return s.o.r.lose(err)
		}
	}
	s.sent, s.buf = time.Now(), s.buf[:0]
	return nil
}

func (s *stream) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil
	}
	err := s.flushLocked(nil)
	s.done = true
	if s.w != nil && err == nil {
		err = s.w.Close()
	}
	return err
}

// abandon ends the stream without a word to the host.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.buf = true, nil
	if s.timer != nil {
		s.timer.Stop()
	}
}

const (
	logLine    = 4 << 10 // bytes
	logLines   = 10_000  // a run
	logBytes   = 1 << 20 // a run
	logBurst   = 1000    // lines that pass at any rate
	logEach    = time.Millisecond
	progressIn = 20 * time.Millisecond
)

// A logger passes lines on, bounded in length, number and rate. Too fast a guest
// waits; the lines that pass are the same in every run.
type logger struct {
	r     *run
	lines int
	bytes int
	full  bool
}

func (l *logger) log(level sandbox.Level, text string) {
	if l.full {
		return
	}
	l.lines, l.bytes = l.lines+1, l.bytes+len(text)
	if l.lines > logLines || l.bytes > logBytes {
		l.full, level, text = true, sandbox.Warn, "the log is full: further lines are dropped"
	}
	if early := time.Duration(l.lines-logBurst)*logEach - time.Since(l.r.began); early > 0 {
		l.r.pause(early)
	}
	l.r.host.Event(sandbox.Event{Kind: sandbox.Log, Level: level, Text: text})
}

// progress passes on some of a guest's reports, the last always.
type progress struct {
	r    *run
	sent time.Time
	held *sandbox.Event
}

func (p *progress) report(e sandbox.Event) {
	p.held = &e
	if time.Since(p.sent) >= progressIn {
		p.flush()
	}
}

func (p *progress) flush() {
	if p.held != nil {
		p.r.host.Event(*p.held)
		p.held, p.sent = nil, time.Now()
	}
}
