//go:build !unix

package blob

import (
	"errors"
	"syscall"
)

// isNoSpace knows ERROR_DISK_FULL and ERROR_HANDLE_DISK_FULL.
func isNoSpace(err error) bool {
	var no syscall.Errno
	return errors.As(err, &no) && (no == 112 || no == 39)
}

// syncDir does nothing: such systems cannot, and their renames are durable.
func syncDir(string) error { return nil }
