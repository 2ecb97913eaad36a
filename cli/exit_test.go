package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

func TestStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"nothing":         {nil, 0},
		"plain":           {errors.New("x"), 1},
		"internal":        {wire.Refuse(wire.Internal, "x"), 1},
		"no gateway":      {wire.Refuse(wire.Unavailable, "x"), 1},
		"usage":           {usage("", "x"), 2},
		"invalid":         {wire.Refuse(wire.Invalid, "x"), 2},
		"missing file":    {&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, 2},
		"no provider":     {wire.Refuse(wire.NoMatch, "x"), 3},
		"denied":          {wire.Refuse(wire.Denied, "x"), 4},
		"key readable":    {fmt.Errorf("open key: %w", identity.ErrReadable), 4},
		"file not ours":   {&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, 4},
		"not found":       {wire.Refuse(wire.NotFound, "x"), 5},
		"funds":           {fmt.Errorf("submit: %w", wire.Refuse(wire.Funds, "x")), 6},
		"disk full":       {&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, 6},
		"unverified":      {wire.Refuse(wire.Unverified, "x"), 7},
		"deadline":        {context.DeadlineExceeded, 124},
		"cancelled":       {context.Canceled, 130},
		"refusal, joined": {errors.Join(errors.New("x"), &refusal{status: 124}), 124},
	} {
		if got := status(tc.err); got != tc.want {
			t.Errorf("%s: status %d, want %d", name, got, tc.want)
		}
	}
}

func TestComplain(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"plain":              {errors.New("submit: no"), "meshctl: submit: no\n"},
		"with a remedy":      {usage("meshctl submit --help", "submit: no"), "meshctl: submit: no\n  try: meshctl submit --help\n"},
		"from afar":          {fmt.Errorf("submit: %w", &wire.Error{Text: "poor", Next: "earn"}), "meshctl: submit: poor\n  try: earn\n"},
		"one line":           {errors.New("a\nb"), "meshctl: a; b\n"},
		"no escape sequence": {wire.Refuse(wire.Internal, "\x1b]0;owned\x07red\u202e"), "meshctl:  ]0;owned red \n"},
		"said already":       {&refusal{status: 1}, ""},
	} {
		var b bytes.Buffer
		terminal{err: &b}.complain(tc.err)
		if got := b.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(tc.want), " ") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Run(ctx, []string{"meshctl", "version"}, strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)); got != 0 {
		t.Errorf("a command that was done = %d, want 0", got)
	}
}
