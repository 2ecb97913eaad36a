package wire

import (
	"context"
	"errors"
)

// A Code says which kind of refusal an Error is; package cli turns it into an exit
// status, and only there.
type Code uint8

// Codes.
const (
	Internal    Code = iota
	Invalid          // the request makes no sense
	Denied           // not allowed for who asks
	NotFound         // no such job, entry, blob
	NoMatch          // no provider or price
	Funds            // money, quota or disk
	Unverified       // a proof, hash or signature does not hold
	Unavailable      // not now, or not reachable: try again
)

// An Error travels to whoever asked: what, why and what to do next.
type Error struct {
	Code Code   `cbor:"1,keyasint"`
	Text string `cbor:"2,keyasint"`
	Next string `cbor:"3,keyasint,omitempty"` // a command or a change that helps
}

func (e *Error) Error() string { return e.Text }

// Refuse returns an error of that code.
func Refuse(code Code, text string) *Error { return &Error{Code: code, Text: text} }

// Is reports whether err has that code, here or behind a call.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func asError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Unavailable, Text: err.Error()}
	}
	return &Error{Code: Internal, Text: err.Error()}
}
