package llama

import "idlemesh/gpu/kernel"

// layout holds where each tensor begins on the device, in bytes; those of a layer
// follow one another. Numbers lie there as they do in the file behind its header.
type layout struct {
	embedding, normAtt, q, k, v, o, normFFN, w1, w2, w3, norm, classifier, end uint64
	file                                                                       uint64 // bytes of the file after its header
	tensors                                                                    []tensor
}

// A tensor is one piece of the file.
type tensor struct {
	start, n uint64 // n elements
	blocks   bool
}

func (c Config) layout() layout {
	var l layout
	add := func(copies int, blocks bool, sizes ...int) uint64 {
		start, n := l.end, uint64(1)
		for _, s := range sizes {
			n *= uint64(s)
		}
		for range copies {
			l.tensors = append(l.tensors, tensor{start: l.end, n: n, blocks: blocks})
			if blocks {
				l.end += n / kernel.Block * uint64(4*kernel.Q8.BlockWords())
				l.file += n + 4*n/uint64(c.Group)
			} else {
				l.end += 4 * n
				l.file += 4 * n
			}
		}
		return start
	}
	q := c.Version == 2
	if c.Version == 0 {
		l.embedding = add(1, q, c.Vocab, c.Dim)
	}
	l.normAtt = add(1, false, c.Layers, c.Dim)
	if c.Version > 0 {
		l.normFFN = add(1, false, c.Layers, c.Dim)
		l.norm = add(1, false, c.Dim)
		l.embedding = add(1, q, c.Vocab, c.Dim)
	}
	l.q = add(c.Layers, q, c.Dim, c.Dim)
	l.k = add(c.Layers, q, c.width(), c.Dim)
	l.v = add(c.Layers, q, c.width(), c.Dim)
	l.o = add(c.Layers, q, c.Dim, c.Dim)
	if c.Version == 0 {
		l.normFFN = add(1, false, c.Layers, c.Dim)
	}
	l.w1 = add(c.Layers, q, c.Hidden, c.Dim)
	l.w2 = add(c.Layers, q, c.Dim, c.Hidden)
	l.w3 = add(c.Layers, q, c.Hidden, c.Dim)
	if c.Version == 0 {
		l.norm = add(1, false, c.Dim)
		add(1, false, c.Context, c.Dim/c.Heads) // tables of sines and cosines that newer programs compute
	}
	l.classifier = l.embedding
	if !c.Shared {
		l.classifier = add(1, q, c.Vocab, c.Dim)
	}
	return l
}
