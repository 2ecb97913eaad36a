package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxCaches is how many commands of one home may use a mesh at once.
const maxCaches = 256

// openCache returns a folder for a command's blobs that no other process uses, and what
// gives it back. Mostly it is the first, with what earlier commands left in it.
func openCache(home string) (string, io.Closer, error) {
	dir := filepath.Join(home, "cache")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	for i := range maxCaches {
		path := filepath.Join(dir, fmt.Sprint(i))
		f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return "", nil, err
		}
		if err := tryLock(f); err == nil {
			return path, f, nil
		} else if f.Close(); !errors.Is(err, errTaken) {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("%d commands use %s at once: wait for some of them", maxCaches, home)
}
