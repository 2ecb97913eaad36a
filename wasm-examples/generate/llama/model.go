// Package llama runs language models in the formats of llama2.c on a device, of numbers
// (versions 0 and 1) and of bytes (2): weights and cache live there, and each token is
// one list of commands.
//
// A Model is for one goroutine.
package llama

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"idlemesh/gpu/kernel"
)

// A Device is where a model lives; guest.Device is one.
type Device interface {
	Alloc(size uint64) (kernel.Buffer, error)
	Write(b kernel.Buffer, off uint64, p []byte) error
	Read(b kernel.Buffer, off uint64, p []byte) error
	Submit(cmds []kernel.Command) (kernel.Event, error)
}

// ErrFormat is wrapped by errors about files that are not what they should be.
var ErrFormat = errors.New("not in llama2.c format")

// A Config is the header of a model file.
type Config struct {
	Dim, Hidden, Layers, Heads, KVHeads, Vocab, Context int
	// Shared says that the classifier's weights are those of the embedding.
	Shared bool
	// Version is that of the file's format.
	Version int
	// Group is how many weights share a scale in version 2, else 0.
	Group int
}

const (
	magic      = 0x616b3432 // begins files from version 1 on
	oldHeader  = 7 * 4
	longHeader = 256
)

// readConfig reads the header and returns its size too.
func readConfig(r io.Reader) (Config, int64, error) {
	var h [7]int32
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		return Config{}, 0, fmt.Errorf("model: %w: header: %v", ErrFormat, err)
	}
	if uint32(h[0]) == magic {
		return readLongConfig(r, h)
	}
	c := Config{Dim: int(h[0]), Hidden: int(h[1]), Layers: int(h[2]), Heads: int(h[3]), KVHeads: int(h[4]), Vocab: int(h[5]), Context: int(h[6]), Shared: h[5] > 0}
	if !c.Shared {
		c.Vocab = -c.Vocab
	}
	return c, oldHeader, c.check()
}

// readLongConfig reads on in a header whose first words are h.
func readLongConfig(r io.Reader, h [7]int32) (Config, int64, error) {
	var rest struct {
		Vocab, Context int32
		Shared         uint8
		Group          int32
		_              [longHeader - 41]byte
	}
	if err := binary.Read(r, binary.LittleEndian, &rest); err != nil {
		return Config{}, 0, fmt.Errorf("model: %w: header: %v", ErrFormat, err)
	}
	c := Config{Dim: int(h[2]), Hidden: int(h[3]), Layers: int(h[4]), Heads: int(h[5]), KVHeads: int(h[6]),
		Vocab: int(rest.Vocab), Context: int(rest.Context), Shared: rest.Shared != 0, Version: int(h[1])}
	if c.Version != 1 && c.Version != 2 {
		return Config{}, 0, fmt.Errorf("model: %w: version %d, want 0, 1 or 2", ErrFormat, c.Version)
	}
	if err := c.check(); err != nil || c.Version == 1 {
		return c, longHeader, err
	}
	c.Group = int(rest.Group)
	if c.Group <= 0 || c.Group%kernel.Block != 0 || c.Dim%c.Group != 0 || c.Hidden%kernel.Block != 0 || c.Dim*c.Hidden%c.Group != 0 {
		return Config{}, 0, fmt.Errorf("model: %w: groups of %d do not fit blocks of %d and rows of %d and %d: export it with groups of 32",
			ErrFormat, c.Group, kernel.Block, c.Dim, c.Hidden)
	}
	return c, longHeader, nil
}

func (c Config) check() error {
	for _, v := range [...]int{c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.Vocab, c.Context} {
		if v <= 0 || v > 1<<20 || c.Layers > 1<<12 {
			return fmt.Errorf("model: %w: a size in its header is %d: %+v", ErrFormat, v, c)
		}
	}
	if c.Dim%c.Heads != 0 || c.Dim/c.Heads%2 != 0 || c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("model: %w: %d heads (%d in the cache) do not divide %d", ErrFormat, c.Heads, c.KVHeads, c.Dim)
	}
	return nil
}

// width returns the elements of one row of the cache.
func (c Config) width() int { return c.Dim / c.Heads * c.KVHeads }

// A Model is on a device, with a cache for the tokens it has seen.
type Model struct {
	Config
	dev     Device
	at      layout
	weights kernel.Buffer
	buf     scratch
	rows    int // of the cache, for each layer
	batch   int // tokens at once
	pos     int // tokens seen
	cmds    []kernel.Command
}

// scratch has the buffers that are not weights.
type scratch struct {
	x, xb, q, k, v, h, h2, logits, ids, freq, keys, values, bytes kernel.Buffer
}

// Load reads a model of size bytes and puts it on the device in pieces, with a cache
// for steps tokens (at most the model's context; zero means that).
func Load(dev Device, r io.Reader, size int64, steps int) (*Model, error) {
	m, _, err := begin(dev, r, size, steps)
	if err != nil {
		return nil, err
	}
	if m.weights, err = dev.Alloc(m.at.end); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return m, m.upload(r)
}

