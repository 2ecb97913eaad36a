package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/fxamacker/cbor/v2"
	"lukechampine.com/blake3"

	"idlemesh/gpu/kernel"
	"idlemesh/sandbox"
	"idlemesh/sandbox/transcript"
)

// A tape stands between a run and all it hears from outside: its inputs and its device.
// While a run is recorded it writes every answer down; while one is replayed it gives
// the answers that were written, to the same questions at the same fuel. Its device is
// then one that only counts. What runs leave is summed up on its way out.
//
// Its methods are for the run's goroutine, but for those of outputs.
type tape struct {
	sandbox.Host
	r    *run
	acc  Accelerator
	out  io.WriteCloser
	w    *transcript.Writer
	from *transcript.Reader // nil unless the run is replayed
	last uint64             // events so far
	num  []byte

	mu   sync.Mutex
	left map[string]*digest
}

// A digest sums up one output.
type digest struct {
	sum  *blake3.Hasher
	size uint64
}

// errDiverged is why a replay ends that does not do what was recorded.
var errDiverged = errors.New("the replay differs")

// begin opens the transcript of a run whose module is known.
func (t *tape) begin(module [32]byte) error {
	h, err := t.header(module)
	if err != nil {
		return err
	}
	if t.out, err = t.Host.Create(sandbox.Transcript); err != nil {
		return err
	}
	if t.w, err = transcript.NewWriter(t.out, h); err != nil {
		return err
	}
	if t.r.spec.Replay.Size == 0 {
		return nil
	}
	return t.rewind(h)
}

func (t *tape) header(module [32]byte) (h transcript.Header, err error) {
	s := t.r.spec
	s.Replay, s.Record = sandbox.Input{}, true
	h = transcript.Header{Ran: t.r.eng.cfg.Ran, Module: module}
	if h.Spec, err = canonical.Marshal(s); err == nil {
		told := t.r.info
		told.Speed = 0 // guests aren't
		h.Device, err = canonical.Marshal(told)
	}
	return h, err
}

