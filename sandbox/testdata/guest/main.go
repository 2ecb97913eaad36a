//go:build wasip1

// A guest that uses what programs use, and prints what it found. It exits 1 at the
// first thing that is not as on any other system.
package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"idlemesh/gpu/kernel"
	"idlemesh/sandbox/guest"
)

func main() {
	switch os.Args[1] {
	case "repeat":
		repeat()
	case "files":
		files()
	case "many":
		many()
	case "hog":
		hog()
	case "device":
		device()
	}
}

// repeat prints everything that could differ between two runs.
func repeat() {
	began := time.Now()
	fmt.Println(began.UTC().Format(time.RFC3339Nano))
	b := make([]byte, 8)
	must(rand.Read(b))
	fmt.Printf("%x\n", b)
	m := map[int]int{}
	for i := range 20 {
		m[i] = i
	}
	for k := range m {
		fmt.Print(k, " ")
	}
	fmt.Println()
	time.Sleep(30 * time.Millisecond)
	check(time.Since(began) >= 30*time.Millisecond, "sleep passes virtual time")
	check(time.Since(began) < 40*time.Millisecond, "and no other")
	fmt.Println(time.Since(began))
	env := os.Environ()
	sort.Strings(env)
	fmt.Println(env, os.Args[1:])
	wd := must(os.Getwd())
	fmt.Println(wd)
	list("/")
	no(os.WriteFile("/out/sub/x", nil, 0o600), fs.ErrNotExist)
	ok(os.MkdirAll("/out/sub/deep", 0o700))
	ok(os.WriteFile("/out/sub/deep/x", []byte("deep"), 0o600))
	ok(os.WriteFile("/out/sub-first", []byte("first"), 0o600))
	ok(os.WriteFile("out/relative", []byte("relative"), 0o600))
	list("/out")
}

