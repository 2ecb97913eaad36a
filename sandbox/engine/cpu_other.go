//go:build !linux

package engine

import "time"

// A threadClock falls back to wall time where a thread's processor time cannot be
// read from another thread.
type threadClock time.Time

func thisThread() threadClock { return threadClock(time.Now()) }

func (c threadClock) now() time.Duration { return time.Since(time.Time(c)) }
