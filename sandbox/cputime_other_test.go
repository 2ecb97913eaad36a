//go:build !linux

package sandbox_test

import "time"

var started = time.Now()

func threadTime() time.Duration { return time.Since(started) }
