// Package onnx runs the operator cases of the ONNX project, which nobody here wrote, by
// kernels: Debian has them in its package libonnx-testdata. Only tests import it.
package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// A tensor has numbers or integers.
type tensor struct {
	dims   []int
	words  []uint32 // binary32, or
	ints   []int    // integers
	floats bool
}

func (t *tensor) size() int {
	n := 1
	for _, d := range t.dims {
		n *= d
	}
	return n
}

// A node is one operator of a graph.
type node struct {
	op      string
	in, out []string
	attrs   map[string]attribute
}

type attribute struct {
	f      float32
	i      int
	s      string
	t      *tensor
	floats []float32
	ints   []int
}

// A model is a graph and the tensors that it brings along.
type model struct {
	nodes    []node
	inputs   []string
	outputs  []string
	constant map[string]*tensor
}

var errFile = errors.New("not an ONNX file")

// fields calls do for each field of a protobuf message: v for what is a number, b for
// what is bytes.
func fields(p []byte, do func(field int, v uint64, b []byte) error) error {
	for len(p) > 0 {
		key, n := binary.Uvarint(p)
		if n <= 0 {
			return errFile
		}
		p = p[n:]
		var v uint64
		var b []byte
		switch key & 7 {
		case 0:
			v, n = binary.Uvarint(p)
		case 1:
			n = 8
		case 2:
			var size uint64
			size, n = binary.Uvarint(p)
			if n <= 0 || size > uint64(len(p)-n) {
				return errFile
			}
			b, n = p[n:n+int(size)], n+int(size)
		case 5:
			n = 4
		default:
			return errFile
		}
		if n <= 0 || n > len(p) {
			return errFile
		}
		if key&7 == 5 {
			v = uint64(binary.LittleEndian.Uint32(p))
		}
		p = p[n:]
		if err := do(int(key>>3), v, b); err != nil {
			return err
		}
	}
	return nil
}

func readModel(p []byte) (*model, error) {
	m := &model{constant: map[string]*tensor{}}
	return m, fields(p, func(f int, _ uint64, b []byte) error {
		if f != 7 {
			return nil
		}
		return fields(b, m.graph)
	})
}

func (m *model) graph(f int, _ uint64, b []byte) error {
	switch f {
	case 1:
		n, err := readNode(b)
		m.nodes = append(m.nodes, n)
		return err
	case 5:
		name, t, err := readTensor(b)
		m.constant[name] = t
		return err
	case 11, 12:
		list := &m.inputs
		if f == 12 {
			list = &m.outputs
		}
		return fields(b, func(f int, _ uint64, b []byte) error {
			if f == 1 {
				*list = append(*list, string(b))
			}
			return nil
		})
	}
	return nil
}

func readNode(p []byte) (node, error) {
	n := node{attrs: map[string]attribute{}}
	err := fields(p, func(f int, _ uint64, b []byte) error {
		switch f {
		case 1:
			n.in = append(n.in, string(b))
		case 2:
			n.out = append(n.out, string(b))
		case 4:
			n.op = string(b)
		case 5:
			return n.attribute(b)
		}
		return nil
	})
	return n, err
}

func (n *node) attribute(p []byte) error {
	var a attribute
	name := ""
	err := fields(p, func(f int, v uint64, b []byte) (err error) {
		switch f {
		case 1:
			name = string(b)
		case 2:
			a.f = math.Float32frombits(uint32(v))
		case 3:
			a.i = int(int64(v))
		case 4:
			a.s = string(b)
		case 5:
			_, a.t, err = readTensor(b)
		case 7:
			a.floats = append(a.floats, math.Float32frombits(uint32(v)))
		case 8:
			a.ints = append(a.ints, varints(v, b)...)
		}
		return err
	})
	n.attrs[name] = a
	return err
}

// varints are those of a field, packed or alone.
func varints(v uint64, b []byte) (all []int) {
	if b == nil {
		return []int{int(int64(v))}
	}
	for len(b) > 0 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return all
		}
		all, b = append(all, int(int64(v))), b[n:]
	}
	return all
}

// readTensor reads binary32 and integers, and returns no tensor for other types.
func readTensor(p []byte) (name string, t *tensor, err error) {
	t = &tensor{}
	kind := 0
	var raw, packed []byte
	err = fields(p, func(f int, v uint64, b []byte) error {
		switch f {
		case 1:
			t.dims = append(t.dims, varints(v, b)...)
		case 2:
			kind = int(v)
		case 4:
			if packed = b; b == nil {
				raw = binary.LittleEndian.AppendUint32(raw, uint32(v))
			}
		case 5, 7:
			t.ints = append(t.ints, varints(v, b)...)
		case 8:
			name = string(b)
		case 9:
			raw = b
		}
		return nil
	})
	if packed != nil {
		raw = packed
	}
	width := map[int]int{1: 4, 3: 1, 6: 4, 7: 8, 9: 1}[kind]
	if err != nil || width == 0 {
		return name, nil, err
	}
	t.floats = kind == 1
	for i := 0; i+width <= len(raw); i += width {
		switch b := raw[i:]; kind {
		case 1:
			t.words = append(t.words, binary.LittleEndian.Uint32(b))
		case 6:
			t.ints = append(t.ints, int(int32(binary.LittleEndian.Uint32(b))))
		case 7:
			t.ints = append(t.ints, int(int64(binary.LittleEndian.Uint64(b))))
		default:
			t.ints = append(t.ints, int(int8(b[0])))
		}
	}
	if n := t.size(); len(t.words)+len(t.ints) != n {
		return name, nil, fmt.Errorf("%w: %v has %d elements", errFile, t.dims, len(t.words)+len(t.ints))
	}
	return name, t, nil
}

// readCase reads a case's graph, what goes in by name, and what must come out.
func readCase(dir string) (m *model, in map[string]*tensor, want []*tensor, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return nil, nil, nil, err
	}
	if m, err = readModel(b); err != nil {
		return nil, nil, nil, err
	}
	in = m.constant
	var given []string
	for _, name := range m.inputs {
		if in[name] == nil {
			given = append(given, name)
		}
	}
	read := func(kind string, i int) (*tensor, error) {
		b, err := os.ReadFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("%s_%d.pb", kind, i)))
		if err != nil {
			return nil, err
		}
		_, t, err := readTensor(b)
		return t, err
	}
	for i, name := range given {
		if in[name], err = read("input", i); err != nil {
			return nil, nil, nil, err
		}
	}
	for i := range m.outputs {
		t, err := read("output", i)
		if err != nil {
			return nil, nil, nil, err
		}
		want = append(want, t)
	}
	return m, in, want, nil
}
