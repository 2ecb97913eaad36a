package gpu

import (
	"fmt"

	"idlemesh/gpu/kernel"
)

// weights are part of an input on the device: read only, shared by the runs that name
// them alike, and kept for a while when the last is over. Fields are under Device.mu but
// those that say otherwise.
type weights struct {
	name  string // for ever
	b     kernel.Buffer
	size  uint64 // for ever
	users int
	left  uint64        // when the last user did, by Device.clock
	ready chan struct{} // closed when b or err is set, for ever
	err   error
}

// piece is how much of an input is in the host's memory on its way to the device.
const piece = 1 << 20

// Load returns a read-only buffer with size bytes that fill gives, piece by piece in
// ascending order. Within one device equal names must mean equal bytes: where those are
// there already, fill isn't called. The session is charged all of it in any case, so that
// what a run may do does not hang on what ran before. Close ends a Load.
func (s *Session) Load(name string, size uint64, fill func(off uint64, p []byte) error) (kernel.Buffer, error) {
	s.mu.Lock()
	err := s.mayLocked(size)
	if err == nil {
		s.used += charged(size)
	}
	s.mu.Unlock()
	var w *weights
	if err == nil {
		if w, err = s.d.take(s.stop, name, size, fill); err != nil {
			s.mu.Lock()
			s.used -= charged(size)
			s.mu.Unlock()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() {
		s.used -= charged(size)
		s.d.release(w)
		return 0, fmt.Errorf("load: %w", ErrClosed)
	}
	return s.addLocked(buffer{b: w.b, size: size, w: w}), nil
}

// take returns the weights of that name, in use once more. Who comes first fills them, and
// the others wait for him.
func (d *Device) take(stop <-chan struct{}, name string, size uint64, fill func(uint64, []byte) error) (*weights, error) {
	for {
		d.mu.Lock()
		w := d.weights[name]
		if w == nil {
			w = &weights{name: name, size: size, users: 1, ready: make(chan struct{})}
			d.weights[name] = w
			d.mu.Unlock()
			return w, d.fill(stop, w, fill)
		}
		if w.size != size {
			d.mu.Unlock()
			return nil, fmt.Errorf("%w: %d bytes of %s, which has %d", ErrBuffer, size, name, w.size)
		}
		if w.users++; w.users == 1 {
			d.warm -= charged(size)
		}
		d.mu.Unlock()
		select {
		case <-w.ready:
			if w.err == nil {
				return w, nil
			} // who filled it could not, which may be his own fault
		case <-stop:
			d.release(w)
			return nil, ErrClosed
		}
	}
}

// fill brings new weights to the device, or takes them back.
func (d *Device) fill(stop <-chan struct{}, w *weights, fill func(uint64, []byte) error) error {
	b, err := d.alloc(w.size, charged(w.size))
	if err == nil {
		if err = d.copyIn(stop, b, w.size, fill); err != nil {
			d.free(b, charged(w.size))
		}
	}
	d.mu.Lock()
	if w.b, w.err = b, err; err != nil {
		delete(d.weights, w.name)
	}
	d.mu.Unlock()
	close(w.ready)
	return err
}

func (d *Device) copyIn(stop <-chan struct{}, b kernel.Buffer, size uint64, fill func(uint64, []byte) error) error {
	host := make([]byte, min(size, piece))
	for off := uint64(0); off < size; off += uint64(len(host)) {
		select {
		case <-stop:
			return ErrClosed
		default:
		}
		p := host[:min(uint64(len(host)), size-off)]
		if err := fill(off, p); err != nil {
			return err
		}
		if err := d.b.Write(b, off, p); err != nil {
			return err
		}
	}
	return nil
}

// release gives weights back. The last to do so leaves them warm, as long as they fit.
func (d *Device) release(w *weights) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.weights[w.name] != w { // they were never filled
		return
	}
	if w.users--; w.users > 0 {
		return
	}
	d.clock++
	w.left = d.clock
	d.warm += charged(w.size)
	for d.warm > d.keep || d.used > d.quota {
		if !d.coolLocked() {
			break
		}
	}
}

// coolLocked frees the weights that have been warm for longest, and reports whether there
// were any.
func (d *Device) coolLocked() bool {
	var oldest *weights
	for _, w := range d.weights {
		if w.users == 0 && (oldest == nil || w.left < oldest.left) {
			oldest = w
		}
	}
	if oldest == nil {
		return false
	}
	delete(d.weights, oldest.name)
	d.warm -= charged(oldest.size)
	d.freeLocked(oldest.b, charged(oldest.size))
	return true
}

// KeepWarm bounds the bytes of inputs that stay on the device while no run uses them.
func (d *Device) KeepWarm(most uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.keep = most; d.warm > d.keep && d.coolLocked(); {
	}
}
