package engine

import (
	"cmp"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// text returns n as a guest's tenant reads it.
func text(n uint64) string { return strconv.FormatUint(n, 10) }

// ordered returns the names of n's kids so that a walk gives paths in byte order: a
// folder sorts as if its name ended with a slash.
func (n *node) ordered() []string {
	names := n.names()
	key := func(name string) string {
		if n.kids[name].isDir() {
			return name + "/"
		}
		return name
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
	return names
}

// OpenFile implements sys.FS.
func (f *fileSystem) OpenFile(path string, flag esys.Oflag, _ fs.FileMode) (esys.File, esys.Errno) {
	p, errno := f.place(path)
	if errno != 0 {
		return nil, errno
	}
	if f.open >= maxOpen {
		return nil, f.fail(errnoMFILE)
	}
	n := p.node
	if errno := mayOpen(p, flag); errno != 0 {
		return nil, errno
	}
	if n == nil {
		if n, errno = f.make(p, false); errno != 0 {
			return nil, errno
		}
	}
	f.open++
	n.opens++
	if n.isDir() {
		return &openDir{openNode: openNode{fs: f, node: n}}, 0
	}
	o := &openFile{openNode: openNode{fs: f, node: n}, append: flag&esys.O_APPEND != 0,
		reads: flag&esys.O_WRONLY == 0, writes: writing(flag)}
	if flag&esys.O_TRUNC != 0 {
		n.resize(0)
		n.mtime = f.run.now()
	}
	return o, 0
}

func writing(flag esys.Oflag) bool { return flag&(esys.O_WRONLY|esys.O_RDWR) != 0 }

func mayOpen(p place, flag esys.Oflag) esys.Errno {
	n := p.node
	switch {
	case n == nil && flag&esys.O_CREAT == 0:
		return esys.ENOENT
	case n == nil && (p.folder || flag&esys.O_DIRECTORY != 0):
		return esys.EISDIR
	case n == nil:
		return 0
	case flag&(esys.O_CREAT|esys.O_EXCL) == esys.O_CREAT|esys.O_EXCL:
		return esys.EEXIST
	case !n.isDir() && (p.folder || flag&esys.O_DIRECTORY != 0):
		return esys.ENOTDIR
	case n.isDir() && writing(flag):
		return esys.EISDIR
	case n.area == nil && (writing(flag) || flag&esys.O_TRUNC != 0):
		return esys.EROFS
	}
	return 0
}

// openNode is what open files and folders have in common.
type openNode struct {
	fs     *fileSystem
	node   *node
	closed bool
}

// Dev implements sys.File.
func (o *openNode) Dev() (uint64, esys.Errno) { return 1, 0 }

// Ino implements sys.File.
func (o *openNode) Ino() (sys.Inode, esys.Errno) { return o.node.ino, 0 }

// Stat implements sys.File.
func (o *openNode) Stat() (sys.Stat_t, esys.Errno) { return o.node.stat(), 0 }

// Sync implements sys.File.
func (o *openNode) Sync() esys.Errno { return 0 }

// Datasync implements sys.File.
func (o *openNode) Datasync() esys.Errno { return 0 }

// Utimens implements sys.File.
func (o *openNode) Utimens(atime, mtime int64) esys.Errno { return o.node.utimens(atime, mtime) }

// Close implements sys.File.
func (o *openNode) Close() esys.Errno {
	if o.closed {
		return esys.EBADF
	}
	o.closed = true
	o.fs.open--
	o.node.opens--
	o.node.release()
	return 0
}

// offset has a name of its own because sys.File's Seek is not io.Seeker's, and vet
// goes by the name of the type.
type offset = int64

// An openDir lists a folder as it was when the listing began.
type openDir struct {
	esys.DirFile
	openNode
	left  []string
	begun bool
}

// Seek implements sys.File: to the start only.
func (d *openDir) Seek(offset offset, whence int) (int64, esys.Errno) {
	if offset != 0 || whence != io.SeekStart {
		return 0, esys.EINVAL
	}
	d.begun = false
	return 0, 0
}

// direntSize is what an entry takes in what a guest reads, beside its name.
const direntSize = 24

// Readdir implements sys.File.
func (d *openDir) Readdir(n int) (list []esys.Dirent, _ esys.Errno) {
	if !d.begun {
		d.left, d.begun = d.node.names(), true
	}
	if n <= 0 {
		n = math.MaxInt
	}
	for len(d.left) > 0 && len(list) < n {
		name := d.left[0]
		d.left = d.left[1:]
		if k := d.node.kids[name]; k != nil {
			d.fs.run.moved += uint64(len(name)) + direntSize
			list = append(list, esys.Dirent{Ino: k.ino, Name: name, Type: k.stat().Mode.Type()})
		}
	}
	return list, 0
}

// An openFile is a file with its own position.
type openFile struct {
	openNode
	pos           int64
	append        bool
	reads, writes bool
}

// IsDir implements sys.File.
func (o *openFile) IsDir() (bool, esys.Errno) { return false, 0 }

// IsAppend implements sys.File.
func (o *openFile) IsAppend() bool { return o.append }

// SetAppend implements sys.File.
func (o *openFile) SetAppend(on bool) esys.Errno {
	o.append = on
	return 0
}

// IsNonblock implements sys.PollableFile.
func (o *openFile) IsNonblock() bool { return false }

// SetNonblock implements sys.PollableFile: nothing here blocks.
func (o *openFile) SetNonblock(bool) esys.Errno { return 0 }

// Poll implements sys.PollableFile.
func (o *openFile) Poll(esys.Pflag, int32) (bool, esys.Errno) { return true, 0 }

// Read implements sys.File.
func (o *openFile) Read(p []byte) (int, esys.Errno) {
	n, errno := o.Pread(p, o.pos)
	o.pos += int64(n)
	return n, errno
}

// Pread implements sys.File.
func (o *openFile) Pread(p []byte, off int64) (int, esys.Errno) {
	switch {
	case o.closed || !o.reads:
		return 0, esys.EBADF
	case off < 0:
		return 0, esys.EINVAL
	case o.node.in == nil:
		n := o.node.readAt(p, off)
		o.fs.run.moved += uint64(n)
		return n, 0
	case off >= o.node.size:
		return 0, 0
	}
	p = p[:min(int64(len(p)), o.node.size-off)]
	o.fs.run.moved += uint64(len(p))
	if err := o.fs.cache.read(o.node.in.Blob, p, o.node.in.Offset+off); err != nil {
		o.fs.run.lose(err)
		return 0, esys.EIO
	}
	return len(p), 0
}

// Seek implements sys.File.
func (o *openFile) Seek(offset offset, whence int) (int64, esys.Errno) {
	var base int64
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = o.pos
	case io.SeekEnd:
		base = o.node.size
	default:
		return 0, esys.EINVAL
	}
	if offset > math.MaxInt64-base || base+offset < 0 {
		return 0, esys.EINVAL
	}
	o.pos = base + offset
	return o.pos, 0
}

// Write implements sys.File.
func (o *openFile) Write(p []byte) (int, esys.Errno) {
	if o.append {
		o.pos = o.node.size
	}
	n, errno := o.Pwrite(p, o.pos)
	o.pos += int64(n)
	return n, errno
}

// Pwrite implements sys.File.
func (o *openFile) Pwrite(p []byte, off int64) (int, esys.Errno) {
	switch {
	case o.closed || !o.writes:
		return 0, esys.EBADF
	case off < 0 || off > math.MaxInt64-int64(len(p)):
		return 0, esys.EINVAL
	case len(p) == 0:
		return 0, 0
	case !o.node.writeAt(p, off):
		return 0, esys.EIO
	}
	o.fs.run.moved += uint64(len(p))
	o.node.mtime = o.fs.run.now()
	return len(p), 0
}

// Truncate implements sys.File.
func (o *openFile) Truncate(size int64) esys.Errno {
	was := o.node.size
	switch {
	case o.closed || !o.writes:
		return esys.EBADF
	case size < 0:
		return esys.EINVAL
	case !o.node.resize(size):
		return esys.EIO
	}
	o.fs.run.moved += uint64(max(size-was, 0))
	o.node.mtime = o.fs.run.now()
	return 0
}

// Readdir implements sys.File.
func (o *openFile) Readdir(int) ([]esys.Dirent, esys.Errno) { return nil, esys.ENOTDIR }
