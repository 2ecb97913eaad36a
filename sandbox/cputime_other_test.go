//go:build !linux

package sandbox_test

import "time"

var processStart = time.Now()

func threadTime() time.Duration { return time.Since(processStart) }
