//go:build !linux || !cgo

package nvml

import "fmt"

// A Sensor watches every device of this machine.
type Sensor struct{}

// Open always fails in this build, with ErrNoDriver.
func Open(string) (*Sensor, error) {
	return nil, fmt.Errorf("%w: this build has no cgo, or is not for Linux", ErrNoDriver)
}

// Read has nothing to read.
func (*Sensor) Read([]int) ([]Sample, error) { return nil, ErrNoDriver }

// Driver is unknown.
func (*Sensor) Driver() string { return "" }

// Close does nothing.
func (*Sensor) Close() error { return nil }
