package ledger

import "github.com/cockroachdb/pebble/v2/vfs"

// FilesOf is where a ledger's files are.
func FilesOf(l *Ledger) vfs.FS { return l.cfg.FS }
