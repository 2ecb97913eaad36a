//go:build unix

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks f until it is closed or its process ends, or returns errTaken.
func tryLock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// shareLock is tryLock for several who keep others from locking f for themselves.
func shareLock(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errTaken
	}
	return err
}
