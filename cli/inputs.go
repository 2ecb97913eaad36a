package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"idlemesh/mesh/client"
)

// maxPiped bounds what is read from stdin, since it is kept in memory.
const maxPiped = 1 << 30

// stdinName stands for stdin where a path is wanted.
const stdinName = "-"

func setInput(d *draft, s setting) error {
	name, path, err := pair(s.text)
	switch {
	case err != nil:
		return fmt.Errorf("%q: want NAME=PATH", s.text)
	case path == "":
		return fmt.Errorf("%q: want a path", s.text)
	case name == "." || name == ".." || strings.ContainsAny(name, "/\\"):
		return fmt.Errorf("%q: a name is one part of a path", name)
	}
	for _, x := range d.Inputs {
		if x.Name == name {
			return fmt.Errorf("%q is given twice", name)
		}
	}
	in := client.Input{Name: name}
	if path == stdinName {
		d.Inputs = append(d.Inputs, in) // filled by pipe
		return d.takeStdin()
	}
	path = from(s.dir, path)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return plain(err)
	case info.IsDir():
		in.Dir = os.DirFS(path)
	case info.Mode().IsRegular():
		in.Open = func() (io.ReadCloser, error) { return os.Open(path) }
	default:
		return fmt.Errorf("%s: neither a file nor a folder", path)
	}
	d.Inputs = append(d.Inputs, in)
	return nil
}

func (d *draft) takeStdin() error {
	if d.stdin {
		return errors.New("stdin can be read once only")
	}
	d.stdin = true
	return nil
}

// pipe gives the input that is to come from stdin what stdin has.
func (d *draft) pipe(in io.Reader) error {
	for i, x := range d.Inputs {
		if x.Dir != nil || x.Open != nil {
			continue
		}
		b, err := readAll(in, maxPiped)
		if err != nil {
			return usage("", "submit: input %s: stdin: %v: write it to a file first", x.Name, err)
		}
		d.Inputs[i].Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	}
	return nil
}

func readAll(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("more than %s", size(uint64(most)))
	}
	return b, err
}

// from makes path absolute; relative ones start from dir.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// plain is a file error without the name of the system call.
func plain(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}

// rooted makes the settings' relative paths start from the working folder.
func rooted(s []setting) ([]setting, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for i := range s {
		s[i].dir = dir
	}
	return s, nil
}
