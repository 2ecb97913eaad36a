package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestSafeName(t *testing.T) {
	for _, name := range []string{"a", "a/b.txt", "..a/b", "task-0/x"} {
		if got, err := safeName(name); err != nil || got != name {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"", ".", "..", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", `a\b`, "a\x00b", "proof.tlog", "job.yaml"} {
		if _, err := safeName(name); err == nil || status(err) != 2 {
			t.Errorf("%q: %v, want a refusal", name, err)
		}
	}
}

func TestWriteIn(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("mine"), 0o600), os.Symlink(outside, filepath.Join(dir, "out")),
		os.Symlink(secret, filepath.Join(dir, "link"))); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	write := func(w io.Writer) error { _, err := io.WriteString(w, "theirs"); return err }
	if err := writeIn(root, "a/b/c", write); err != nil {
		t.Error(err)
	}
	if err := writeIn(root, "out/secret", write); err == nil {
		t.Error("wrote through a link to a folder outside")
	}
	if err := writeIn(root, "link", write); err != nil { // the link itself is replaced
		t.Error(err)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "mine" {
		t.Errorf("the file outside has %q, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "link")); err != nil || string(b) != "theirs" {
		t.Errorf("the file inside has %q, %v", b, err)
	}
	full := errors.New("disk full")
	if err := writeIn(root, "half", func(w io.Writer) error { write(w); return full }); !errors.Is(err, full) {
		t.Errorf("half a file: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "half*")); err != nil || len(left) != 0 {
		t.Errorf("half a file stays: %v, %v", left, err)
	}
}
