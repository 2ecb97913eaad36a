package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"idlemesh/gpu/kernel"
)

var (
	// ErrQuota is returned by Alloc beyond a quota.
	ErrQuota = errors.New("device memory quota reached")
	// ErrBuffer is returned for a handle that the session does not own, and for
	// bytes outside the buffer.
	ErrBuffer = errors.New("no such place in device memory")
	// ErrFixed is returned for a write to a buffer that holds an input.
	ErrFixed = errors.New("an input on the device is read only")
	// ErrClosed is returned by a session that was closed.
	ErrClosed = errors.New("device session closed")
)

const (
	// page is what allocations are charged in, so that handles cannot be had for nothing.
	page = 256
	// maxBuffers is how many buffers a session holds at once.
	maxBuffers = 1 << 16
)

// A Session is one run's view of a device: its own handles, quota and meter.
// Methods may be called from several goroutines, but run one at a time; Close alone
// interrupts the list that is running.
type Session struct {
	d     *Device
	quota uint64
	ref   kernel.Reference
	once  sync.Once
	stop  chan struct{}
	share share

	mu    sync.Mutex
	bufs  map[kernel.Buffer]buffer
	near  [64]near // handles looked up lately, by their low bits
	last  kernel.Buffer
	used  uint64
	event kernel.Event
	cmds  []kernel.Command // of the list being submitted, with the backend's handles
	size  func(kernel.Buffer) uint64
	fixed func(kernel.Buffer) bool
	picos uint64
	spent kernel.Spent
}

type near struct {
	h kernel.Buffer
	buffer
}

type buffer struct {
	b    kernel.Buffer // the backend's handle
	size uint64
	w    *weights // that it is of; nil where the run may write
}

// Session opens a session that may allocate vram bytes, at most the device's quota;
// zero means that. Work is measured by ref.
func (d *Device) Session(vram uint64, ref kernel.Reference) *Session {
	if vram == 0 || vram > d.whole {
		vram = d.whole
	}
	s := &Session{d: d, quota: vram, ref: ref, stop: make(chan struct{}), bufs: map[kernel.Buffer]buffer{}}
	s.size = func(b kernel.Buffer) uint64 { return s.findLocked(b).size }
	s.fixed = func(b kernel.Buffer) bool { return s.findLocked(b).w != nil }
	return s
}

// findLocked returns a buffer, zero if there is none. Handle 0 is none.
func (s *Session) findLocked(h kernel.Buffer) buffer {
	n := &s.near[h%64]
	if n.h != h {
		*n = near{h, s.bufs[h]}
	}
	return n.buffer
}

// Alloc returns a zeroed buffer of size bytes. Handles count up from 1 and are never
// used again.
func (s *Session) Alloc(size uint64) (kernel.Buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayLocked(size); err != nil {
		return 0, fmt.Errorf("alloc: %w", err)
	}
	b, err := s.d.alloc(size, charged(size))
	if err != nil {
		return 0, fmt.Errorf("alloc: %w", err)
	}
	s.used += charged(size)
	return s.addLocked(buffer{b: b, size: size}), nil
}

// mayLocked refuses a buffer of size bytes more that the session may not have.
func (s *Session) mayLocked(size uint64) error {
	switch {
	case s.closed():
		return ErrClosed
	case size == 0:
		return fmt.Errorf("%w: a buffer has at least one byte", ErrBuffer)
	case charged(size) > s.quota-s.used:
		return fmt.Errorf("%w: %d bytes asked for, %d of %d free", ErrQuota, size, s.quota-s.used, s.quota)
	case len(s.bufs) >= maxBuffers || s.last == math.MaxUint32:
		return fmt.Errorf("%w: %d buffers at once", ErrQuota, maxBuffers)
	}
	return nil
}

// addLocked gives a buffer its handle.
func (s *Session) addLocked(b buffer) kernel.Buffer {
	s.last++
	s.bufs[s.last] = b
	s.near[s.last%64] = near{}
	return s.last
}

// Free zeroes the buffer and gives it back.
func (s *Session) Free(b kernel.Buffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf, ok := s.bufs[b]
	if !ok {
		return fmt.Errorf("free: %w: handle %d", ErrBuffer, b)
	}
	s.freeLocked(b, buf)
	return nil
}

func (s *Session) freeLocked(b kernel.Buffer, buf buffer) {
	charge := charged(buf.size)
	if buf.w != nil {
		s.d.release(buf.w)
	} else {
		s.d.free(buf.b, charge)
	}
	s.used -= charge
	delete(s.bufs, b)
	s.near[b%64] = near{}
}

