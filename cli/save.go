package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

const (
	proofName   = "proof.tlog"
	jobFileName = "job.yaml"
)

// save writes outputs, proofs and job.yaml below dir and nowhere else: names that
// a module chose cannot lead out of it, not by `..` and not by a link.
func (t terminal) save(ctx context.Context, cl *client.Client, o outcome, dir string, settings []setting) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("output-dir: %w", plain(err))
	}
	for _, x := range o.tasks {
		if x.Receipt == nil {
			continue
		}
		if err := saveTask(ctx, cl, x, o.folder(dir, x)); err != nil {
			return fmt.Errorf("output-dir: %w", err)
		}
	}
	if settings == nil {
		return nil
	}
	// Its env may hold secrets.
	f, err := os.OpenFile(filepath.Join(dir, jobFileName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("output-dir: %w", plain(err))
	}
	return errors.Join(writeJobFile(f, settings), f.Close())
}

// folder is where a task's outputs go: dir, or one of its own below it.
func (o outcome) folder(dir string, x taskOutcome) string {
	if o.info.Terms.Shards == 1 {
		return dir
	}
	return filepath.Join(dir, fmt.Sprintf("task-%d", x.Shard))
}

func saveTask(ctx context.Context, cl *client.Client, x taskOutcome, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return plain(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return plain(err)
	}
	defer root.Close()
	for _, out := range x.manifest.Outputs {
		name, err := safeName(out.Name)
		if err != nil {
			return err
		}
		if err := writeIn(root, name, func(w io.Writer) error { return cl.Read(ctx, out.Blob, 0, w, nil) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, b := range map[string]record.Blob{"stdout": x.manifest.Stdout, "stderr": x.manifest.Stderr} {
		if b.Size == 0 || taken(x.manifest, name) {
			continue
		}
		if err := writeIn(root, name, func(w io.Writer) error { return cl.Read(ctx, b, 0, w, nil) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	text, err := x.proof.MarshalText()
	if err != nil {
		return err
	}
	return writeIn(root, proofName, func(w io.Writer) error { _, err := w.Write(text); return err })
}

func taken(m record.Manifest, name string) bool {
	for _, o := range m.Outputs {
		if o.Name == name {
			return true
		}
	}
	return false
}

// safeName refuses names that are no plain relative path, and those of our own files.
func safeName(name string) (string, error) {
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(name)):
		return "", wire.Refuse(wire.Invalid, fmt.Sprintf("output %q: the name leads out of the folder", name))
	case name == proofName || name == jobFileName:
		return "", wire.Refuse(wire.Invalid, fmt.Sprintf("output %q: meshctl writes a file of this name itself", name))
	}
	return name, nil
}

// writeIn writes a file below root under another name first, so that it is there
// whole or not at all.
func writeIn(root *os.Root, name string, fill func(io.Writer) error) error {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return plain(err)
	}
	part := name + ".part"
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return plain(err)
	}
	if err := errors.Join(fill(f), f.Close()); err != nil {
		root.Remove(part)
		return err
	}
	return root.Rename(part, name)
}
