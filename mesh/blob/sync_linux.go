package blob

import (
	"os"
	"syscall"
)

// syncData leaves out the times of the file, which nobody needs after a crash.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
