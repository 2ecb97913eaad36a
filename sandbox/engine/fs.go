package engine

import (
	"io/fs"
	"strings"
	"unicode/utf8"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"idlemesh/sandbox"
)

// Bounds of one run's file system.
const (
	maxNodes = 65_536 // made by the guest
	maxOpen  = 1024
	maxName  = 255  // bytes
	maxPath  = 4096 // bytes
	maxTmp   = 256 << 20
)

// WASI error numbers that wazero has no names for.
const (
	errnoILSEQ = 25
	errnoMFILE = 33
	errnoNOSPC = 51
	errnoXDEV  = 75
)

// A fileSystem is what a guest sees at /: in (read-only), out and tmp, and nothing
// else. There are no links, so no path leads out of it. It belongs to the run's
// goroutine.
type fileSystem struct {
	esys.UnimplementedFS
	run   *run
	root  *node
	out   *node
	next  uint64 // inode
	count int    // nodes that the guest made
	open  int
	held  uint64 // bytes of chunks
	cache blocks
	// errno replaces the answer to the guest, for errors that wazero cannot name.
	errno uint32
}

func newFileSystem(r *run) (*fileSystem, error) {
	f := &fileSystem{run: r, cache: blocks{host: r.host, blobs: map[string]*blob{}}}
	tmp := uint64(maxTmp)
	f.root = f.dir(nil, nil)
	in := f.dir(f.root, nil)
	f.out = f.dir(f.root, &area{f, "output", &r.out.left, r.spec.Limits.Output})
	f.root.kids["in"], f.root.kids["out"] = in, f.out
	f.root.kids["tmp"] = f.dir(f.root, &area{f, "/tmp", &tmp, maxTmp})
	return f, f.layOut(in, r.spec.Inputs)
}

func (f *fileSystem) dir(parent *node, a *area) *node {
	n := f.file(parent, a)
	n.kids = map[string]*node{}
	return n
}

func (f *fileSystem) file(parent *node, a *area) *node {
	f.next++
	return &node{ino: f.next, parent: parent, area: a, atime: f.run.now(), mtime: f.run.now()}
}

// full makes the guest's call answer "no space", and remembers why.
func (f *fileSystem) full(what string, limit uint64) {
	f.run.ranShort("the limit of " + what + " was reached: " + text(limit))
	f.errno = errnoNOSPC
}

func (f *fileSystem) fail(errno uint32) esys.Errno {
	f.errno = errno
	return esys.EIO
}

// split cleans a path as wazero hands it over: relative to the root, perhaps with a
// slash at the end.
func split(path string) (parts []string, folder bool, errno esys.Errno) {
	if len(path) > maxPath {
		return nil, false, esys.ENAMETOOLONG
	}
	for p := range strings.SplitSeq(path, "/") {
		switch {
		case p == "" || p == ".":
		case p == "..":
			return nil, false, esys.EPERM
		case len(p) > maxName:
			return nil, false, esys.ENAMETOOLONG
		default:
			parts = append(parts, p)
		}
	}
	return parts, strings.HasSuffix(path, "/"), 0
}

// find returns the node at path.
func (f *fileSystem) find(path string) (*node, esys.Errno) {
	parts, folder, errno := split(path)
	if errno != 0 {
		return nil, errno
	}
	n, errno := f.follow(parts)
	if errno == 0 && folder && !n.isDir() {
		return nil, esys.ENOTDIR
	}
	return n, errno
}

func (f *fileSystem) follow(parts []string) (*node, esys.Errno) {
	n := f.root
	for _, p := range parts {
		if !n.isDir() {
			return nil, esys.ENOTDIR
		}
		if n = n.kids[p]; n == nil {
			return nil, esys.ENOENT
		}
	}
	return n, 0
}

// place is a name in a folder, whether it is taken or not.
type place struct {
	dir    *node
	name   string
	node   *node // nil when the name is free
	folder bool  // the path ended with a slash
}

