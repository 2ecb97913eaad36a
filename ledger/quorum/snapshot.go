package quorum

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// snapshots is raft's SnapshotStore. The ledger is durable itself, so a snapshot is a
// line in a file: up to here raft may forget its log. What a keeper gets who was away
// for too long is a Pebble checkpoint of the ledger as it is when it is sent, which may
// be further than that line: the ledger knows its place and skips what it has. The
// receiver verifies all of it before it takes the place of his own.
type snapshots struct {
	fs     vfs.FS
	dir    string
	ledger *ledger.Ledger
	mesh   record.Signed[record.Mesh]
	head   func(context.Context) tree.Head // that a quorum has signed

	mu    sync.Mutex
	line  *line
	fresh string // ID of a copy that has just been put in place
}

// A line is what raft wants to know of a snapshot.
type line struct {
	Index  uint64 `cbor:"1,keyasint"`
	Term   uint64 `cbor:"2,keyasint"`
	Config []byte `cbor:"3,keyasint"`
	Since  uint64 `cbor:"4,keyasint"` // index of Config
}

func (l line) id() string { return fmt.Sprintf("%d-%d", l.Term, l.Index) }

func (l line) meta() *raft.SnapshotMeta {
	return &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, ID: l.id(), Index: l.Index, Term: l.Term,
		Configuration: raft.DecodeConfiguration(l.Config), ConfigurationIndex: l.Since}
}

// lines is the file: a copy that comes in is announced before it takes the ledger's
// place, and counts once it has.
type lines struct {
	Line *line  `cbor:"1,keyasint,omitempty"`
	Next *line  `cbor:"2,keyasint,omitempty"`
	Mark uint64 `cbor:"3,keyasint,omitempty"` // of the ledger once Next counts
}

func openSnapshots(c Config, dir string, head func(context.Context) tree.Head) (*snapshots, error) {
	s := &snapshots{fs: c.FS, dir: dir, ledger: c.Ledger, mesh: c.Mesh, head: head}
	for _, old := range []string{s.path("incoming"), s.path("outgoing")} {
		if err := s.fs.RemoveAll(old); err != nil {
			return nil, err
		}
	}
	b, err := readFile(s.fs, s.path("snapshot"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var l lines
	if err := record.Decode(b, &l); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, s.path("snapshot"), err)
	}
	if s.line = l.Line; l.Next != nil && s.ledger.Mark() >= l.Mark {
		s.line = l.Next
	}
	return s, nil
}

func (s *snapshots) path(name string) string { return s.fs.PathJoin(s.dir, name) }

func (s *snapshots) index() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		return 0
	}
	return s.line.Index
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{s.line.meta()}, nil
}

// Create implements raft.SnapshotStore, for a snapshot of ours, to which nothing is
// written, and for a copy that comes in.
func (s *snapshots) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, since uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{s: s, line: line{index, term, raft.EncodeConfiguration(c), since}}, nil
}

// write makes l durable.
func (s *snapshots) write(l lines) error {
	b, err := record.Encode(l)
	if err != nil {
		return err
	}
	return writeFile(s.fs, s.dir, s.path("snapshot"), b)
}

// writeFile makes a file durable, whole or not at all.
func writeFile(fs vfs.FS, dir, name string, b []byte) error {
	f, err := fs.Create(name+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// A sink takes one snapshot.
type sink struct {
	s    *snapshots
	line line
	in   *incoming // where something was written
}

// ID implements raft.SnapshotSink.
func (k *sink) ID() string { return k.line.id() }

// Write implements raft.SnapshotSink.
func (k *sink) Write(p []byte) (int, error) {
	if k.in == nil {
		k.in = receive(k.s)
	}
	return k.in.Write(p)
}

// Cancel implements raft.SnapshotSink.
func (k *sink) Cancel() error {
	if k.in != nil {
		return k.in.cancel()
	}
	return nil
}

// Close implements raft.SnapshotSink: the snapshot counts from here on.
func (k *sink) Close() error {
	k.s.mu.Lock()
	prior := k.s.line
	k.s.mu.Unlock()
	if k.in != nil {
		head, mark, err := k.in.done()
		if err != nil {
			return fmt.Errorf("copy of the ledger: %w", err)
		}
		if mark > k.s.ledger.Mark() { // else there is nothing in it
			if err := k.s.write(lines{Line: prior, Next: &k.line, Mark: mark}); err != nil {
				return err
			}
			if err := k.s.ledger.Replace(k.s.path("incoming"), head); err != nil {
				return fmt.Errorf("copy of the ledger: %w", err)
			}
		}
		if err := k.in.cancel(); err != nil {
			return err
		}
	}
	if err := k.s.write(lines{Line: &k.line}); err != nil {
		return err
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	k.s.line = &k.line
	if k.in != nil {
		k.s.fresh = k.line.id()
	}
	return nil
}

// A manifest begins a copy of the ledger.
type manifest struct {
	Mark  uint64 `cbor:"1,keyasint"`
	Head  string `cbor:"2,keyasint"` // signed by a quorum, not beyond the copy
	Files []file `cbor:"3,keyasint"`
}

type file struct {
	Name string `cbor:"1,keyasint"`
	Size uint64 `cbor:"2,keyasint"`
}

const maxManifest = 4 << 20

// Open implements raft.SnapshotStore: a copy of the ledger as it is now. Only one is
// sent at a time.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil || s.line.id() != id {
		return nil, nil, fmt.Errorf("snapshot %s is gone", id)
	}
	meta := s.line.meta()
	if s.fresh == id { // raft restores what Close has put in place
		s.fresh = ""
		return meta, io.NopCloser(strings.NewReader("")), nil
	}
	out, err := s.send()
	if err != nil {
		return nil, nil, fmt.Errorf("copy of the ledger: %w", err)
	}
	meta.Size = out.size
	return meta, out, nil
}

// An outgoing is a checkpoint being sent.
type outgoing struct {
	s     *snapshots
	dir   string
	size  int64
	head  *strings.Reader
	files []file
	open  vfs.File
}

func (s *snapshots) send() (*outgoing, error) {
	head := s.head(context.Background())
	o := &outgoing{s: s, dir: s.path("outgoing")}
	if err := s.fs.RemoveAll(o.dir); err != nil {
		return nil, err
	}
	mark, err := s.ledger.Checkpoint(o.dir)
	if err != nil {
		return nil, err
	}
	names, err := s.fs.List(o.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		st, err := s.fs.Stat(s.fs.PathJoin(o.dir, name))
		if err != nil {
			return nil, err
		}
		o.files = append(o.files, file{name, uint64(st.Size())})
		o.size += st.Size()
	}
	b, err := record.Encode(manifest{Mark: mark, Head: head.Note, Files: o.files})
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("manifest of %d bytes, at most %d", len(b), maxManifest)
	}
	o.head = strings.NewReader(string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + string(b))
	o.size += o.head.Size()
	return o, nil
}

