package llama

import (
	"encoding/binary"
	"errors"
	"math"

	"idlemesh/gpu/kernel"
)

// ErrFull is returned when the cache has no row for another token.
var ErrFull = errors.New("the model's context is full")

// A Choice says how the next token is chosen.
type Choice struct {
	// Temperature 0 takes the likeliest token; 1 draws by the model's own odds.
	Temperature float32
	// TopP draws only from the likeliest tokens that have this share together. Zero
	// means all.
	TopP float32
	// Seed gives the same tokens for the same prompt.
	Seed uint64
}

// Next feeds tokens to the model and returns the one that it chooses to follow.
func (m *Model) Next(tokens []int32, how Choice) (int32, error) {
	for len(tokens) > m.batch {
		if err := m.feed(tokens[:m.batch]); err != nil {
			return 0, err
		}
		tokens = tokens[m.batch:]
	}
	if err := m.feed(tokens); err != nil {
		return 0, err
	}
	m.choose(len(tokens), how)
	if err := m.submit(); err != nil {
		return 0, err
	}
	var id [4]byte
	err := m.dev.Read(m.buf.ids, 0, id[:])
	return int32(binary.LittleEndian.Uint32(id[:])), err
}

// feed takes tokens, at most a batch, through all layers. The last commands may be
// left unsubmitted, so that choose joins them.
func (m *Model) feed(tokens []int32) error {
	if len(tokens) == 0 || m.pos+len(tokens) > m.rows {
		return ErrFull
	}
	if err := m.submit(); err != nil {
		return err
	}
	ids, err := binary.Append(nil, binary.LittleEndian, tokens)
	if err != nil {
		return err
	}
	if err := m.dev.Write(m.buf.ids, 0, ids); err != nil {
		return err
	}
	n := uint32(len(tokens))
	m.add(kernel.Command{Op: kernel.GetRows, M: n, N: u(m.Dim), K: u(m.Vocab),
		Dst: at(m.buf.x, 0), A: m.typed(at(m.weights, m.at.embedding)), B: integers(m.buf.ids)})
	for l := range m.Layers {
		m.attend(l, n)
		m.transform(l, n)
		if m.at.end > 1<<32 { // one list must not hold a device for long
			if err := m.submit(); err != nil {
				return err
			}
		}
	}
	m.pos += len(tokens)
	return nil
}

// attend adds to x what layer l's attention finds for n tokens.
func (m *Model) attend(l int, n uint32) {
	b, dim, kv := &m.buf, u(m.Dim), u(m.width())
	cache := uint64(4 * l * m.rows * m.width())
	pos := uint32(m.pos)
	m.norm(m.at.normAtt, l, n)
	m.pack(b.xb, n, dim)
	m.linear(b.q, b.xb, m.at.q, l, n, dim, dim, false)
	m.linear(b.k, b.xb, m.at.k, l, n, kv, dim, false)
	m.linear(b.v, b.xb, m.at.v, l, n, kv, dim, false)
	m.turn(b.q, n, m.Heads)
	m.turn(b.k, n, m.KVHeads)
	m.add(kernel.Command{Op: kernel.KVAppend, M: n, N: kv, K: u(m.rows),
		Dst: at(b.keys, cache), A: at(b.k, 0), B: at(b.v, 0), C: at(b.values, cache), Params: [10]uint32{pos}})
	m.add(kernel.Command{Op: kernel.Attention, Flags: kernel.Causal, M: n, N: u(m.Heads), K: u(m.Dim / m.Heads), L: u(m.KVHeads),
		Dst: at(b.xb, 0), A: at(b.q, 0), B: at(b.keys, cache), C: at(b.values, cache), Params: [10]uint32{pos, pos + n}})
	m.pack(b.xb, n, dim)
	m.linear(b.x, b.xb, m.at.o, l, n, dim, dim, true)
}

// turn rotates n rows of heads by their positions.
func (m *Model) turn(b kernel.Buffer, n uint32, heads int) {
	m.add(kernel.Command{Op: kernel.RoPE, M: n, N: u(heads), K: u(m.Dim / m.Heads),
		Dst: at(b, 0), A: at(b, 0), B: at(m.buf.freq, 0), Params: [10]uint32{uint32(m.pos)}})
}