func (f *fileSystem) place(path string) (place, esys.Errno) {
	parts, folder, errno := split(path)
	if errno != 0 {
		return place{}, errno
	}
	if len(parts) == 0 {
		return place{node: f.root, folder: true}, 0
	}
	dir, errno := f.follow(parts[:len(parts)-1])
	if errno != 0 {
		return place{}, errno
	}
	if !dir.isDir() {
		return place{}, esys.ENOTDIR
	}
	name := parts[len(parts)-1]
	return place{dir, name, dir.kids[name], folder}, 0
}

// writable reports whether names in the place's folder may change.
func (p place) writable() bool { return p.dir != nil && p.dir.area != nil && !p.dir.gone }

// make adds a node at a free place.
func (f *fileSystem) make(p place, folder bool) (*node, esys.Errno) {
	switch {
	case !p.writable():
		return nil, esys.EROFS
	case !utf8.ValidString(p.name) || strings.ContainsRune(p.name, 0):
		return nil, f.fail(errnoILSEQ)
	case f.count >= maxNodes:
		f.full("files", maxNodes)
		return nil, esys.EIO
	case !p.dir.area.take(perNode):
		return nil, esys.EIO
	}
	f.count++
	n := f.file(p.dir, p.dir.area)
	if folder {
		n = f.dir(p.dir, p.dir.area)
	}
	p.dir.kids[p.name] = n
	p.dir.mtime = f.run.now()
	return n, 0
}

// remove takes a name away.
func (f *fileSystem) remove(p place) {
	delete(p.dir.kids, p.name)
	p.dir.mtime = f.run.now()
	p.node.gone = true
	p.node.release()
}

// Stat implements sys.FS.
func (f *fileSystem) Stat(path string) (sys.Stat_t, esys.Errno) {
	n, errno := f.find(path)
	if errno != 0 {
		return sys.Stat_t{}, errno
	}
	return n.stat(), 0
}

// Lstat implements sys.FS; there are no links.
func (f *fileSystem) Lstat(path string) (sys.Stat_t, esys.Errno) { return f.Stat(path) }

func (n *node) stat() sys.Stat_t {
	st := sys.Stat_t{Dev: 1, Ino: n.ino, Nlink: 1, Size: n.size, Atim: n.atime, Mtim: n.mtime, Ctim: n.mtime}
	switch {
	case n.isDir() && n.area == nil:
		st.Mode = fs.ModeDir | 0o555
	case n.isDir():
		st.Mode = fs.ModeDir | 0o755
	case n.area == nil:
		st.Mode = 0o444
	default:
		st.Mode = 0o644
	}
	if n.gone {
		st.Nlink = 0
	}
	return st
}

// Mkdir implements sys.FS.
func (f *fileSystem) Mkdir(path string, _ fs.FileMode) esys.Errno {
	p, errno := f.place(path)
	if errno != 0 {
		return errno
	}
	if p.node != nil {
		return esys.EEXIST
	}
	_, errno = f.make(p, true)
	return errno
}

// Chmod implements sys.FS; nothing has a mode of its own.
func (f *fileSystem) Chmod(path string, _ fs.FileMode) esys.Errno {
	_, errno := f.find(path)
	return errno
}

// Rmdir implements sys.FS.
func (f *fileSystem) Rmdir(path string) esys.Errno {
	p, errno := f.place(path)
	switch {
	case errno != 0:
		return errno
	case p.node == nil:
		return esys.ENOENT
	case !p.node.isDir():
		return esys.ENOTDIR
	case !p.writable():
		return esys.EROFS
	case len(p.node.kids) > 0:
		return esys.ENOTEMPTY
	}
	f.remove(p)
	return 0
}

// Unlink implements sys.FS.
func (f *fileSystem) Unlink(path string) esys.Errno {
	p, errno := f.place(path)
	switch {
	case errno != 0:
		return errno
	case p.node == nil:
		return esys.ENOENT
	case p.node.isDir():
		return esys.EISDIR
	case p.folder:
		return esys.ENOTDIR
	case !p.writable():
		return esys.EROFS
	}
	f.remove(p)
	return 0
}

