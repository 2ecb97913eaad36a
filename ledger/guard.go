package ledger

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ballastSize is given up when the disk is full, so that Pebble can write out what it
// has acknowledged.
const ballastSize = 8 << 20

// A guard stands between a ledger and what Pebble does in the background: on a full
// disk a write of Pebble's blocks for ever, on a corrupt file its default is to end the
// process. Here the first refuses until there is room, the second for good.
type guard struct {
	fs      vfs.FS
	dir     string
	minFree uint64
	log     *slog.Logger

	stuck   chan struct{} // closed once Pebble must not be called again
	closing chan struct{} // closed by Close: nobody waits for room any more

	mu     sync.Mutex
	broken error         // for good
	full   bool          // until there is room
	filled chan struct{} // closed when full became true
}

func newGuard(fs vfs.FS, dir string, minFree uint64, log *slog.Logger) *guard {
	return &guard{fs: fs, dir: dir, minFree: minFree, log: log, stuck: make(chan struct{}), closing: make(chan struct{}), filled: make(chan struct{})}
}

// usable refuses when the ledger is broken.
func (g *guard) usable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.broken
}

// writable refuses when the ledger is broken or the disk full.
func (g *guard) writable() error {
	usage, err := g.fs.GetDiskUsage(g.dir)
	known := !errors.Is(err, vfs.ErrUnsupported)
	if err != nil && known {
		return fmt.Errorf("read free disk space: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.broken != nil:
		return g.broken
	case known && usage.AvailBytes < g.minFree:
		g.fullLocked()
		return g.errLocked()
	case known && g.full:
		g.full, g.filled = false, make(chan struct{})
	}
	return g.errLocked()
}

func (g *guard) errLocked() error {
	if g.broken == nil && g.full {
		return fmt.Errorf("%w: the ledger wants %d MiB free in %s; free some space and try again", ErrFull, g.minFree>>20, g.dir)
	}
	return g.broken
}

// fullLocked refuses appends from now on and gives up the ballast.
func (g *guard) fullLocked() {
	if g.full {
		return
	}
	g.full = true
	close(g.filled)
	if err := g.fs.Remove(ballastName(g.fs, g.dir)); err != nil && !errNotExist(err) {
		g.log.Error("ledger: give up the ballast", "err", err)
	}
}

// fail breaks the ledger for good; the first reason stands.
func (g *guard) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken == nil {
		g.broken = err
		g.log.Error("ledger: refuses everything from now on", "err", err)
	}
	return g.broken
}

// within runs f, which calls Pebble, and returns when it does, or when it may never:
// after a fatal error, or on until, which may be nil. f then goes on by itself, since
// Pebble has no way to be cancelled.
func (g *guard) within(until <-chan struct{}, f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil { // Pebble panics on some damaged files
				done <- g.fail(fmt.Errorf("%w: %v", ErrCorrupt, r))
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-g.stuck:
	case <-until:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.errLocked()
}

// whenFull returns a channel that is closed when the disk is full.
func (g *guard) whenFull() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.filled
}

// read turns an error of Pebble's into the ledger's: a corrupt file ends it.
func (g *guard) read(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) && !errors.Is(err, ErrCorrupt) {
		return err
	}
	return g.fail(corrupted(err))
}

// corrupted makes an ErrCorrupt of one line, of errors of Pebble's that have several.
func corrupted(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("%w: %s", ErrCorrupt, line)
}

// listener hears of Pebble's background work.
func (g *guard) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if errors.Is(err, syscall.ENOSPC) {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.fullLocked()
				return
			}
			_ = g.fail(corrupted(err))
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			_ = g.fail(fmt.Errorf("%s: %w", info.Path, corrupted(info.Details)))
		},
		DiskSlow: func(info pebble.DiskSlowInfo) { g.log.Warn("ledger: slow disk", "info", info.String()) },
	}
}

// Infof implements pebble.Logger; Pebble's news are of no interest here.
func (g *guard) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (g *guard) Errorf(format string, args ...any) {
	g.log.Error("ledger: " + fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. Pebble must not go on after it, and the process
// must not end by it: the goroutine is parked with whatever locks it holds, so nothing
// more is written or deleted, and the ledger answers with the reason.
func (g *guard) Fatalf(format string, args ...any) {
	g.park(fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...)))
}

func ballastName(fs vfs.FS, dir string) string { return fs.PathJoin(dir, "ballast") }

// layBallast sets space aside, where there is plenty.
func (g *guard) layBallast() error {
	usage, err := g.fs.GetDiskUsage(g.dir)
	if err != nil || usage.AvailBytes < g.minFree+4*ballastSize {
		return nil // no way to know, or no room to spare
	}
	name := ballastName(g.fs, g.dir)
	if st, err := g.fs.Stat(name); err == nil && st.Size() == ballastSize {
		return nil
	}
	f, err := g.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, ballastSize)) // written, since a hole sets nothing aside
	return errors.Join(err, f.Close())
}
