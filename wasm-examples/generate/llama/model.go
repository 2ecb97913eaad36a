// Package llama runs language models in the format of llama2.c on a device: weights
// and cache live there, and each token is one list of commands.
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
}

const headerSize = 7 * 4

func readConfig(r io.Reader) (Config, error) {
	var h [7]int32
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		return Config{}, fmt.Errorf("model: %w: header: %v", ErrFormat, err)
	}
	c := Config{int(h[0]), int(h[1]), int(h[2]), int(h[3]), int(h[4]), int(h[5]), int(h[6]), h[5] > 0}
	if !c.Shared {
		c.Vocab = -c.Vocab
	}
	for _, v := range [...]int{c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.Vocab, c.Context} {
		if v <= 0 || v > 1<<20 || c.Layers > 1<<12 {
			return Config{}, fmt.Errorf("model: %w: a size in its header is %d: %v", ErrFormat, v, h)
		}
	}
	if c.Dim%c.Heads != 0 || c.Dim/c.Heads%2 != 0 || c.Heads%c.KVHeads != 0 {
		return Config{}, fmt.Errorf("model: %w: %d heads (%d in the cache) do not divide %d", ErrFormat, c.Heads, c.KVHeads, c.Dim)
	}
	return c, nil
}

// width returns the elements of one row of the cache.
func (c Config) width() int { return c.Dim / c.Heads * c.KVHeads }

// layout holds where each tensor begins, in bytes, in the order of the file; those
// of a layer follow one another by the size next to them.
type layout struct {
	embedding, normAtt, q, k, v, o, normFFN, w1, w2, w3, norm, classifier, end uint64
}

func (c Config) layout() layout {
	at := uint64(0)
	next := func(sizes ...int) uint64 {
		start, n := at, uint64(4)
		for _, s := range sizes {
			n *= uint64(s)
		}
		at += n
		return start
	}
	var l layout
	l.embedding = next(c.Vocab, c.Dim)
	l.normAtt = next(c.Layers, c.Dim)
	l.q = next(c.Layers, c.Dim, c.Dim)
	l.k = next(c.Layers, c.width(), c.Dim)
	l.v = next(c.Layers, c.width(), c.Dim)
	l.o = next(c.Layers, c.Dim, c.Dim)
	l.normFFN = next(c.Layers, c.Dim)
	l.w1 = next(c.Layers, c.Hidden, c.Dim)
	l.w2 = next(c.Layers, c.Dim, c.Hidden)
	l.w3 = next(c.Layers, c.Hidden, c.Dim)
	l.norm = next(c.Dim)
	next(c.Context, c.Dim/c.Heads) // tables of sines and cosines that newer programs compute
	l.classifier = l.embedding
	if !c.Shared {
		l.classifier = next(c.Vocab, c.Dim)
	}
	l.end = at
	return l
}

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
	x, xb, q, k, v, h, h2, logits, ids, freq, keys, values kernel.Buffer
}

// Load reads a model of size bytes and puts it on the device in pieces, with a cache
// for steps tokens (at most the model's context; zero means that).
func Load(dev Device, r io.Reader, size int64, steps int) (*Model, error) {
	c, err := readConfig(r)
	if err != nil {
		return nil, err
	}
	m := &Model{Config: c, dev: dev, at: c.layout(), rows: c.Context}
	if steps > 0 {
		m.rows = min(steps, c.Context)
	}
	if have := uint64(size) - headerSize; size < headerSize || have < m.at.end {
		return nil, fmt.Errorf("model: %w: its header asks for %d bytes of weights, the file has %d", ErrFormat, m.at.end, size)
	}
	m.batch = int(min(32, max(1, 1<<36/m.at.end)))
	if err := m.allocate(); err != nil {
		return nil, err
	}
	return m, m.upload(r)
}

func (m *Model) allocate() error {
	b, cache := m.batch, m.Layers*m.rows*m.width()
	for _, want := range []struct {
		b     *kernel.Buffer
		words int
	}{
		{&m.weights, int(m.at.end / 4)},
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
	piece := make([]byte, min(m.at.end, 1<<20))
	for off := uint64(0); off < m.at.end; {
		p := piece[:min(uint64(len(piece)), m.at.end-off)]
		if _, err := io.ReadFull(r, p); err != nil {
			return fmt.Errorf("model: weights at byte %d: %w", off, err)
		}
		if err := m.dev.Write(m.weights, off, p); err != nil {
			return fmt.Errorf("model: %w", err)
		}
		off += uint64(len(p))
	}
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