// Rename implements sys.FS.
func (f *fileSystem) Rename(from, to string) esys.Errno {
	a, errno := f.place(from)
	if errno != 0 {
		return errno
	}
	b, errno := f.place(to)
	if errno != 0 {
		return errno
	}
	if errno := mayRename(a, b); errno != 0 || a.node == b.node {
		return errno
	}
	if a.node.area != b.dir.area && !f.move(a.node, b.dir.area) {
		if a.node.isDir() {
			return f.fail(errnoXDEV)
		}
		return esys.EIO
	}
	if b.node != nil {
		f.remove(b)
	}
	delete(a.dir.kids, a.name)
	b.dir.kids[b.name] = a.node
	a.node.parent = b.dir
	a.dir.mtime, b.dir.mtime = f.run.now(), f.run.now()
	return 0
}

func mayRename(a, b place) esys.Errno {
	switch {
	case a.node == nil:
		return esys.ENOENT
	case !a.writable() || !b.writable():
		return esys.EROFS
	case !a.node.isDir() && (a.folder || b.folder):
		return esys.ENOTDIR
	case a.node.contains(b.dir):
		return esys.EINVAL
	case b.node == nil || a.node == b.node:
		return 0
	case a.node.isDir() && !b.node.isDir():
		return esys.ENOTDIR
	case !a.node.isDir() && b.node.isDir():
		return esys.EISDIR
	case len(b.node.kids) > 0:
		return esys.ENOTEMPTY
	}
	return 0
}

// contains reports whether m lies in the tree below n, or is n.
func (n *node) contains(m *node) bool {
	for ; m != nil; m = m.parent {
		if m == n {
			return true
		}
	}
	return false
}

// move makes a file count in another area. Folders do not move between areas.
func (f *fileSystem) move(n *node, to *area) bool {
	if n.isDir() || !to.take(n.total()) {
		return false
	}
	n.area.give(n.total())
	n.area = to
	return true
}

// Utimens implements sys.FS.
func (f *fileSystem) Utimens(path string, atime, mtime int64) esys.Errno {
	n, errno := f.find(path)
	if errno != 0 {
		return errno
	}
	return n.utimens(atime, mtime)
}

func (n *node) utimens(atime, mtime int64) esys.Errno {
	if n.area == nil {
		return esys.EROFS
	}
	if atime != esys.UTIME_OMIT {
		n.atime = atime
	}
	if mtime != esys.UTIME_OMIT {
		n.mtime = mtime
	}
	return 0
}

// Link, Symlink and Readlink: there are no links.

// Link implements sys.FS.
func (f *fileSystem) Link(_, _ string) esys.Errno { return esys.ENOTSUP }

// Symlink implements sys.FS.
func (f *fileSystem) Symlink(_, _ string) esys.Errno { return esys.ENOTSUP }

// Readlink implements sys.FS.
func (f *fileSystem) Readlink(path string) (string, esys.Errno) {
	if _, errno := f.find(path); errno != 0 {
		return "", errno
	}
	return "", esys.EINVAL
}

// deliver hands every file under /out to h, in the order of their paths.
func (f *fileSystem) deliver(h sandbox.Host) error {
	return f.out.each("out", func(path string, n *node) error {
		w, err := h.Create(path)
		if err != nil {
			return err
		}
		buf := make([]byte, min(chunk, n.size))
		for off := int64(0); off < n.size; off += chunk {
			if _, err := w.Write(buf[:n.readAt(buf, off)]); err != nil {
				return err
			}
		}
		return w.Close()
	})
}

// each calls fn for every file below n, sorted by path.
func (n *node) each(path string, fn func(string, *node) error) error {
	if !n.isDir() {
		return fn(path, n)
	}
	for _, name := range n.ordered() {
		if err := n.kids[name].each(path+"/"+name, fn); err != nil {
			return err
		}
	}
	return nil
}

func (f *fileSystem) close() { f.run.eng.files.Add(-f.held) }
