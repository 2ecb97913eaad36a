// Package gpu opens the best device present and stands in front of it: it checks
// every command, keeps quotas, zeroes memory and meters cost.
//
// Only worker processes import it. A Device belongs to one tenant for its whole
// life and is safe for concurrent use.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
	"idlemesh/gpu/simgpu"
)

// A Backend executes checked commands. It has one method for each thing a device
// does; cpu, cuda and simgpu provide one each and pass kerneltest.
type Backend interface {
	Info() kernel.Info
	Alloc(size uint64) (kernel.Buffer, error)
	Free(kernel.Buffer)
	Write(b kernel.Buffer, off uint64, p []byte) error
	Read(b kernel.Buffer, off uint64, p []byte) error
	Launch(cmds []kernel.Command) (kernel.Event, error)
	Wait(context.Context, kernel.Event) error
	Close() error
}

var (
	_ Backend = (*cpu.Backend)(nil)
	_ Backend = (*simgpu.Backend)(nil)
)

// ErrQuota is returned by Alloc beyond the quota.
var ErrQuota = errors.New("device memory quota reached")

// A Device is a backend behind checks.
type Device struct {
	b     Backend
	quota uint64

	mu   sync.Mutex
	size map[kernel.Buffer]uint64
	used uint64
	cost kernel.Cost
}

// Open opens the named device: "cpu" or "sim:MODEL"; "" is the best that opens.
// quota caps allocated bytes; zero means all the device has.
func Open(name string, quota uint64) (*Device, error) {
	kind, which, _ := strings.Cut(name, ":")
	switch kind {
	case "", "cpu":
		return New(cpu.New(), quota), nil
	case "sim":
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
	if quota == 0 {
		quota = b.Info().VRAM
	}
	return &Device{b: b, quota: quota, size: map[kernel.Buffer]uint64{}}
}

// Info describes the device.
func (d *Device) Info() kernel.Info { return d.b.Info() }

// Alloc returns a zeroed buffer.
func (d *Device) Alloc(size uint64) (kernel.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.quota-d.used < size {
		return 0, ErrQuota
	}
	b, err := d.b.Alloc(size)
	if err == nil {
		d.used, d.size[b] = d.used+size, size
	}
	return b, err
}

// Free zeroes the buffer and gives it back.
func (d *Device) Free(b kernel.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= d.size[b]
	delete(d.size, b)
	d.b.Free(b)
}

// Write copies p to the buffer at off.
func (d *Device) Write(b kernel.Buffer, off uint64, p []byte) error {
	if err := d.inside(b, off, len(p)); err != nil {
		return err
	}
	return d.b.Write(b, off, p)
}

// Read copies from the buffer at off into p.
func (d *Device) Read(b kernel.Buffer, off uint64, p []byte) error {
	if err := d.inside(b, off, len(p)); err != nil {
		return err
	}
	return d.b.Read(b, off, p)
}

// Submit checks every command, then launches all or none.
func (d *Device) Submit(cmds []kernel.Command) (kernel.Event, error) {
	d.mu.Lock()
	for i := range cmds {
		c, err := kernel.Check(&cmds[i], func(b kernel.Buffer) uint64 { return d.size[b] })
		if err != nil {
			d.mu.Unlock()
			return 0, err
		}
		d.cost.FLOP, d.cost.Bytes = d.cost.FLOP+c.FLOP, d.cost.Bytes+c.Bytes
	}
	d.mu.Unlock()
	return d.b.Launch(cmds)
}

// Wait returns when ev is done.
func (d *Device) Wait(ctx context.Context, ev kernel.Event) error { return d.b.Wait(ctx, ev) }

// Spent returns the cost of everything submitted.
func (d *Device) Spent() kernel.Cost {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cost
}

// Close frees everything.
func (d *Device) Close() error { return d.b.Close() }

func (d *Device) inside(b kernel.Buffer, off uint64, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.size[b]; off > s || s-off < uint64(n) {
		return fmt.Errorf("%w: %d bytes at %d leave buffer %d", kernel.ErrCommand, n, off, b)
	}
	return nil
}
