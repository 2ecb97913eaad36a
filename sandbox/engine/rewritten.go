package engine

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"idlemesh/sandbox"
	"idlemesh/sandbox/wasmbin"
)

// rewritten returns a module as it is compiled: scanned, and changed to be metered. What
// a folder for compiled modules has of an earlier run is used again: whoever can write
// there can run machine code anyway. The error is a badModule.
func (e *Engine) rewritten(wasm []byte, hash [32]byte) ([]byte, error) {
	path := filepath.Join(e.cfg.Dir, fmt.Sprintf("%x.v%d", hash, wasmbin.Version))
	if e.cfg.Dir != "" {
		if b, ok := readSummed(path); ok {
			return b, nil
		}
	}
	b, _, err := sandbox.Meter(wasm)
	if err != nil {
		return nil, badModule{err}
	}
	if e.cfg.Dir != "" {
		_ = writeSummed(path, b) // the next process will do the work again
	}
	return b, nil
}

// readSummed reads what writeSummed wrote, if all of it is there.
func readSummed(path string) ([]byte, bool) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < sha256.Size {
		return nil, false
	}
	sum := sha256.Sum256(b[sha256.Size:])
	return b[sha256.Size:], [sha256.Size]byte(b) == sum
}

// writeSummed writes b after its sum, in one step.
func writeSummed(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".rewritten-*")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	_, err = f.Write(append(sum[:], b...))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
