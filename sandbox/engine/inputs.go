package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"idlemesh/sandbox"
)

// layOut makes the tree under /in.
func (f *fileSystem) layOut(in *node, inputs map[string]sandbox.Input) error {
	for _, path := range slices.Sorted(maps.Keys(inputs)) {
		i := inputs[path]
		switch {
		case !fs.ValidPath(path) || path == "." || len(path) > maxPath || strings.ContainsRune(path, 0):
			return badModule{fmt.Errorf("input %q: want a relative path of clean names", path)}
		case i.Size < 0 || i.Offset < 0 || i.Offset+i.Size < 0:
			return badModule{fmt.Errorf("input %q: %d bytes at %d", path, i.Size, i.Offset)}
		}
		dir := in
		parts := strings.Split(path, "/")
		for _, p := range parts[:len(parts)-1] {
			if dir.kids[p] == nil {
				dir.kids[p] = f.dir(dir, nil)
			}
			if dir = dir.kids[p]; !dir.isDir() {
				return badModule{fmt.Errorf("input %q lies inside a file", path)}
			}
		}
		name := parts[len(parts)-1]
		if dir.kids[name] != nil {
			return badModule{fmt.Errorf("input %q is a file and a folder", path)}
		}
		n := f.file(dir, nil)
		n.in, n.size = &i, i.Size
		dir.kids[name] = n
	}
	return nil
}

const (
	blockSize  = 256 << 10
	blockCount = 16
)

// blocks reads blobs in large pieces and keeps the last few, so that a guest that
// reads line by line, or thousands of small files from one pack, asks the agent
// seldom.
type blocks struct {
	host  sandbox.Host
	blobs map[string]*blob
	clock uint64
	held  int // blocks
}

type blob struct {
	io.ReaderAt
	kept []block
}

// A block is one piece of a blob.
type block struct {
	at   int64
	data []byte
	used uint64
}

// read fills p from the blob at off; fewer bytes are an error of the host's.
func (b *blocks) read(name string, p []byte, off int64) error {
	r := b.blobs[name]
	if r == nil {
		ra, err := b.host.Open(name)
		if err != nil {
			return err
		}
		r = &blob{ReaderAt: ra}
		b.blobs[name] = r
	}
	for len(p) > 0 {
		if off%blockSize == 0 && len(p) >= blockSize {
			n := len(p) - len(p)%blockSize
			if err := full(r, p[:n], off); err != nil {
				return err
			}
			p, off = p[n:], off+int64(n)
			continue
		}
		data, err := b.block(r, off-off%blockSize)
		if err != nil {
			return err
		}
		if off%blockSize >= int64(len(data)) {
			return fmt.Errorf("input %q ends before byte %d: %w", name, off, io.ErrUnexpectedEOF)
		}
		n := copy(p, data[off%blockSize:])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func full(r io.ReaderAt, p []byte, off int64) error {
	if n, err := r.ReadAt(p, off); n < len(p) {
		return fmt.Errorf("input ends %d bytes early: %w", len(p)-n, err)
	}
	return nil
}

// block returns the piece of r at at, which is shorter only at r's end.
func (b *blocks) block(r *blob, at int64) ([]byte, error) {
	b.clock++
	for i := range r.kept {
		if r.kept[i].at == at {
			r.kept[i].used = b.clock
			return r.kept[i].data, nil
		}
	}
	var data []byte
	if b.held < blockCount {
		b.held++
		data = make([]byte, blockSize)
	} else {
		data = b.evict()
	}
	n, err := r.ReadAt(data[:blockSize], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	r.kept = append(r.kept, block{at, data[:n], b.clock})
	return data[:n], nil
}

// evict forgets the block that was used longest ago and returns its bytes.
func (b *blocks) evict() []byte {
	var from *blob
	var oldest int
	for _, r := range b.blobs {
		for i, k := range r.kept {
			if from == nil || k.used < from.kept[oldest].used {
				from, oldest = r, i
			}
		}
	}
	data := from.kept[oldest].data
	from.kept = slices.Delete(from.kept, oldest, oldest+1)
	return data[:blockSize]
}