// An InputDevice can take a model's numbers by themselves from an input.
type InputDevice interface {
	Device
	FromInput(path string, off, size uint64) (kernel.Buffer, error)
}

// LoadInput is Load of the input at path, from which r reads. Where the file's weights are
// numbers they do not pass r, and the next run finds them on the device.
func LoadInput(dev InputDevice, path string, r io.Reader, size int64, steps int) (*Model, error) {
	m, header, err := begin(dev, r, size, steps)
	if err != nil {
		return nil, err
	}
	if m.Group > 0 {
		if m.weights, err = dev.Alloc(m.at.end); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		return m, m.upload(r)
	}
	if m.weights, err = dev.FromInput(path, uint64(header), m.at.end); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return m, m.uploadAngles()
}

// begin reads the header of a model, and takes room for all but its weights.
func begin(dev Device, r io.Reader, size int64, steps int) (*Model, int64, error) {
	c, header, err := readConfig(r)
	if err != nil {
		return nil, 0, err
	}
	m := &Model{Config: c, dev: dev, at: c.layout(), rows: c.Context}
	if steps > 0 {
		m.rows = min(steps, c.Context)
	}
	if size < header || uint64(size-header) < m.at.file {
		return nil, 0, fmt.Errorf("model: %w: its header asks for %d bytes of weights, the file has %d", ErrFormat, m.at.file, size)
	}
	m.batch = int(min(32, max(1, 1<<36/m.at.end)))
	return m, header, m.allocate()
}

func (m *Model) allocate() error {
	b, cache := m.batch, m.Layers*m.rows*m.width()
	for _, want := range []struct {
		b     *kernel.Buffer
		words int
	}{
		{&m.buf.bytes, b * max(m.Dim, m.Hidden) / kernel.Block * kernel.Q8.BlockWords()},
		{&m.buf.x, b * m.Dim}, {&m.buf.xb, b * m.Dim}, {&m.buf.q, b * m.Dim},
		{&m.buf.k, b * m.width()}, {&m.buf.v, b * m.width()},
		{&m.buf.h, b * m.Hidden}, {&m.buf.h2, b * m.Hidden},
		{&m.buf.logits, m.Vocab}, {&m.buf.ids, b}, {&m.buf.freq, m.Dim / m.Heads / 2},
		{&m.buf.keys, cache}, {&m.buf.values, cache},
	} {
		var err error
		if *want.b, err = m.dev.Alloc(4 * uint64(want.words)); err != nil {
			return fmt.Errorf("model: %w", err)
		}
	}
	return nil
}

func (m *Model) upload(r io.Reader) error {
	for _, t := range m.at.tensors {
		var err error
		if t.blocks {
			err = m.uploadBlocks(r, t)
		} else {
			err = m.uploadNumbers(r, t)
		}
		if err != nil {
			return fmt.Errorf("model: weights at byte %d: %w", t.start, err)
		}
	}
	return m.uploadAngles()
}

// uploadNumbers copies a tensor in pieces.
func (m *Model) uploadNumbers(r io.Reader, t tensor) error {
	size := 4 * t.n
	piece := make([]byte, min(size, 1<<20))
	for off := uint64(0); off < size; {
		p := piece[:min(uint64(len(piece)), size-off)]
		if _, err := io.ReadFull(r, p); err != nil {
			return err
		}
		if err := m.dev.Write(m.weights, t.start+off, p); err != nil {
			return err
		}
		off += uint64(len(p))
	}
	return nil
}

// uploadBlocks joins bytes and the scales behind them.
func (m *Model) uploadBlocks(r io.Reader, t tensor) error {
	ints, scales := make([]byte, t.n), make([]byte, 4*t.n/uint64(m.Group))
	for _, p := range [][]byte{ints, scales} {
		if _, err := io.ReadFull(r, p); err != nil {
			return err
		}
	}
	const size = 4 + kernel.Block
	blocks := make([]byte, 0, 1<<13*size)
	off := t.start
	for i := 0; i < len(ints); i += kernel.Block {
		blocks = append(append(blocks, scales[i/m.Group*4:][:4]...), ints[i:i+kernel.Block]...)
		if len(blocks) == cap(blocks) || i+kernel.Block == len(ints) {
			if err := m.dev.Write(m.weights, off, blocks); err != nil {
				return err
			}
			off += uint64(len(blocks))
			blocks = blocks[:0]
		}
	}
	return nil
}

func (m *Model) uploadAngles() error {
	half := m.Dim / m.Heads / 2
	freq := make([]float32, half)
	for i := range freq {
		freq[i] = float32(1 / math.Pow(10000, float64(i)/float64(half)))
	}
	p, err := binary.Append(nil, binary.LittleEndian, freq)
	if err != nil {
		return err
	}
	return m.dev.Write(m.buf.freq, 0, p)
}
