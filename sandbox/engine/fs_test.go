package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"

	"idlemesh/sandbox"
)

// A memHost serves blobs from memory and counts reads.
type memHost struct {
	blobs map[string][]byte
	reads int
	names []string
}

func (h *memHost) Open(name string) (io.ReaderAt, error) {
	b, ok := h.blobs[name]
	if !ok {
		return nil, errors.New("no such blob")
	}
	return counted{h, bytes.NewReader(b)}, nil
}

type counted struct {
	h *memHost
	io.ReaderAt
}

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	c.h.reads++
	return c.ReaderAt.ReadAt(p, off)
}

func (h *memHost) Create(name string) (io.WriteCloser, error) {
	h.names = append(h.names, name)
	return discard{}, nil
}

func (h *memHost) Event(sandbox.Event) {}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

const quota = 1 << 20

func newTree(t testing.TB, h sandbox.Host, inputs map[string]sandbox.Input) (*fileSystem, error) {
	e := &Engine{cfg: Config{Files: 4 << 20}.withDefaults()}
	r := e.newRun(context.Background(), sandbox.Spec{Inputs: inputs, Limits: sandbox.Limits{Output: quota}}, h)
	t.Cleanup(r.cancel)
	f, err := newFileSystem(r)
	r.fs = f
	return f, err
}

func TestLayOut(t *testing.T) {
	for name, tc := range map[string]struct {
		path  string
		input sandbox.Input
		bad   bool
	}{
		"a file":            {path: "x", input: sandbox.Input{Size: 1}},
		"nested":            {path: "a/b/c"},
		"beside another":    {path: "taken2"},
		"empty":             {path: "", bad: true},
		"the root":          {path: ".", bad: true},
		"absolute":          {path: "/x", bad: true},
		"leading out":       {path: "../x", bad: true},
		"up and down":       {path: "a/../b", bad: true},
		"double slash":      {path: "a//b", bad: true},
		"a zero":            {path: "a\x00b", bad: true},
		"not UTF-8":         {path: "a\xff", bad: true},
		"endless":           {path: strings.Repeat("x/", 3000) + "x", bad: true},
		"inside a file":     {path: "taken/x", bad: true},
		"negative size":     {path: "x", input: sandbox.Input{Size: -1}, bad: true},
		"negative offset":   {path: "x", input: sandbox.Input{Offset: -1}, bad: true},
		"beyond all offset": {path: "x", input: sandbox.Input{Offset: 1<<63 - 1, Size: 1}, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newTree(t, &memHost{}, map[string]sandbox.Input{"taken": {}, tc.path: tc.input})
			if bad := errors.As(err, new(badModule)); bad != tc.bad || err != nil && !bad {
				t.Errorf("layOut = %v", err)
			}
		})
	}
}

func TestFolderAndFileOfOneName(t *testing.T) {
	if _, err := newTree(t, &memHost{}, map[string]sandbox.Input{"a": {}, "a/b": {}}); err == nil {
		t.Error("a is a file and a folder")
	}
}