var canonical = func() cbor.EncMode {
	m, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// rewind opens the transcript that is replayed, which must be of this run.
func (t *tape) rewind(own transcript.Header) error {
	at, err := t.Host.Open(t.r.spec.Replay.Blob)
	if err != nil {
		return err
	}
	from, h, err := transcript.NewReader(io.NewSectionReader(at, t.r.spec.Replay.Offset, t.r.spec.Replay.Size))
	if err != nil {
		return err
	}
	switch {
	case h.Ran != own.Ran:
		return fmt.Errorf("%w: it was recorded by %s, this is %s", errDiverged, h.Ran, own.Ran)
	case h.Module != own.Module:
		return fmt.Errorf("%w: another module was recorded, %x", errDiverged, h.Module)
	case string(h.Spec) != string(own.Spec):
		return fmt.Errorf("%w: other arguments, environment, inputs, limits or seed were recorded", errDiverged)
	}
	if err := cbor.Unmarshal(h.Device, &t.r.info); err != nil {
		return fmt.Errorf("%w: device: %w", transcript.ErrFormat, err)
	}
	own.Device = h.Device
	t.from = from
	t.w, err = transcript.NewWriter(t.out, own)
	return err
}

// keep writes down the answer e to a question, or returns the one that was written.
// The question is e.Op with nums and data.
func (t *tape) keep(e transcript.Event, data []byte, nums ...uint64) (transcript.Event, error) {
	e.Fuel = t.r.fuel.used()
	e.Asked = t.asked(e.Op, data, nums)
	if t.from != nil {
		was, err := t.recorded(e)
		if err != nil {
			return e, t.r.lose(err)
		}
		e = was
	}
	t.last++
	if err := t.w.Write(e); err != nil {
		if errors.Is(err, transcript.ErrFull) {
			t.r.stop(sandbox.OverLimit, err.Error()+": run the job without one")
			return e, errStopped
		}
		return e, t.r.lose(err)
	}
	if e.Err != "" {
		return e, answered(e.Err)
	}
	return e, nil
}

// answered is a refusal of the device's, as it was written.
type answered string

func (a answered) Error() string { return string(a) }

func (t *tape) asked(op transcript.Op, data []byte, nums []uint64) (half [16]byte) {
	b := append(t.num[:0], byte(op))
	for _, n := range nums {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	part := sha256.Sum256(data)
	b = append(b, part[:]...)
	t.num = b
	full := sha256.Sum256(b)
	return [16]byte(full[:16])
}

// recorded is the event that answers the same question in the transcript.
func (t *tape) recorded(e transcript.Event) (was transcript.Event, err error) {
	was, err = t.from.Next()
	switch {
	case errors.Is(err, io.EOF):
		return was, fmt.Errorf("%w: event %d: the module asks for %s, the transcript has ended", errDiverged, t.last, e.Op)
	case err != nil:
		return was, fmt.Errorf("event %d: %w", t.last, err)
	case was.Op != e.Op:
		return was, fmt.Errorf("%w: event %d: the module asks for %s, recorded is %s", errDiverged, t.last, e.Op, was.Op)
	case was.Fuel != e.Fuel:
		return was, fmt.Errorf("%w: event %d, %s: fuel %d, recorded is %d", errDiverged, t.last, e.Op, e.Fuel, was.Fuel)
	case was.Asked != e.Asked:
		return was, fmt.Errorf("%w: event %d, %s: the module asks for something else than was recorded", errDiverged, t.last, e.Op)
	}
	return was, nil
}

func refused(err error) string {
	if err == nil {
		return ""
	}
	return readable(err.Error())
}

// Alloc implements Accelerator.
func (t *tape) Alloc(size uint64) (kernel.Buffer, error) {
	e := transcript.Event{Op: transcript.Alloc}
	if t.from == nil {
		b, err := t.acc.Alloc(size)
		e.Value, e.Err = uint64(b), refused(err)
	}
	e, err := t.keep(e, nil, size)
	if t.from != nil && err == nil {
		_, err = t.acc.Alloc(size) // counts up to the same handle
	}
	return kernel.Buffer(e.Value), err
}

// Load implements Accelerator. What is loaded isn't written down: its name stands for it,
// and what kernels make of it is heard from Read.
func (t *tape) Load(name string, size uint64, fill func(off uint64, p []byte) error) (kernel.Buffer, error) {
	e := transcript.Event{Op: transcript.Load}
	if t.from == nil {
		b, err := t.acc.Load(name, size, fill)
		e.Value, e.Err = uint64(b), refused(err)
	}
	e, err := t.keep(e, []byte(name), size)
	if t.from != nil && err == nil {
		_, err = t.acc.Load(name, size, func(uint64, []byte) error { return nil })
	}
	return kernel.Buffer(e.Value), err
}

// Free implements Accelerator.
func (t *tape) Free(b kernel.Buffer) error {
	_, err := t.keep(transcript.Event{Op: transcript.Free, Err: refused(t.acc.Free(b))}, nil, uint64(b))
	return err
}

// Write implements Accelerator.
func (t *tape) Write(b kernel.Buffer, off uint64, p []byte) error {
	_, err := t.keep(transcript.Event{Op: transcript.Write, Err: refused(t.acc.Write(b, off, p))}, p, uint64(b), off)
	return err
}

// Read implements Accelerator.
func (t *tape) Read(b kernel.Buffer, off uint64, p []byte) error {
	e := transcript.Event{Op: transcript.Read}
	if err := t.acc.Read(b, off, p); err != nil {
		e.Err = refused(err)
	} else {
		e.Data = p
	}
	e, err := t.keep(e, nil, uint64(b), off, uint64(len(p)))
	if t.from == nil || err != nil {
		return err
	}
	return t.hand(p, e.Data, len(p))
}

// hand copies what was recorded to p, where it was at least so many bytes.
func (t *tape) hand(p, data []byte, least int) error {
	if len(data) < least || len(data) > len(p) {
		return t.r.lose(fmt.Errorf("%w: event %d has %d bytes, the module asks for %d", transcript.ErrFormat, t.last-1, len(data), len(p)))
	}
	copy(p, data)
	return nil
}

// Submit implements Accelerator. The question is the guest's own bytes.
func (t *tape) Submit(cmds []kernel.Command) (kernel.Event, error) {
	e := transcript.Event{Op: transcript.Submit}
	if t.from == nil {
		ev, err := t.acc.Submit(cmds)
		e.Value, e.Err = uint64(ev), refused(err)
	}
	e, err := t.keep(e, t.r.sent)
	if t.from != nil && err == nil {
		_, err = t.acc.Submit(cmds) // counts what it costs
	}
	return kernel.Event(e.Value), err
}

// Wait implements Accelerator.
func (t *tape) Wait(ctx context.Context, ev kernel.Event) error {
	_, err := t.keep(transcript.Event{Op: transcript.Wait, Err: refused(t.acc.Wait(ctx, ev))}, nil, uint64(ev))
	return err
}

// Spent implements Accelerator.
func (t *tape) Spent() kernel.Spent { return t.acc.Spent() }

// Close implements Accelerator.
func (t *tape) Close() error { return t.acc.Close() }

// Open implements sandbox.Host.
func (t *tape) Open(name string) (io.ReaderAt, error) {
	if t.from != nil {
		return heard{t, name, nil}, nil
	}
	at, err := t.Host.Open(name)
	return heard{t, name, at}, err
}

// heard is a blob that is recorded or replayed.
type heard struct {
	t    *tape
	name string
	at   io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (h heard) ReadAt(p []byte, off int64) (n int, err error) {
	e := transcript.Event{Op: transcript.Input}
	if h.t.from == nil {
		if n, err = h.at.ReadAt(p, off); err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		e.Data = p[:n]
	}
	if e, err = h.t.keep(e, []byte(h.name), uint64(off), uint64(len(p))); err != nil {
		return 0, err
	}
	if h.t.from != nil {
		if err := h.t.hand(p, e.Data, 0); err != nil {
			return 0, err
		}
	}
	if n = len(e.Data); n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Create implements sandbox.Host.
func (t *tape) Create(name string) (io.WriteCloser, error) {
	w, err := t.Host.Create(name)
	return summed{w, t, t.digest(name)}, err
}

// Event implements sandbox.Host.
func (t *tape) Event(e sandbox.Event) {
	if e.Kind == sandbox.Log {
		_, _ = fmt.Fprintf(t.digest("log"), "%d %s\n", e.Level, e.Text)
	}
	t.Host.Event(e)
}

func (t *tape) digest(name string) *digest {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.left[name]
	if d == nil {
		d = &digest{sum: blake3.New(32, nil)}
		t.left[name] = d
	}
	return d
}

// Write implements io.Writer. An output has one writer at a time.
func (d *digest) Write(p []byte) (int, error) {
	d.size += uint64(len(p))
	return d.sum.Write(p)
}

type summed struct {
	io.WriteCloser
	t *tape
	d *digest
}

// Write implements io.Writer.
func (s summed) Write(p []byte) (int, error) {
	_, _ = s.d.Write(p)
	return s.WriteCloser.Write(p)
}

// finish writes what the run came to and ends the transcript.
func (t *tape) finish(res sandbox.Result) error {
	end, err := canonical.Marshal(t.ending(res))
	if err != nil {
		return err
	}
	e, err := t.keep(transcript.Event{Op: transcript.End, Data: end}, nil)
	if err != nil {
		return err
	}
	if t.from != nil {
		if err := differs(e.Data, end); err != nil {
			return err
		}
		if _, err := t.from.Next(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it goes on after its end", transcript.ErrFormat)
		}
	}
	return errors.Join(t.w.Flush(), t.out.Close())
}

func (t *tape) ending(res sandbox.Result) sandbox.Ending {
	u := res.Usage
	x := sandbox.Ending{Exit: res.Exit, End: res.End, Fuel: u.Fuel, Work: u.Work, FLOP: u.FLOP, Bytes: u.Bytes, Memory: u.Memory, Metrics: res.Metrics}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.left)) {
		d := t.left[name]
		x.Outputs = append(x.Outputs, sandbox.Output{Name: name, Size: d.size, Sum: [32]byte(d.sum.Sum(nil))})
	}
	return x
}

// differs says in what a replay came to something else than was recorded.
func differs(recorded, replayed []byte) error {
	if string(recorded) == string(replayed) {
		return nil
	}
	var was, is sandbox.Ending
	if err := errors.Join(cbor.Unmarshal(recorded, &was), cbor.Unmarshal(replayed, &is)); err != nil {
		return fmt.Errorf("%w: end: %w", transcript.ErrFormat, err)
	}
	return fmt.Errorf("%w: %s", errDiverged, was.Differs(is))
}
