package ledger

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Named returns fs for a Pebble store, with the name of each new MANIFEST durable before
// anything points to it. Pebble alone syncs the folder only after it has written a marker
// with the new name and removed the marker before, and a disk may keep these two alone.
func Named(fs vfs.FS) vfs.FS { return namedFS{fs} }

type namedFS struct{ vfs.FS }

// Create implements vfs.FS.
func (n namedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := n.FS.Create(name, c)
	if err != nil || !strings.HasPrefix(filepath.Base(name), "MANIFEST-") {
		return f, err
	}
	if err := syncDir(n.FS, n.PathDir(name)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Unwrap implements vfs.FS.
func (n namedFS) Unwrap() vfs.FS { return n.FS }
