package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"idlemesh/sandbox/frame"
)

// outputs are what a run has written so far, counted again on the agent's side.
type outputs struct {
	h      Host
	left   uint64 // bytes
	tape   uint64 // bytes that the transcript may still have
	open   map[string]io.WriteCloser
	file   string // the last under out/
	files  int
	lines  int
	logged int // bytes
}

// Bounds of what one run may hand over; the engine keeps to the same.
const (
	maxFiles = 1 << 17
	maxPath  = 4200
	maxLines = 10_001
	maxLog   = 2 << 20
)

func (o *outputs) write(w frame.Write) error {
	left := &o.left
	if w.Name == Transcript {
		left = &o.tape
	}
	if uint64(len(w.Bytes)) > *left {
		return fmt.Errorf("%w: output beyond the limit", errLying)
	}
	*left -= uint64(len(w.Bytes))
	if err := o.admit(w.Name); err != nil {
		return err
	}
	out, err := o.writer(w.Name)
	if err != nil {
		return err
	}
	if len(w.Bytes) > 0 {
		if _, err := out.Write(w.Bytes); err != nil {
			return fmt.Errorf("write %s: %w", w.Name, err)
		}
		o.say(w)
	}
	if w.End && strings.HasPrefix(w.Name, "out/") {
		return o.shut(w.Name)
	}
	return nil
}

// say passes on what was printed.
func (o *outputs) say(w frame.Write) {
	switch w.Name {
	case "stdout":
		o.h.Event(Event{Kind: Stdout, Text: string(w.Bytes)})
	case "stderr":
		o.h.Event(Event{Kind: Stderr, Text: string(w.Bytes)})
	}
}

// admit lets a name in: a stream, the file being written, or the next in order.
func (o *outputs) admit(name string) error {
	if name == "stdout" || name == "stderr" || name == Transcript && o.tape > 0 || o.open[name] != nil {
		return nil
	}
	path, ok := strings.CutPrefix(name, "out/")
	switch {
	case !ok || !validPath(path):
		return fmt.Errorf("%w: an output named %q", errLying, clip(name, 64))
	case name <= o.file:
		return fmt.Errorf("%w: output %q out of order", errLying, clip(name, 64))
	case o.open[o.file] != nil:
		return fmt.Errorf("%w: two files at once", errLying)
	case o.files >= maxFiles:
		return fmt.Errorf("%w: more than %d files", errLying, maxFiles)
	}
	o.file = name
	o.files++
	return nil
}

func (o *outputs) writer(name string) (io.WriteCloser, error) {
	if out := o.open[name]; out != nil {
		return out, nil
	}
	out, err := o.h.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if o.open == nil {
		o.open = map[string]io.WriteCloser{}
	}
	o.open[name] = out
	return out, nil
}

func (o *outputs) shut(name string) error {
	out := o.open[name]
	delete(o.open, name)
	if err := out.Close(); err != nil {
		return fmt.Errorf("close %s: %w", name, err)
	}
	return nil
}

// event passes on what a worker may say, and keeps the log.
func (o *outputs) event(e Event) error {
	switch e.Kind {
	case Progress, Reported:
	case Log:
		if err := o.logLine(e); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: event %d", errLying, e.Kind)
	}
	o.h.Event(e)
	return nil
}

func (o *outputs) logLine(e Event) error {
	line := e.Level.String() + " " + e.Text + "\n"
	o.lines, o.logged = o.lines+1, o.logged+len(line)
	if o.lines > maxLines || o.logged > maxLog || strings.Contains(e.Text, "\n") {
		return fmt.Errorf("%w: too much of a log", errLying)
	}
	out, err := o.writer("log")
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, line); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}

// complete closes the streams of a run that has ended.
func (o *outputs) complete(end End) error {
	if o.open[o.file] != nil && end != Cancelled && end != NodeLost {
		return fmt.Errorf("%w: output %q has no end", errLying, clip(o.file, 64))
	}
	var errs []error
	for name := range o.open {
		errs = append(errs, o.shut(name))
	}
	return errors.Join(errs...)
}

// abandon closes what a lost run left open; what was written there is void.
func (o *outputs) abandon() {
	for _, out := range o.open {
		_ = out.Close() // the run's own error is the one to return
	}
}

func validPath(p string) bool {
	return len(p) <= maxPath && p != "." && utf8.ValidString(p) && !strings.ContainsRune(p, 0) && fs.ValidPath(p)
}
