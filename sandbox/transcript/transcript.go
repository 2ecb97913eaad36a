// Package transcript is what a run heard from outside: the bytes of its inputs and the
// answers of its device, each with what was asked and the fuel used until then, and at
// the end what the run came to. All else in a run follows from its module and its Spec,
// so with a transcript it can be run again without inputs or device, and must ask the
// same, use the same fuel and leave the same outputs.
//
// A transcript is magic, a CBOR Header behind its length, and Events, and has one
// encoding alone. Its root is BLAKE3 of it, made by whoever keeps it.
package transcript

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/fxamacker/cbor/v2"
)

const magic = "idlemesh transcript 1\n"

// Max bounds a transcript in bytes; maxHeader and maxErr parts of one.
const (
	Max       = 256 << 20
	maxHeader = 32 << 20
	maxErr    = 4 << 10
)

// ErrFormat is returned for bytes that are no transcript.
var ErrFormat = errors.New("not a transcript")

// ErrFull is returned for an Event that would make a transcript larger than Max.
var ErrFull = fmt.Errorf("the transcript would be larger than %d MiB", Max>>20)

// A Header says what was run, and by what.
type Header struct {
	Ran    string   `cbor:"1,keyasint"` // versions that results depend on
	Module [32]byte `cbor:"2,keyasint"` // SHA-256
	Spec   []byte   `cbor:"3,keyasint"` // sandbox.Spec, CBOR
	Device []byte   `cbor:"4,keyasint"` // kernel.Info as guests are told it, CBOR
}

// An Op says what was asked.
type Op uint8

// Ops. Numbers are for ever.
const (
	Input  Op = iota + 1 // part of a blob
	Alloc                // device memory
	Free                 // device memory
	Write                // to device memory
	Read                 // from device memory
	Submit               // kernel commands
	Wait                 // for kernels
	End                  // nothing more: Data is what the run came to
	Load                 // part of a blob to the device
)

// String returns the op in a word.
func (o Op) String() string {
	if o < Input || o > Load {
		return "unknown"
	}
	return [...]string{"input", "alloc", "free", "write", "read", "submit", "wait", "end", "load"}[o-1]
}

// An Event is one answer from outside.
type Event struct {
	Op    Op
	Fuel  uint64   // that the run had used when it asked
	Asked [16]byte // the first half of SHA-256 of what was asked
	Value uint64   // a handle, an event, or zero
	Err   string   // why it was refused; empty when it was not
	Data  []byte   // that was read
}

func appendEvent(b []byte, e Event) []byte {
	b = append(b, byte(e.Op))
	b = binary.AppendUvarint(b, e.Fuel)
	b = append(b, e.Asked[:]...)
	b = binary.AppendUvarint(b, e.Value)
	b = binary.AppendUvarint(b, uint64(len(e.Err)))
	b = append(b, e.Err...)
	return binary.AppendUvarint(b, uint64(len(e.Data)))
}

// A Writer writes one transcript. It is for one goroutine.
type Writer struct {
	w    *bufio.Writer
	size uint64
	buf  []byte
}

// NewWriter begins a transcript on w.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	b, err := cbor.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	if len(b) > maxHeader {
		return nil, fmt.Errorf("transcript: a header of %d bytes: %w", len(b), ErrFull)
	}
	t := &Writer{w: bufio.NewWriterSize(w, 64<<10)}
	return t, t.put(binary.AppendUvarint([]byte(magic), uint64(len(b))), b)
}

// Write adds an event; nothing of e is kept.
func (t *Writer) Write(e Event) error {
	e.Err = e.Err[:min(len(e.Err), maxErr)]
	t.buf = appendEvent(t.buf[:0], e)
	if t.size+uint64(len(t.buf)+len(e.Data)) > Max {
		return ErrFull
	}
	return t.put(t.buf, e.Data)
}

func (t *Writer) put(parts ...[]byte) error {
	for _, p := range parts {
		t.size += uint64(len(p))
		if _, err := t.w.Write(p); err != nil {
			return fmt.Errorf("transcript: %w", err)
		}
	}
	return nil
}

// Flush hands what was written to the underlying writer.
func (t *Writer) Flush() error { return t.w.Flush() }

// A Reader reads a transcript that nobody vouches for. It is for one goroutine.
type Reader struct {
	r    *bufio.Reader
	left uint64 // bytes of Max
}

// NewReader reads a header.
func NewReader(r io.Reader) (*Reader, Header, error) {
	t := &Reader{r: bufio.NewReaderSize(r, 64<<10), left: Max}
	var h Header
	start, err := t.bytes(uint64(len(magic)))
	if err != nil || string(start) != magic {
		return nil, h, fmt.Errorf("%w: it does not begin with %q", ErrFormat, magic[:len(magic)-1])
	}
	n, err := t.number()
	if err != nil {
		return nil, h, err
	}
	if n > maxHeader {
		return nil, h, fmt.Errorf("%w: a header of %d bytes", ErrFormat, n)
	}
	b, err := t.bytes(n)
	if err != nil {
		return nil, h, err
	}
	if err := strict.Unmarshal(b, &h); err != nil {
		return nil, h, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	return t, h, nil
}

var strict = func() cbor.DecMode {
	m, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// Next returns the next event, io.EOF after the last, which is an End.
func (t *Reader) Next() (e Event, err error) {
	op, err := t.r.ReadByte()
	if err != nil {
		return e, err
	}
	e.Op = Op(op)
	if e.Op < Input || e.Op > Load {
		return e, fmt.Errorf("%w: an event of kind %d", ErrFormat, op)
	}
	t.left -= min(t.left, 1)
	if e.Fuel, err = t.number(); err != nil {
		return e, err
	}
	asked, err := t.bytes(uint64(len(e.Asked)))
	if err != nil {
		return e, err
	}
	copy(e.Asked[:], asked)
	if e.Value, err = t.number(); err != nil {
		return e, err
	}
	n, err := t.number()
	if err != nil || n > maxErr {
		return e, errors.Join(err, fmt.Errorf("%w: a reason of %d bytes", ErrFormat, n))
	}
	why, err := t.bytes(n)
	if err != nil {
		return e, err
	}
	e.Err = string(why)
	if n, err = t.number(); err == nil {
		e.Data, err = t.bytes(n)
	}
	return e, err
}

// number reads a varint in its shortest form.
func (t *Reader) number() (n uint64, err error) {
	for i := range binary.MaxVarintLen64 {
		c, err := t.r.ReadByte()
		if err != nil {
			return 0, early(err)
		}
		t.left -= min(t.left, 1)
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break
		}
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				break
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: a number is not in its shortest form", ErrFormat)
}

// bytes reads n bytes, and never makes room for what is not there.
func (t *Reader) bytes(n uint64) ([]byte, error) {
	if n > t.left || n > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d bytes more are too many", ErrFormat, n)
	}
	t.left -= n
	const step = 1 << 20
	b := make([]byte, 0, min(n, step))
	for uint64(len(b)) < n {
		m := min(n-uint64(len(b)), step)
		b = append(b, make([]byte, m)...)
		if _, err := io.ReadFull(t.r, b[uint64(len(b))-m:]); err != nil {
			return nil, early(err)
		}
	}
	return b, nil
}

func early(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends early", ErrFormat)
	}
	return err
}
