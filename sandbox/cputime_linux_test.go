package sandbox_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the calling thread, which other processes do not
// lengthen as they do the time that passes.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
