// Package passage finds the passages of a folder of text that are nearest to a
// question. Passages are bags of words, weighed by how rare a word is and hashed to
// vectors of one length; a device compares them with the question.
//
// An Index is for one goroutine.
package passage

import "bytes"

// A Passage is a few lines of a file that belong together.
type Passage struct {
	File string
	Line int    // of its first, counting from 1
	Head string // its first lines
}

const (
	shortest = 6  // lines: a passage goes on over blank lines until it has as many
	longest  = 40 // lines: there it is cut
	headed   = 6  // lines of Head
)

// An Index holds the passages of the files that were added.
type Index struct {
	passages []Passage
	terms    []term    // of all passages, one after another
	ends     []int     // where each passage's terms end
	spread   []int32   // passages that have a feature
	counts   []int32   // of each feature in the passage at hand
	at       []feature // of those that it has
	scales   []float32
}

// A term is a word and how often its passage has it.
type term struct {
	feature feature
	n       int32
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{spread: make([]int32, features), counts: make([]int32, features)}
}

// Len returns the number of passages.
func (x *Index) Len() int { return len(x.passages) }

// Add cuts a file into passages. It leaves out what is not text.
func (x *Index) Add(name string, text []byte) {
	if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		return
	}
	line := 1
	for len(text) > 0 {
		n, lines := cut(text)
		x.add(name, line, text[:n])
		text, line = text[n:], line+lines
	}
}

// cut returns the bytes and lines of the first passage: up to where a new one starts
// at the margin, behind a blank line.
func cut(text []byte) (n, lines int) {
	blank := false
	for n < len(text) && lines < longest {
		end := bytes.IndexByte(text[n:], '\n') + 1
		if end == 0 {
			end = len(text) - n
		}
		row := bytes.TrimSpace(text[n : n+end])
		if blank && lines >= shortest && len(row) > 0 && text[n] == row[0] {
			return n, lines
		}
		blank = len(row) == 0
		n, lines = n+end, lines+1
	}
	return n, lines
}

func (x *Index) add(name string, line int, text []byte) {
	start := len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
	line += bytes.Count(text[:start], []byte("\n"))
	start = bytes.LastIndexByte(text[:start], '\n') + 1
	words(text, x.count)
	if len(x.at) == 0 {
		return
	}
	top := head(text[start:])
	words([]byte(top), x.count) // what it begins with says what it is about
	words([]byte(name), x.count)
	for _, f := range x.at {
		x.terms = append(x.terms, term{f, x.counts[f]})
		x.spread[f]++
		x.counts[f] = 0
	}
	x.at = x.at[:0]
	x.ends = append(x.ends, len(x.terms))
	x.passages = append(x.passages, Passage{name, line, top})
}

// count notes a feature of the passage at hand.
func (x *Index) count(f feature) {
	if x.counts[f] == 0 {
		x.at = append(x.at, f)
	}
	x.counts[f]++
}

func head(text []byte) string {
	end := 0
	for range headed {
		next := bytes.IndexByte(text[end:], '\n')
		if next < 0 {
			end = len(text)
			break
		}
		end += next + 1
	}
	return string(bytes.TrimRight(text[:end], " \t\r\n"))
}
