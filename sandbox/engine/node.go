package engine

import (
	"maps"
	"slices"

	"idlemesh/sandbox"
)

const chunk = 64 << 10

// perNode is what a file or folder counts for beside its contents, in bytes.
const perNode = 512

// A node is a file or a folder.
type node struct {
	ino    uint64
	parent *node
	area   *area            // where it counts; nil in the read-only part
	kids   map[string]*node // of a folder; nil for a file
	in     *sandbox.Input   // of a file under /in

	size   int64
	chunks [][]byte // a nil or short one goes on with zeros
	opens  int
	gone   bool // unlinked: it ends with its last open file

	atime, mtime int64 // nanoseconds
}

// An area is a writable part of the tree with a quota.
type area struct {
	fs    *fileSystem
	name  string
	left  *uint64
	limit uint64
}

// take counts n more bytes; the guest gets "no space" where they are too many.
func (a *area) take(n uint64) bool {
	if n > *a.left {
		a.fs.full(a.name, a.limit)
		return false
	}
	*a.left -= n
	return true
}

func (a *area) give(n uint64) { *a.left += n }

func (n *node) isDir() bool { return n.kids != nil }

func (n *node) names() []string { return slices.Sorted(maps.Keys(n.kids)) }

// total returns what the tree below n counts for.
func (n *node) total() uint64 {
	t := uint64(perNode + n.size)
	for _, k := range n.kids {
		t += k.total()
	}
	return t
}

// writeAt writes p at off, all or nothing.
func (n *node) writeAt(p []byte, off int64) bool {
	if end := off + int64(len(p)); end > n.size && !n.resize(end) {
		return false
	}
	for len(p) > 0 {
		i, at := int(off/chunk), int(off%chunk)
		m := min(len(p), chunk-at)
		if !n.fit(i, at+m) {
			return false
		}
		copy(n.chunks[i][at:], p[:m])
		p, off = p[m:], off+int64(m)
	}
	return true
}

// fit makes chunk i at least size bytes long.
func (n *node) fit(i, size int) bool {
	c := n.chunks[i]
	if len(c) >= size {
		return true
	}
	to := max(512, len(c))
	for to < size {
		to *= 2
	}
	if !n.area.fs.run.eng.hold(uint64(to - len(c))) {
		n.area.fs.full("the node's memory for files", n.area.fs.run.eng.cfg.Files)
		return false
	}
	grown := make([]byte, to)
	copy(grown, c)
	n.area.fs.held += uint64(to - len(c))
	n.chunks[i] = grown
	return true
}

func (n *node) readAt(p []byte, off int64) int {
	if off >= n.size {
		return 0
	}
	p = p[:min(int64(len(p)), n.size-off)]
	for q := p; len(q) > 0; {
		at := int(off % chunk)
		m := min(len(q), chunk-at)
		var got int
		if c := n.chunks[off/chunk]; at < len(c) {
			got = copy(q[:m], c[at:])
		}
		clear(q[got:m])
		q, off = q[m:], off+int64(m)
	}
	return len(p)
}

// resize sets the length, taking or giving what it counts for. What lay beyond a
// shorter length is zero when the file grows again.
func (n *node) resize(size int64) bool {
	switch {
	case size > n.size:
		if !n.area.take(uint64(size - n.size)) {
			return false
		}
	case size < n.size:
		n.area.give(uint64(n.size - size))
	}
	count := int((size + chunk - 1) / chunk)
	for i := count; i < len(n.chunks); i++ {
		n.drop(i)
	}
	if count <= len(n.chunks) {
		n.chunks = n.chunks[:count]
	} else {
		n.chunks = append(n.chunks, make([][]byte, count-len(n.chunks))...)
	}
	if at := int(size % chunk); at > 0 && at < len(n.chunks[count-1]) {
		clear(n.chunks[count-1][at:])
	}
	n.size = size
	return true
}

func (n *node) drop(i int) {
	held := uint64(len(n.chunks[i]))
	n.area.fs.held -= held
	n.area.fs.run.eng.files.Add(-held)
	n.chunks[i] = nil
}

// release ends a file that no name and no open file leads to.
func (n *node) release() {
	if n.gone && n.opens == 0 && n.area != nil {
		if !n.isDir() {
			n.resize(0)
		}
		n.area.give(perNode)
		n.area.fs.count--
	}
}