// transform adds to x what layer l's feed-forward part makes of it.
func (m *Model) transform(l int, n uint32) {
	b, dim, hidden := &m.buf, u(m.Dim), u(m.Hidden)
	m.norm(m.at.normFFN, l, n)
	m.pack(b.xb, n, dim)
	m.linear(b.h, b.xb, m.at.w1, l, n, hidden, dim, false)
	m.linear(b.h2, b.xb, m.at.w3, l, n, hidden, dim, false)
	m.add(kernel.Command{Op: kernel.SwiGLU, M: n, N: hidden, Dst: at(b.h, 0), A: at(b.h, 0), B: at(b.h2, 0)})
	m.pack(b.h, n, hidden)
	m.linear(b.x, b.h, m.at.w2, l, n, dim, hidden, true)
}

// choose takes the last of n tokens to logits and a token in ids.
func (m *Model) choose(n int, how Choice) {
	b, last := &m.buf, uint64(4*(n-1)*m.Dim)
	m.add(kernel.Command{Op: kernel.RMSNorm, M: 1, N: u(m.Dim), Params: [10]uint32{epsilon},
		Dst: at(b.xb, 0), A: at(b.x, last), B: at(m.weights, m.at.norm)})
	m.pack(b.xb, 1, u(m.Dim))
	m.linear(b.logits, b.xb, m.at.classifier, 0, 1, u(m.Vocab), u(m.Dim), false)
	m.add(kernel.Command{Op: kernel.Sample, M: 1, N: u(m.Vocab), Dst: integers(b.ids), A: at(b.logits, 0),
		Params: [10]uint32{uint32(how.Seed), uint32(how.Seed >> 32), uint32(m.pos), 0, math.Float32bits(how.Temperature), math.Float32bits(how.TopP)}})
}

var epsilon = math.Float32bits(1e-5)

func (m *Model) norm(weights uint64, l int, n uint32) {
	m.add(kernel.Command{Op: kernel.RMSNorm, M: n, N: u(m.Dim), Params: [10]uint32{epsilon},
		Dst: at(m.buf.xb, 0), A: at(m.buf.x, 0), B: at(m.weights, weights+uint64(4*l*m.Dim))})
}

// pack makes n rows of src ready for linear, where the weights are bytes.
func (m *Model) pack(src kernel.Buffer, n, in uint32) {
	if m.Group > 0 {
		m.add(kernel.Command{Op: kernel.Quantize, M: n, N: in, Dst: m.typed(at(m.buf.bytes, 0)), A: at(src, 0)})
	}
}

// linear multiplies n rows of src, packed before, by layer l's matrix of out rows of in,
// into dst or on top of it.
func (m *Model) linear(dst, src kernel.Buffer, weights uint64, l int, n, out, in uint32, onTop bool) {
	size := uint64(l) * uint64(out) * uint64(in)
	c := kernel.Command{Op: kernel.Gemm, Flags: kernel.TransB, M: n, N: out, K: in, Dst: at(dst, 0), A: at(src, 0)}
	beta := &c.Params[7]
	if m.Group > 0 {
		c.Op, c.Flags, c.A = kernel.GemmQ8, 0, m.typed(at(m.buf.bytes, 0))
		size, beta = size/kernel.Block*uint64(kernel.Q8.BlockWords()), &c.Params[0]
	}
	c.B = m.typed(at(m.weights, weights+4*size))
	if onTop {
		*beta = math.Float32bits(1)
	}
	m.add(c)
}

// typed says what weights are.
func (m *Model) typed(o kernel.Operand) kernel.Operand {
	if m.Group > 0 {
		o.Type = kernel.Q8
	}
	return o
}

func (m *Model) add(c kernel.Command) { m.cmds = append(m.cmds, c) }

func (m *Model) submit() error {
	if len(m.cmds) == 0 {
		return nil
	}
	_, err := m.dev.Submit(m.cmds)
	m.cmds = m.cmds[:0]
	return err
}

func at(b kernel.Buffer, off uint64) kernel.Operand { return kernel.Operand{Buffer: b, Offset: off} }

func integers(b kernel.Buffer) kernel.Operand { return kernel.Operand{Buffer: b, Type: kernel.I32} }

func u(n int) uint32 { return uint32(n) }
