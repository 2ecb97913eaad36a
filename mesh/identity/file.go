package identity

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ErrReadable is returned for a key file that others than its owner may read or
// write; the error's text has the command that mends it.
var ErrReadable = errors.New("others may read the key file")

// maxFile bounds a key file in bytes.
const maxFile = 4 << 10

// Open reads the key file at path (PEM, PKCS #8) and creates it with mode 0600, and its
// folder, when there is none. Of several processes that create it at once all get
// the one key that stays.
func Open(path string) (Key, error) {
	k, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(path); err == nil {
			k, err = read(path)
		}
	}
	if err != nil {
		return Key{}, fmt.Errorf("open key: %w", err)
	}
	return k, nil
}

func read(path string) (Key, error) {
	// Opening a pipe would wait for its writer.
	if i, err := os.Stat(path); err != nil {
		return Key{}, err
	} else if !i.Mode().IsRegular() {
		return Key{}, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Key{}, err
	}
	defer f.Close()
	if err := private(f); err != nil {
		return Key{}, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return Key{}, err
	}
	return parse(path, b)
}

func private(f *os.File) error {
	i, err := f.Stat()
	if err != nil {
		return err
	}
	// Windows has no such bits; there the profile folder keeps others out.
	if i.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%w %s (mode %04o): run chmod 600 %[2]s", ErrReadable, f.Name(), i.Mode().Perm())
	}
	return nil
}

func parse(path string, b []byte) (Key, error) {
	p, rest := pem.Decode(b)
	if p == nil || p.Type != "PRIVATE KEY" || len(rest) != 0 {
		return Key{}, fmt.Errorf("%s is not a key file: want one PEM block PRIVATE KEY; restore it from a backup, or move it away to get a new key", path)
	}
	v, err := x509.ParsePKCS8PrivateKey(p.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("%s is damaged: restore it from a backup, or move it away to get a new key", path)
	}
	priv, ok := v.(ed25519.PrivateKey)
	if !ok {
		return Key{}, fmt.Errorf("%s holds a %T: want an Ed25519 key", path, v)
	}
	return keyOf(priv), nil
}

// create makes the file whole under another name and links it, so that no reader
// sees half of it and the first of several creators wins: a rename would let the last
// one win, after the others have used theirs.
func create(path string) error {
	k, err := New()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.priv)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // O_EXCL, mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it cannot, and its rename is durable
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