func list(root string) {
	ok(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		ok(err)
		i := must(d.Info())
		fmt.Println(path, i.Mode(), i.Size()*b2i(!d.IsDir()), i.ModTime().UTC().Format(time.RFC3339Nano))
		return nil
	}))
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// files tries what file systems do.
func files() {
	no(os.WriteFile("/x", nil, 0o600), nil)
	no(os.WriteFile("/in/x", nil, 0o600), nil)
	no(os.Remove("/in/a.txt"), nil)
	no(os.Symlink("/in/a.txt", "/tmp/l"), nil)
	_, err := os.ReadFile("/etc/passwd")
	no(err, fs.ErrNotExist)
	_, err = os.ReadFile("/in/../../../etc/passwd")
	no(err, fs.ErrNotExist)
	check(string(must(os.ReadFile("/in/a.txt"))) == "alpha", "input")
	check(string(must(os.ReadFile("/in/dir/b.txt"))) == "beta", "nested input, part of a blob")
	f := must(os.OpenFile("/tmp/f", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
	_, err = os.OpenFile("/tmp/f", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	no(err, fs.ErrExist)
	must(f.WriteString("hello world"))
	must(f.WriteAt([]byte("W"), 6))
	check(must(f.Seek(-5, io.SeekEnd)) == 6, "seek from the end")
	check(string(must(io.ReadAll(f))) == "World", "read on")
	p := make([]byte, 5)
	must(f.ReadAt(p, 0))
	check(string(p) == "hello", "pread")
	ok(f.Truncate(5))
	ok(f.Truncate(8))
	check(bytes.Equal(must(os.ReadFile("/tmp/f")), []byte("hello\x00\x00\x00")), "truncate and grow again")
	must(f.WriteAt([]byte("far"), 200_000))
	check(must(f.Stat()).Size() == 200_003, "sparse size")
	must(f.ReadAt(p, 100_000))
	check(bytes.Equal(p, make([]byte, 5)), "sparse zeros")
	ok(f.Close())
	a := must(os.OpenFile("/tmp/f", os.O_APPEND|os.O_WRONLY, 0))
	must(a.WriteString("!"))
	_, err = a.Read(p)
	no(err, nil)
	ok(a.Close())
	check(must(os.Stat("/tmp/f")).Size() == 200_004, "append")
	ok(os.Rename("/tmp/f", "/out/f"))
	_, err = os.Stat("/tmp/f")
	no(err, fs.ErrNotExist)
	ok(os.Mkdir("/out/d", 0o700))
	no(os.Rename("/out/d", "/out/d/e"), nil)
	no(os.Mkdir("/out/d", 0o700), fs.ErrExist)
	ok(os.WriteFile("/out/d/one", []byte("1"), 0o600))
	ok(os.WriteFile("/out/d/two", []byte("2"), 0o600))
	no(os.Remove("/out/d"), nil)
	ok(os.Rename("/out/d/one", "/out/d/two"))
	check(string(must(os.ReadFile("/out/d/two"))) == "1", "rename over a file")
	u := must(os.Open("/out/d/two"))
	ok(os.Remove("/out/d/two"))
	check(string(must(io.ReadAll(u))) == "1", "an open file outlives its name")
	ok(u.Close())
	ok(os.Chtimes("/out/f", time.Unix(5, 0), time.Unix(6, 0)))
	check(must(os.Stat("/out/f")).ModTime().Equal(time.Unix(6, 0)), "times are kept")
	for i := range 3000 {
		ok(os.WriteFile(fmt.Sprintf("/tmp/n%04d", i), nil, 0o600))
	}
	check(len(must(os.ReadDir("/tmp"))) == 3000, "a large folder")
	ok(os.RemoveAll("/tmp/n0000"))
	ok(os.RemoveAll("/out/d"))
	no(os.WriteFile("/tmp/"+strings.Repeat("n", 300), nil, 0o600), nil)
	no(os.WriteFile("/tmp/bad\xff", nil, 0o600), nil)
	d := must(os.MkdirTemp("", "x"))
	ok(os.Remove(d))
	fmt.Println("ok")
}

// many makes files until it may not.
func many() {
	for i := range 100_000 {
		if err := os.WriteFile(fmt.Sprintf("/tmp/%d", i), nil, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, i, err)
			os.Exit(3)
		}
	}
}

// hog takes memory until there is none.
func hog() {
	var all [][]byte
	for {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
	}
}

func must[T any](v T, err error) T {
	ok(err)
	return v
}

func ok(err error) { check(err == nil, err) }

func no(err, want error) {
	check(err != nil && (want == nil || errors.Is(err, want)), fmt.Sprintf("error %v, want %v", err, want))
}

func check(holds bool, what any) {
	if !holds {
		panic(fmt.Sprint(what))
	}
}

// device computes on the device with what stands in an input, and logs it.
func device() {
	var d guest.Device
	info := must(d.Info())
	fmt.Println(info.Model, info.Backend)
	a := must(os.ReadFile("/in/a.txt"))
	b, c := must(d.Alloc(64)), must(d.Alloc(64))
	_, err := d.Alloc(1 << 40)
	fmt.Println("refused:", err)
	ok(d.Write(b, 0, bytes.Repeat(a[:1], 64)))
	of := func(b kernel.Buffer) kernel.Operand { return kernel.Operand{Buffer: b} }
	ev := must(d.Submit([]kernel.Command{{Op: kernel.Mul, Dst: of(c), A: of(b), B: of(b), M: 1, N: 16}}))
	ok(d.Wait(ev))
	out := make([]byte, 64)
	ok(d.Read(c, 0, out))
	d.Free(b)
	fmt.Printf("%x\n", out[:8])
	in := must(d.FromInput("dir/b.txt", 0, 0))
	beta := make([]byte, 4)
	ok(d.Read(in, 0, beta))
	check(string(beta) == "beta", "an input comes to the device whole")
	fmt.Println("refused:", d.Write(in, 0, beta))
	_, err = d.FromInput("dir/b.txt", 3, 2)
	fmt.Println("refused:", err)
	guest.Log(guest.Info, "squared")
	guest.Metric("squares", 16)
	ok(os.WriteFile("/out/squares", out, 0o600))
}
