package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// cacheFor returns tenant's compile cache, having made room in all of them.
func (c Config) cacheFor(tenant string) (string, error) {
	if c.Dir == "" {
		return "", nil
	}
	sum := sha256.Sum256([]byte(tenant))
	dir := filepath.Join(c.Dir, hex.EncodeToString(sum[:16]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make compile cache: %w", err)
	}
	if err := prune(c.Dir, c.Cache); err != nil {
		return "", fmt.Errorf("prune compile caches: %w", err)
	}
	return dir, nil
}

// prune removes the oldest files below dir until the rest have at most size bytes.
func prune(dir string, size int64) error {
	type entry struct {
		path string
		size int64
		age  time.Time
	}
	var all []entry
	var total int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return nil // a worker has just renamed it
		}
		all = append(all, entry{path, i.Size(), i.ModTime()})
		total += i.Size()
		return nil
	})
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(a.age.Compare(b.age), cmp.Compare(a.path, b.path)) })
	for _, e := range all {
		if total <= size {
			break
		}
		if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= e.size
	}
	return err
}
