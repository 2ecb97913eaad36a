package passage

import (
	"encoding/binary"
	"fmt"
	"math"

	"idlemesh/gpu/kernel"
)

// A Device is where vectors are compared; guest.Device is one.
type Device interface {
	Alloc(size uint64) (kernel.Buffer, error)
	Write(b kernel.Buffer, off uint64, p []byte) error
	Read(b kernel.Buffer, off uint64, p []byte) error
	Submit(cmds []kernel.Command) (kernel.Event, error)
}

// A Hit is a passage and how near it is to the question, from 0 to about 1.
type Hit struct {
	Passage
	Score float64
}

const (
	width = 4096 // elements of a vector
	block = 256  // vectors on the device at once
	spare = 20   // candidates for each hit
)

// Search returns the k passages nearest to the question, nearest first. It calls each
// with the number of passages compared so far.
func (x *Index) Search(dev Device, question string, k int, each func(done int)) ([]Hit, error) {
	q := x.question(question)
	if k <= 0 || len(q.weight) == 0 {
		return nil, nil
	}
	x.weigh()
	s := searcher{dev: dev, n: len(x.passages), k: min(k*spare, len(x.passages))}
	if err := s.prepare(q); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	rows := make([]byte, 4*block*width)
	for at := 0; at < s.n; at += block {
		n := min(block, s.n-at)
		clear(rows)
		for i := range n {
			for _, t := range x.of(at + i) {
				put(rows[4*i*width:], t.feature, float32(x.weight(t))*x.scales[at+i])
			}
		}
		if err := s.compare(rows[:4*n*width], at, n); err != nil {
			return nil, fmt.Errorf("search: %w", err)
		}
		each(at + n)
	}
	candidates, err := s.best()
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return x.rank(q, candidates, k), nil
}

// put adds a word to a vector at the place and with the sign that its hash gives, so
// that words that share a place cancel out on average.
func put(row []byte, f feature, weight float32) {
	if f&(features>>1) != 0 {
		weight = -weight
	}
	place := row[4*(f%width):][:4]
	sum := math.Float32frombits(binary.LittleEndian.Uint32(place)) + weight
	binary.LittleEndian.PutUint32(place, math.Float32bits(sum))
}

// searcher holds the buffers of one search.
type searcher struct {
	dev                             Device
	n, k                            int // passages, candidates
	question, rows, scores, top, id kernel.Buffer
}

func (s *searcher) prepare(q question) error {
	for _, want := range []struct {
		b     *kernel.Buffer
		words int
	}{{&s.question, width}, {&s.rows, min(block, s.n) * width}, {&s.scores, s.n}, {&s.top, s.k}, {&s.id, s.k}} {
		var err error
		if *want.b, err = s.dev.Alloc(4 * uint64(want.words)); err != nil {
			return err
		}
	}
	row := make([]byte, 4*width)
	for f, w := range q.weight {
		put(row, f, float32(w))
	}
	return s.dev.Write(s.question, 0, row)
}

// compare scores n rows, the passages from at on.
func (s *searcher) compare(rows []byte, at, n int) error {
	if err := s.dev.Write(s.rows, 0, rows); err != nil {
		return err
	}
	_, err := s.dev.Submit([]kernel.Command{{
		Op: kernel.Gemm, Flags: kernel.TransB, M: 1, N: uint32(n), K: width,
		Dst: kernel.Operand{Buffer: s.scores, Offset: uint64(4 * at)}, A: kernel.Operand{Buffer: s.question}, B: kernel.Operand{Buffer: s.rows},
	}})
	return err
}

// best returns the passages with the highest scores.
func (s *searcher) best() ([]int32, error) {
	_, err := s.dev.Submit([]kernel.Command{{
		Op: kernel.TopK, M: 1, N: uint32(s.n), K: uint32(s.k),
		Dst: kernel.Operand{Buffer: s.top}, A: kernel.Operand{Buffer: s.scores}, C: kernel.Operand{Buffer: s.id, Type: kernel.I32},
	}})
	if err != nil {
		return nil, err
	}
	p, ids := make([]byte, 4*s.k), make([]int32, s.k)
	if err := s.dev.Read(s.id, 0, p); err != nil {
		return nil, err
	}
	_, err = binary.Decode(p, binary.LittleEndian, ids)
	return ids, err
}
