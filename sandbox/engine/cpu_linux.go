package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// A threadClock reads the processor time of one thread, from any thread.
type threadClock int32

// thisThread returns the clock of the calling thread, which the caller must have
// locked itself to.
func thisThread() threadClock { return threadClock(^unix.Gettid()<<3 | 6) } // CPUCLOCK_SCHED of that thread

func (c threadClock) now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(int32(c), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