// TestReadAhead holds that small reads of many files in one pack ask the host once
// a block, and that large ones do not pass through the cache.
func TestReadAhead(t *testing.T) {
	pack := make([]byte, 3*blockSize+100)
	for i := range pack {
		pack[i] = byte(i * 7 >> 3)
	}
	h := &memHost{blobs: map[string][]byte{"pack": pack}}
	inputs := map[string]sandbox.Input{"all": {Blob: "pack", Size: int64(len(pack))}, "gone": {Blob: "nowhere", Size: 1},
		"short": {Blob: "pack", Offset: int64(len(pack)) - 1, Size: 9}}
	for i := range 200 {
		inputs[fmt.Sprint(i)] = sandbox.Input{Blob: "pack", Offset: int64(i) * 1000, Size: 1000}
	}
	f, err := newTree(t, h, inputs)
	if err != nil {
		t.Fatal(err)
	}
	readAll := func(path string) ([]byte, esys.Errno) {
		o, errno := f.OpenFile(path, esys.O_RDONLY, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		defer o.Close()
		b := make([]byte, len(pack)+1)
		n, errno := o.Read(b)
		return b[:n], errno
	}
	for i := range 200 {
		if b, errno := readAll(fmt.Sprint("in/", i)); errno != 0 || !bytes.Equal(b, pack[i*1000:i*1000+1000]) {
			t.Fatalf("file %d: %v", i, errno)
		}
	}
	if h.reads != 1 {
		t.Errorf("%d reads of 200 small files in one block", h.reads)
	}
	if b, errno := readAll("in/all"); errno != 0 || !bytes.Equal(b, pack) {
		t.Errorf("the whole pack: %v", errno)
	}
	for _, name := range []string{"in/gone", "in/short"} {
		if _, errno := readAll(name); errno == 0 || f.run.lost() == nil {
			t.Errorf("%s: %v, lost %v", name, errno, f.run.lost())
		}
	}
}

// step does one thing to f, as the bytes say, and keeps what it opened.
func step(f *fileSystem, open *[]esys.File, op, a, b byte) {
	names := []string{"out/a", "out/b", "out/d", "out/d/x", "out/d/e", "out/d/e/y", "tmp/a", "tmp/d", "tmp/d/x", "in/i", "", "in",
		"out", "tmp", "../x", "out/a/", "out/d/", "out/" + strings.Repeat("n", 300), "out/\xff", "nowhere/x"}
	p, q := names[int(a)%len(names)], names[int(b)%len(names)]
	flags := []esys.Oflag{esys.O_RDONLY, esys.O_RDWR | esys.O_CREAT, esys.O_WRONLY | esys.O_TRUNC, esys.O_RDWR | esys.O_CREAT | esys.O_EXCL,
		esys.O_DIRECTORY, esys.O_RDWR | esys.O_APPEND}
	var file esys.File
	if len(*open) > 0 {
		file = (*open)[int(a)%len(*open)]
	}
	switch op % 12 {
	case 0, 1:
		if o, errno := f.OpenFile(p, flags[int(b)%len(flags)], 0); errno == 0 {
			*open = append(*open, o)
		}
	case 2:
		f.Mkdir(p, 0)
	case 3:
		f.Unlink(p)
	case 4:
		f.Rmdir(p)
	case 5:
		f.Rename(p, q)
	case 6:
		f.Stat(p)
		f.Utimens(p, 1, 2)
	default:
		if file != nil {
			poke(file, op, b)
		}
	}
}

func poke(file esys.File, op, b byte) {
	switch op % 12 {
	case 7:
		file.Write(make([]byte, int(b)*300))
	case 8:
		file.Pwrite([]byte("x"), int64(b)<<(b%20))
	case 9:
		file.Truncate(int64(b) << (b % 20))
	case 10:
		file.Seek(int64(int8(b)), int(b)%4)
		file.Read(make([]byte, 100))
		file.Readdir(3)
	case 11:
		file.Close()
	}
}

func FuzzFileSystem(f *testing.F) {
	f.Add([]byte{0, 0, 1, 7, 0, 9, 5, 0, 1, 3, 1, 0, 11, 0, 0})
	f.Add([]byte{2, 2, 0, 1, 3, 1, 7, 0, 255, 5, 3, 6, 9, 0, 255, 8, 0, 200})
	f.Add([]byte{2, 2, 0, 2, 4, 0, 5, 2, 4, 5, 4, 7, 4, 4, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		fs, err := newTree(t, &memHost{blobs: map[string][]byte{"i": []byte("input")}}, map[string]sandbox.Input{"i": {Blob: "i", Size: 5}})
		if err != nil {
			t.Fatal(err)
		}
		var open []esys.File
		for ; len(ops) >= 3; ops = ops[3:] {
			step(fs, &open, ops[0], ops[1], ops[2])
		}
		if err := fs.deliver(fs.run.host); err != nil {
			t.Error(err)
		}
		for _, o := range open {
			o.Close()
		}
		empty(t, fs, "out")
		empty(t, fs, "tmp")
		left, tmp := fs.run.out.left, *fs.root.kids["tmp"].area.left
		if left != quota || tmp != maxTmp || fs.count != 0 || fs.held != 0 || fs.open != 0 || fs.run.eng.files.Load() != 0 {
			t.Errorf("after removing everything: output %d, tmp %d, nodes %d, held %d, open %d", left, tmp, fs.count, fs.held, fs.open)
		}
	})
}

// empty removes everything below path.
func empty(t *testing.T, f *fileSystem, path string) {
	n, errno := f.find(path)
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, name := range n.names() {
		if p := path + "/" + name; n.kids[name].isDir() {
			empty(t, f, p)
			errno = f.Rmdir(p)
		} else {
			errno = f.Unlink(p)
		}
		if errno != 0 {
			t.Errorf("remove %s/%s: %v", path, name, errno)
		}
	}
}
