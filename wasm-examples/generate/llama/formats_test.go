package llama

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

var small = Config{Dim: 64, Hidden: 96, Layers: 2, Heads: 4, KVHeads: 2, Vocab: 70, Context: 40}

// weights are those of a model in the order of version 1, tensor by tensor.
func weights(c Config) [][]float32 {
	c.Version = 1
	r := rand.New(rand.NewPCG(3, 4))
	var all [][]float32
	for _, t := range c.layout().tensors {
		v := make([]float32, t.n)
		for i := range v {
			v[i] = float32(r.NormFloat64() / 4)
		}
		all = append(all, v)
	}
	return all
}

// file writes a model in a version's format, and for version 2 leaves in w what the
// bytes stand for.
func file(c Config, version, group int, w [][]float32) []byte {
	vocab := int32(c.Vocab)
	head := []int32{int32(c.Dim), int32(c.Hidden), int32(c.Layers), int32(c.Heads), int32(c.KVHeads), vocab, int32(c.Context)}
	if version == 0 {
		head[5] = -vocab // the classifier has its own weights
		b, _ := binary.Append(nil, binary.LittleEndian, head)
		l := c.Layers
		order := []int{3, 0}
		for i := range 4 * l { // q, k, v, o
			order = append(order, 4+i)
		}
		order = append(order, 1)
		for i := range 3 * l {
			order = append(order, 4+4*l+i)
		}
		order = append(order, 2)
		for _, i := range order {
			b, _ = binary.Append(b, binary.LittleEndian, w[i])
		}
		b = append(b, make([]byte, 4*c.Context*c.Dim/c.Heads)...)
		b, _ = binary.Append(b, binary.LittleEndian, w[len(w)-1])
		return b
	}
	b, _ := binary.Append(nil, binary.LittleEndian, append([]int32{magic, int32(version)}, head...))
	b = append(b, 0)
	b, _ = binary.Append(b, binary.LittleEndian, int32(group))
	b = append(b, make([]byte, longHeader-len(b))...)
	for i, v := range w {
		if version == 1 || i < 3 {
			b, _ = binary.Append(b, binary.LittleEndian, v)
			continue
		}
		var scales []float32
		for g := 0; g < len(v); g += group {
			m := float32(0)
			for _, x := range v[g : g+group] {
				m = max(m, float32(math.Abs(float64(x))))
			}
			scale := m / 127
			scales = append(scales, scale)
			for j, x := range v[g : g+group] {
				q := int8(math.Round(float64(x / scale)))
				b = append(b, byte(q))
				v[g+j] = scale * float32(q)
			}
		}
		b, _ = binary.Append(b, binary.LittleEndian, scales)
	}
	return b
}

// logits feeds tokens and returns the last one's.
func logits(t *testing.T, b []byte, tokens []int32) []float32 {
	t.Helper()
	s := gpu.New(cpu.New(0), 0).Session(0, kernel.Reference{})
	defer s.Close()
	m, err := Load(s, bytes.NewReader(b), int64(len(b)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Next(tokens, Choice{}); err != nil {
		t.Fatal(err)
	}
	p, v := make([]byte, 4*m.Vocab), make([]float32, m.Vocab)
	if err := s.Read(m.buf.logits, 0, p); err != nil {
		t.Fatal(err)
	}
	binary.Decode(p, binary.LittleEndian, v)
	return v
}

// TestVersions holds the formats to each other: numbers give the same bits, bytes what
// the numbers that they stand for give, but for the rounding of activations.
func TestVersions(t *testing.T) {
	tokens := []int32{1, 17, 4, 69}
	w := weights(small)
	old := logits(t, file(small, 0, 0, w), tokens)
	for i, v := range logits(t, file(small, 1, 0, w), tokens) {
		if v != old[i] {
			t.Fatalf("versions 0 and 1 differ at logit %d: %v, %v", i, old[i], v)
		}
	}
	for _, group := range []int{32, 64} {
		w := weights(small)
		got := logits(t, file(small, 2, group, w), tokens)
		want := logits(t, file(small, 1, 0, w), tokens)
		var off, size float64
		for i := range got {
			off, size = off+math.Pow(float64(got[i]-want[i]), 2), size+math.Pow(float64(want[i]), 2)
		}
		if r := math.Sqrt(off / size); !(r < 0.03) {
			t.Errorf("groups of %d: logits are %.3f off", group, r)
		}
	}
}

func TestRefusesVersions(t *testing.T) {
	good := file(small, 2, 32, weights(small))
	for name, tc := range map[string]struct {
		change func(b []byte) []byte
		want   string
	}{
		"version 3":       {func(b []byte) []byte { b[4] = 3; return b }, "version 3"},
		"no heads":        {func(b []byte) []byte { b[20] = 0; return b }, "is 0"},
		"groups of 48":    {func(b []byte) []byte { b[37] = 48; return b }, "groups of 48"},
		"groups of 0":     {func(b []byte) []byte { b[37] = 0; return b }, "groups of 0"},
		"groups too long": {func(b []byte) []byte { b[37] = 128; return b }, "groups of 128"},
		"cut header":      {func(b []byte) []byte { return b[:100] }, "header"},
		"cut weights":     {func(b []byte) []byte { return b[:len(b)-1] }, "asks for"},
	} {
		t.Run(name, func(t *testing.T) {
			b := tc.change(bytes.Clone(good))
			s := gpu.New(cpu.New(0), 0).Session(0, kernel.Reference{})
			defer s.Close()
			if _, err := Load(s, bytes.NewReader(b), int64(len(b)), 0); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Load = %v, want %q", err, tc.want)
			}
		})
	}
}
