package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// A refusal is an error that brings its exit status and, where something helps, the
// next command. Without text nothing is printed.
type refusal struct {
	status     int
	text, next string
}

func (r *refusal) Error() string { return r.text }

// usage refuses what the user typed. next is a command that helps; it may be empty.
func usage(next, format string, a ...any) error {
	return &refusal{status: 2, text: fmt.Sprintf(format, a...), next: next}
}

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// status is the one place where errors become exit codes.
func status(err error) int {
	var (
		own *refusal
		far *wire.Error
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.status
	case errors.As(err, &far) && far.Code != wire.Internal:
		return codes[far.Code]
	case errors.Is(err, context.DeadlineExceeded):
		return 124
	case errors.Is(err, context.Canceled):
		return 130
	case errors.Is(err, identity.ErrReadable), errors.Is(err, fs.ErrPermission):
		return 4
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, ledger.ErrFull):
		return 6
	case errors.Is(err, ledger.ErrCorrupt), errors.Is(err, tree.ErrHead), errors.Is(err, tree.ErrProof), errors.Is(err, record.ErrSignature):
		return 7
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ledger.ErrMesh):
		return 2
	}
	return 1
}

var codes = [...]int{wire.Internal: 1, wire.Unavailable: 1, wire.Invalid: 2, wire.NoMatch: 3, wire.Denied: 4,
	wire.NotFound: 5, wire.Funds: 6, wire.Unverified: 7}

// complain prints an error as one line with cause, and one with the remedy.
func (t terminal) complain(err error) {
	text, next := err.Error(), ""
	var (
		own *refusal
		far *wire.Error
	)
	switch {
	case errors.As(err, &own):
		next = own.next
	case errors.As(err, &far):
		next = far.Next
	}
	if text == "" {
		return
	}
	fmt.Fprintf(t.err, "meshctl: %s\n", clean(text))
	if next != "" {
		fmt.Fprintf(t.err, "  try: %s\n", clean(next))
	}
}

// clean makes one printable line of words that may come from a stranger: no control
// character of theirs reaches a terminal.
func clean(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s))
}

var flagError = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-(\S+): (.*)$`)

// badFlag says in our words what urfave/cli cannot read.
func badFlag(c *cli.Context, err error, _ bool) error {
	name := full(c)
	m := flagError.FindStringSubmatch(err.Error())
	if m == nil {
		return usage(name+" --help", "%s%v", prefix(name), err)
	}
	why := m[3]
	switch why {
	case "parse error", "strconv.ParseBool: parsing " + m[1] + ": invalid syntax":
		why = "cannot be read"
	case "value out of range":
		why = "is out of range"
	}
	return usage(name+" --help", "%s--%s: %s %s", prefix(name), m[2], m[1], why)
}
