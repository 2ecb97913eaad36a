package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// An eventLog prints a node's events, a line each, for the person who runs it.
type eventLog struct {
	mu    *sync.Mutex
	w     io.Writer
	attrs string
}

func newEventLog(w io.Writer) eventLog { return eventLog{mu: &sync.Mutex{}, w: w} }

// Enabled implements slog.Handler.
func (e eventLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelDebug }

// Handle implements slog.Handler.
func (e eventLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Time.Local().Format("15:04:05  "))
	if r.Level >= slog.LevelWarn {
		b.WriteString(strings.ToLower(r.Level.String()) + ": ")
	}
	b.WriteString(clean(r.Message) + e.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(attr(a))
		return true
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := fmt.Fprintln(e.w, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (e eventLog) WithAttrs(list []slog.Attr) slog.Handler {
	for _, a := range list {
		e.attrs += attr(a)
	}
	return e
}

// WithGroup implements slog.Handler. The names of groups are left out.
func (e eventLog) WithGroup(string) slog.Handler { return e }

func attr(a slog.Attr) string { return "  " + clean(a.Key) + " " + clean(a.Value.Resolve().String()) }