// Write copies p to the buffer at off.
func (s *Session) Write(b kernel.Buffer, off uint64, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf, err := s.insideLocked(b, off, len(p))
	if err == nil && buf.w != nil {
		err = fmt.Errorf("%w: handle %d", ErrFixed, b)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return s.d.b.Write(buf.b, off, p)
}

// Read copies from the buffer at off into p.
func (s *Session) Read(b kernel.Buffer, off uint64, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf, err := s.insideLocked(b, off, len(p))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return s.d.b.Read(buf.b, off, p)
}

func (s *Session) insideLocked(b kernel.Buffer, off uint64, n int) (buffer, error) {
	buf, ok := s.bufs[b]
	if !ok {
		return buf, fmt.Errorf("%w: handle %d", ErrBuffer, b)
	}
	if off > buf.size || buf.size-off < uint64(n) {
		return buf, fmt.Errorf("%w: %d bytes at %d of buffer %d, which has %d", ErrBuffer, n, off, b, buf.size)
	}
	return buf, nil
}

// Submit checks every command and runs all of them in order, or none. It returns
// when they are done, however long the device is busy with others before, unless
// Close ends it early. A list that was begun is metered. Events count up from 1.
func (s *Session) Submit(cmds []kernel.Command) (kernel.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() {
		return 0, ErrClosed
	}
	cost, picos, err := kernel.CheckFixed(cmds, s.size, s.fixed, s.ref)
	if err != nil {
		return 0, fmt.Errorf("submit: %w", err)
	}
	s.cmds = append(s.cmds[:0], cmds...)
	for i := range s.cmds {
		c := &s.cmds[i]
		for _, o := range [...]*kernel.Operand{&c.Dst, &c.A, &c.B, &c.C} {
			if o.Buffer != 0 {
				o.Buffer = s.findLocked(o.Buffer).b
			}
		}
	}
	begun, err := s.launchLocked(cmds, cost)
	if begun { // a list that was begun is paid
		s.picos += picos
		s.spent.FLOP += cost.FLOP
		s.spent.Bytes += cost.Bytes
	}
	if err != nil {
		return 0, fmt.Errorf("submit: %w", err)
	}
	s.event++
	return s.event, nil
}

// maxPiece is what part of the most that a list may cost runs in one turn of the device, so
// that others need not wait for all of a long list.
const maxPiece = 16

// launchLocked runs s.cmds, which are cmds with the backend's handles and cost so much
// together, piece by piece, each when it is the session's turn.
func (s *Session) launchLocked(cmds []kernel.Command, cost kernel.Cost) (begun bool, err error) {
	for from := 0; from < len(cmds); {
		to := len(cmds)
		if cost.FLOP > kernel.MaxFLOP/maxPiece || cost.Bytes > kernel.MaxBytes/maxPiece {
			to = s.pieceLocked(cmds, from)
		}
		busy, mine, err := s.d.launch(&s.share, s.stop, s.cmds[from:to])
		s.spent.Busy += uint64(busy)
		begun = begun || mine
		if err != nil {
			return begun, err
		}
		from = to
	}
	return true, nil
}

// pieceLocked returns where a piece ends that begins at from: one command at least.
func (s *Session) pieceLocked(cmds []kernel.Command, from int) int {
	var sum kernel.Cost
	for i := from; i < len(cmds); i++ {
		c, err := kernel.Check(&cmds[i], s.size)
		if sum = sum.Add(c); err != nil || i > from && (sum.FLOP > kernel.MaxFLOP/maxPiece || sum.Bytes > kernel.MaxBytes/maxPiece) {
			return max(i, from+1)
		}
	}
	return len(cmds)
}

// Wait returns when ev is done, which it is when Submit has returned it.
func (s *Session) Wait(_ context.Context, ev kernel.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev == 0 || ev > s.event {
		return fmt.Errorf("wait: event %d was not submitted", ev)
	}
	return nil
}

// Spent returns what the session has used so far.
func (s *Session) Spent() kernel.Spent {
	s.mu.Lock()
	defer s.mu.Unlock()
	spent := s.spent
	spent.Work = s.picos / 1000
	return spent
}

// Close ends the list that is running and frees and zeroes all the session holds.
func (s *Session) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for b, buf := range s.bufs {
		s.freeLocked(b, buf)
	}
	return nil
}

func (s *Session) closed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// charged rounds size up to whole pages; a size near the top of 64 bits stays there.
func charged(size uint64) uint64 {
	if size > math.MaxUint64-page {
		return math.MaxUint64
	}
	return (size + page - 1) / page * page
}
