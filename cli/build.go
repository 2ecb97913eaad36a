package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"idlemesh/sandbox"
)

// maxModule bounds what is read before the scan says what it thinks of the size.
const maxModule = 256 << 20

// module puts the module's name and bytes into the draft: a file, stdin, or a folder
// with a Go main package, which it builds. The bytes have passed the scan that every
// node makes.
func (t terminal) loadModule(ctx context.Context, d *draft) error {
	path := d.module.text
	name, b, err := "stdin", []byte(nil), error(nil)
	if path == stdinName {
		if err := d.takeStdin(); err != nil {
			return usage("", "submit: module: %v", err)
		}
		b, err = readAll(t.in, maxModule)
	} else {
		path = from(d.module.dir, path)
		name, b, err = t.readModule(ctx, path)
	}
	if err != nil {
		return err
	}
	if _, err := sandbox.Admit(b); err != nil {
		return usage("", "submit: %s: %v", name, err)
	}
	d.Name, d.Module = name, b
	return nil
}

func (t terminal) readModule(ctx context.Context, path string) (string, []byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, usage("", "submit: %s: no such file: give a .wasm file, a folder with a Go main package, or - for stdin", path)
	case err != nil:
		return "", nil, fmt.Errorf("submit: %w", plain(err))
	case info.IsDir():
		b, err := t.build(ctx, path)
		return filepath.Base(path) + ".wasm", b, err
	case !info.Mode().IsRegular():
		return "", nil, usage("", "submit: %s: neither a file nor a folder", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nil, fmt.Errorf("submit: %w", plain(err))
	}
	defer f.Close()
	b, err := readAll(f, maxModule)
	if err != nil {
		return "", nil, usage("", "submit: %s: %v", path, plain(err))
	}
	return filepath.Base(path), b, nil
}

// build compiles the Go main package in dir for WASI. The same sources give the same
// bytes, which are then uploaded once.
func (t terminal) build(ctx context.Context, dir string) ([]byte, error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return nil, usage("", "submit: %s is a folder, and building it wants the go command, which is not in PATH: "+
			"install it from https://go.dev/dl or give a .wasm file", dir)
	}
	tmp, err := os.MkdirTemp("", "meshctl-")
	if err != nil {
		return nil, fmt.Errorf("submit: build: %w", err)
	}
	defer os.RemoveAll(tmp)
	t.hint("module", "building "+dir)
	out := filepath.Join(tmp, "module.wasm")
	cmd := exec.CommandContext(ctx, goTool, "build", "-trimpath", "-buildvcs=false", "-o", out, ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, t.err, t.err
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, usage("", "submit: go build in %s: %v: mend what the compiler says above", dir, err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("submit: build: %w", err)
	}
	if bytes.HasPrefix(b, []byte("!<arch>")) {
		return nil, usage("", "submit: %s is a Go package but not a main package, so there is nothing to run", dir)
	}
	return b, nil
}

// hint tells a person what goes on; a script does not see it.
func (t terminal) hint(label, text string) {
	if t.live() {
		t.state(label, text)
	}
}

// state tells what always must be told.
func (t terminal) state(label, text string) {
	fmt.Fprintf(t.err, "%s%s\n", t.faint(label+strings.Repeat(" ", max(1, 10-len(label)))), clean(text))
}
