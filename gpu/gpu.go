// Package gpu opens the best device present and stands in front of it: it checks
// every command, keeps quotas, zeroes memory and meters work.
//
// Only worker processes import it. A Device is shared by the runs of one tenant,
// each behind a Session of its own, and is safe for concurrent use.
package gpu

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
	"idlemesh/gpu/simgpu"
)

// A Backend executes checked commands. It has one method for each thing a device
// does; cpu and simgpu provide one each and pass kerneltest. It is called with
// handles it gave out itself and with ranges inside them.
type Backend interface {
	Info() kernel.Info
	Alloc(size uint64) (kernel.Buffer, error) // zeroed
	Free(kernel.Buffer)                       // zeroes it
	Write(b kernel.Buffer, off uint64, p []byte) error
	Read(b kernel.Buffer, off uint64, p []byte) error
	// Launch runs cmds in order and returns when they are done, or with an error
	// soon after stop is closed.
	Launch(stop <-chan struct{}, cmds []kernel.Command) error
	Close() error
}

var (
	_ Backend = (*cpu.Backend)(nil)
	_ Backend = (*simgpu.Backend)(nil)
)

// A Device is a backend and whose turn it is.
type Device struct {
	b     Backend
	whole uint64 // what quota is at most
	turns turns  // a device runs one piece of work at a time
	hung  func() // says that a launch will not end; nil is nobody

	mu      sync.Mutex
	quota   uint64
	used    uint64
	weights map[string]*weights // by name
	warm    uint64              // bytes of those that nobody uses
	keep    uint64              // the most that these may be
	clock   uint64
}

// Open opens the named device: "cpu" or "sim:MODEL"; "" is the best that opens. Replay
// has no results: it checks and meters alone, for runs whose results are known.
// quota caps the bytes that all sessions have allocated together; zero means all
// the device has.
func Open(name string, quota uint64) (*Device, error) {
	kind, which, _ := strings.Cut(name, ":")
	switch {
	case name == "", name == "cpu":
		return New(cpu.New(quota), quota), nil
	case name == Replay:
		return New(&absent{}, quota), nil
	case kind == "sim":
		b, err := simgpu.New(which)
		if err != nil {
			return nil, fmt.Errorf("open device: %w", err)
		}
		return New(b, quota), nil
	}
	return nil, fmt.Errorf("open device %q: want cpu or sim:MODEL", name)
}

// New puts checks and a quota in front of b and owns it.
func New(b Backend, quota uint64) *Device {
	if vram := b.Info().VRAM; quota == 0 || quota > vram {
		quota = vram
	}
	return &Device{b: b, whole: quota, quota: quota, weights: map[string]*weights{}, keep: quota}
}

// Info describes the device.
func (d *Device) Info() kernel.Info { return d.b.Info() }

// Quota is how many bytes the device gives to sessions at most.
func (d *Device) Quota() uint64 { return d.whole }

// Resize lets all sessions together hold most bytes from now on, and no more than Quota.
// What is warm yields; what sessions hold already stays theirs.
func (d *Device) Resize(most uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.quota = min(most, d.whole); d.used > d.quota && d.coolLocked(); {
	}
}

// Close frees everything. Sessions still open are refused from then on.
func (d *Device) Close() error { return d.b.Close() }

// alloc takes charge from the quota that all sessions share.
func (d *Device) alloc(size, charge uint64) (kernel.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.allocLocked(size, charge)
}

func (d *Device) allocLocked(size, charge uint64) (kernel.Buffer, error) {
	for charge > d.quota-min(d.used, d.quota) {
		if !d.coolLocked() {
			return 0, fmt.Errorf("%w: other runs hold %d of the device's %d bytes", ErrQuota, d.used, d.quota)
		}
	}
	for {
		b, err := d.b.Alloc(size)
		if err == nil {
			d.used += charge
		}
		if err == nil || !d.coolLocked() {
			return b, err
		}
	}
}

func (d *Device) free(b kernel.Buffer, charge uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freeLocked(b, charge)
}

func (d *Device) freeLocked(b kernel.Buffer, charge uint64) {
	d.b.Free(b)
	d.used -= charge
}

// maxLaunch is how long a launch may take before it counts as hung, unless the backend
// says otherwise: a processor without vectors that many share takes this long for a list
// that costs what one may.
const maxLaunch = 5 * time.Minute

// OnHang lets f be called when a launch takes longer than the backend allows, as it may
// say by a method MaxLaunch, or five minutes. The device is of no use then, and its
// process has to end: nothing else is sure to stop a kernel. OnHang comes before the first
// Session.
func (d *Device) OnHang(f func()) { d.hung = f }

// launch waits for s's turn, runs cmds and says how long the device was busy; begun is
// false when stop was closed before.
func (d *Device) launch(s *share, stop <-chan struct{}, cmds []kernel.Command) (busy time.Duration, begun bool, err error) {
	if !d.turns.take(s, stop) {
		return 0, false, ErrClosed
	}
	if d.hung != nil {
		limit := maxLaunch
		if b, ok := d.b.(interface{ MaxLaunch() time.Duration }); ok {
			limit = b.MaxLaunch()
		}
		defer time.AfterFunc(limit, d.hung).Stop()
	}
	start := time.Now()
	defer func() {
		busy = time.Since(start)
		d.turns.give(s, busy)
	}()
	return 0, true, d.b.Launch(stop, cmds)
}
