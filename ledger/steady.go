package ledger

import (
	"errors"
	"path"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A steadyFS never tells Pebble that its WAL could not be written: Pebble panics then,
// partly with a lock in a state that the runtime itself ends the process for. Where
// there is no room the call waits for some, while the guard refuses appends; after any
// other error it never returns.
type steadyFS struct {
	vfs.FS
	guard *guard
}

// roomInterval is how often a call that waits for room tries again.
const roomInterval = 200 * time.Millisecond

func isWAL(name string) bool { return path.Ext(name) == ".log" }

// Create implements vfs.FS.
func (s steadyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if !isWAL(name) {
		return s.FS.Create(name, c)
	}
	return s.wal(func() (vfs.File, error) { return s.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (s steadyFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if !isWAL(to) {
		return s.FS.ReuseForWrite(from, to, c)
	}
	return s.wal(func() (vfs.File, error) { return s.FS.ReuseForWrite(from, to, c) })
}

func (s steadyFS) wal(open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	s.guard.persist(func() (err error) {
		f, err = open()
		return err
	})
	return steadyFile{f, s.guard}, nil
}

// OpenDir implements vfs.FS: a WAL is durable once its folder is.
func (s steadyFS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return steadyFile{f, s.guard}, nil
}

// Unwrap implements vfs.FS.
func (s steadyFS) Unwrap() vfs.FS { return s.FS }

type steadyFile struct {
	vfs.File
	guard *guard
}

// Write implements vfs.File.
func (f steadyFile) Write(p []byte) (int, error) {
	done := 0
	f.guard.persist(func() error {
		n, err := f.File.Write(p[done:])
		done += max(n, 0)
		return err
	})
	return done, nil
}

// Preallocate implements vfs.File.
func (f steadyFile) Preallocate(offset, n int64) error {
	f.guard.persist(func() error { return f.File.Preallocate(offset, n) })
	return nil
}

// Sync implements vfs.File. After a failed sync nobody knows what is on disk, so it is
// never tried twice.
func (f steadyFile) Sync() error { return f.guard.once(f.File.Sync()) }

// SyncData implements vfs.File.
func (f steadyFile) SyncData() error { return f.guard.once(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f steadyFile) SyncTo(n int64) (bool, error) {
	full, err := f.File.SyncTo(n)
	return full, f.guard.once(err)
}

// Close implements vfs.File.
func (f steadyFile) Close() error { return f.guard.once(f.File.Close()) }

// persist calls f until it succeeds or will never.
func (g *guard) persist(f func() error) {
	for {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			g.park(written(err))
		}
		g.mu.Lock()
		g.fullLocked()
		g.mu.Unlock()
		select {
		case <-time.After(roomInterval):
		case <-g.closing:
			g.park(written(err))
		}
	}
}

func (g *guard) once(err error) error {
	if err != nil {
		g.park(written(err))
	}
	return nil
}

// park ends the use of Pebble for good, and the calling goroutine with it.
func (g *guard) park(err error) {
	if g.fail(err) == err {
		close(g.stuck)
	}
	select {}
}