// Read implements io.Reader.
func (o *outgoing) Read(p []byte) (int, error) {
	if o.head.Len() > 0 {
		return o.head.Read(p)
	}
	for len(p) > 0 {
		if o.open == nil {
			if len(o.files) == 0 {
				return 0, io.EOF
			}
			var err error
			if o.open, err = o.s.fs.Open(o.s.fs.PathJoin(o.dir, o.files[0].Name)); err != nil {
				return 0, err
			}
		}
		left := o.files[0].Size
		n, err := o.open.Read(p[:min(uint64(len(p)), left)])
		o.files[0].Size -= uint64(n)
		if o.files[0].Size > 0 {
			return n, err
		}
		err = o.open.Close()
		o.files, o.open = o.files[1:], nil
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// Close implements io.Closer.
func (o *outgoing) Close() error {
	var err error
	if o.open != nil {
		err = o.open.Close()
	}
	return errors.Join(err, o.s.fs.RemoveAll(o.dir))
}

// An incoming writes a copy's files as they come.
type incoming struct {
	s    *snapshots
	pipe *io.PipeWriter
	end  chan struct{} // closed when unpack has returned
	err  error
	man  manifest
}

func receive(s *snapshots) *incoming {
	r, w := io.Pipe()
	in := &incoming{s: s, pipe: w, end: make(chan struct{})}
	go func() { // done and cancel wait for it
		defer close(in.end)
		in.err = in.unpack(bufio.NewReader(r))
		r.CloseWithError(errors.Join(in.err, io.ErrClosedPipe))
	}()
	return in
}

func (in *incoming) Write(p []byte) (int, error) { return in.pipe.Write(p) }

// done returns when all files are there, with the head that must hold for them.
func (in *incoming) done() (head tree.Head, mark uint64, err error) {
	in.pipe.Close()
	<-in.end
	if in.err != nil {
		return head, 0, errors.Join(in.err, in.cancel())
	}
	head, err = tree.Open(in.man.Head, in.s.mesh)
	return head, in.man.Mark, err
}

func (in *incoming) cancel() error {
	in.pipe.CloseWithError(context.Canceled)
	<-in.end
	return in.s.fs.RemoveAll(in.s.path("incoming"))
}

func (in *incoming) unpack(r io.Reader) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxManifest {
		return fmt.Errorf("manifest of %d bytes, at most %d", n, maxManifest)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if err := record.Decode(b, &in.man); err != nil {
		return err
	}
	fs, dir := in.s.fs, in.s.path("incoming")
	if err := fs.RemoveAll(dir); err != nil {
		return err
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, f := range in.man.Files {
		if err := f.write(fs, dir, r); err != nil {
			return err
		}
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return errors.New("more bytes than files")
	}
	return syncDir(fs, dir)
}

// write takes the file's bytes from r.
func (f file) write(fs vfs.FS, dir string, r io.Reader) error {
	if f.Name == "" || strings.ContainsAny(f.Name, `/\:`) || strings.HasPrefix(f.Name, ".") || len(f.Name) > 128 || f.Size > 1<<40 {
		return fmt.Errorf("file %.80q of %d bytes", f.Name, f.Size)
	}
	out, err := fs.Create(fs.PathJoin(dir, f.Name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, r, int64(f.Size))
	return errors.Join(err, out.Sync(), out.Close())
}

const maxLines = 1 << 20

func readFile(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxLines))
	return b, errors.Join(err, f.Close())
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
