package ledger

import (
	"cmp"
	"crypto"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// storeDir is Pebble's folder inside the ledger's.
const storeDir = "store"

// Open opens or creates mesh m's ledger in dir, for the keeper that signs with key.
// It changes nothing in a folder whose files are damaged.
func Open(dir string, m record.Signed[record.Mesh], key crypto.Signer, c Config) (*Ledger, error) {
	if key == nil {
		return nil, errors.New("open ledger: a keeper needs its key")
	}
	return open(dir, m, key, c.withDefaults())
}

// OpenReadOnly opens the ledger in dir to query and verify it, and to prove entries if it
// is a copy that has a signed head beside it. Its own head is not signed. It too needs
// the folder for itself.
func OpenReadOnly(dir string, m record.Signed[record.Mesh], c Config) (*Ledger, error) {
	return open(dir, m, nil, c.withDefaults())
}

func open(dir string, m record.Signed[record.Mesh], key crypto.Signer, c Config) (*Ledger, error) {
	count, err := newMetrics(c.Metrics)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{
		cfg: c, dir: dir, mesh: m, key: key, count: count, guard: newGuard(c.FS, dir, c.MinFree, c.Log),
		turn: make(chan struct{}, 1), grown: make(chan struct{}),
	}
	if err := l.open(dir); err != nil {
		close(l.guard.closing)
		return nil, fmt.Errorf("open ledger %s: %w", dir, cmp.Or(err, l.closeFiles()))
	}
	return l, nil
}

func (l *Ledger) open(dir string) error {
	fs, store := l.cfg.FS, l.cfg.FS.PathJoin(dir, storeDir)
	if l.key != nil {
		if err := l.settle(dir, store); err != nil {
			return err
		}
		if err := fs.MkdirAll(store, 0o700); err != nil {
			return err
		}
		if err := syncDir(fs, fs.PathDir(dir)); err != nil {
			return err
		}
	} else if _, err := fs.Stat(store); err != nil {
		return fmt.Errorf("%w: no ledger there", ErrNotFound)
	}
	lock, err := pebble.LockDirectory(store, fs)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLocked, err)
	}
	l.lock = lock
	best, slot, err := readKept(fs, dir)
	if err != nil {
		return err
	}
	if l.key != nil && slot < 0 {
		if err := l.clearUnborn(dir, store); err != nil {
			return err
		}
	}
	s, err := l.inspect(store, lock, best)
	if err != nil {
		return err
	}
	if err := s.compare(l.mesh.Ref(), best, slot >= 0, l.key == nil); err != nil {
		return err
	}
	l.mu.Lock()
	l.head, l.time, l.mark = s.head, s.time, s.mark
	l.mu.Unlock()
	if l.key == nil {
		if err := l.openStore(store, lock, true); err != nil {
			return err
		}
		return l.readSigned(dir)
	}
	if err := l.guard.writable(); err != nil {
		return err
	}
	if err := l.guard.layBallast(); err != nil {
		return fmt.Errorf("set space aside: %w", err)
	}
	if s.blank {
		if err := l.markUnborn(dir); err != nil {
			return err
		}
	}
	if err := l.openStore(store, lock, false); err != nil {
		return err
	}
	if err := l.start(dir, s, best, slot); err != nil {
		return err
	}
	if err := fs.Remove(unbornName(fs, dir)); err != nil && !errNotExist(err) {
		return err
	}
	return nil
}

// The unborn file is there from before the store is made until its head has been kept.
// A crash in between leaves a store that Pebble may refuse and that never took an
// entry: it is made anew.
func unbornName(fs vfs.FS, dir string) string { return fs.PathJoin(dir, "unborn") }

func (l *Ledger) markUnborn(dir string) error {
	f, err := l.cfg.FS.Create(unbornName(l.cfg.FS, dir), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncDir(l.cfg.FS, dir))
}

// clearUnborn empties a store that was never finished.
func (l *Ledger) clearUnborn(dir, store string) error {
	fs := l.cfg.FS
	if _, err := fs.Stat(unbornName(fs, dir)); err != nil {
		if errNotExist(err) {
			return nil
		}
		return err
	}
	names, err := fs.List(store)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "LOCK" {
			continue // held
		}
		if err := fs.Remove(fs.PathJoin(store, name)); err != nil {
			return err
		}
	}
	return syncDir(fs, store)
}

// start writes what a fresh or repaired ledger needs.
func (l *Ledger) start(dir string, s stored, best keptHead, slot int) (err error) {
	if s.blank {
		if err := l.create(); err != nil {
			return err
		}
	}
	if l.kept, err = openKept(l.cfg.FS, dir, slot); err != nil {
		return err
	}
	if s.head.Size < best.Size { // compare has seen that it is behind by one batch
		if err := l.repeat(best); err != nil {
			return err
		}
	}
	// Both slots are whole from here on.
	now := keptHead{Mesh: l.mesh.Ref(), Before: l.head.Size, Prior: l.head.Root, Size: l.head.Size, Root: l.head.Root, Time: l.time, Mark: l.mark}
	if err := l.kept.write(now); err != nil {
		return err
	}
	head, err := tree.Sign(l.key, l.mesh.Ref(), l.head.Size, l.head.Root)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = head
	return err
}

// create makes an empty store of ours. It is flushed before it takes an entry: the
// first WAL of a store without a table otherwise loses a synced tail in silence.
func (l *Ledger) create() error {
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		return err
	}
	l.head = tree.Head{Root: record.Ref(root)}
	mesh := l.mesh.Ref()
	return l.guard.within(l.guard.whenFull(), func() error {
		b := l.db.NewBatch()
		if err := b.Set([]byte(metaFormat), append([]byte{format}, mesh[:]...), nil); err != nil {
			return err
		}
		if err := b.Set([]byte(metaHead), headValue(l.head, 0), nil); err != nil {
			return err
		}
		if err := b.Commit(pebble.Sync); err != nil {
			return err
		}
		return l.db.Flush()
	})
}

// repeat applies the kept batch once more: the store lost it, or never had it.
func (l *Ledger) repeat(h keptHead) error {
	l.cfg.Log.Warn("ledger: repeat the last batch from the kept head", "from", h.Before, "to", h.Size)
	p, outs, err := l.plan(openAll(h.Batch, true), stamp{h.Time, h.Mark})
	if err != nil {
		return err
	}
	for _, o := range outs {
		if o.Err != nil {
			return fmt.Errorf("%w: kept batch: %w", ErrCorrupt, o.Err)
		}
	}
	if p.head.Size != h.Size || p.head.Root != h.Root {
		return fmt.Errorf("%w: kept batch leads to size %d, not %d", ErrCorrupt, p.head.Size, h.Size)
	}
	return l.guard.within(l.guard.whenFull(), func() error { return l.commit(p) })
}

// options are Pebble's. An idle ledger is small in memory: memtables start at 256 KiB
// and grow to their size when there is traffic.
func (l *Ledger) options(lock *pebble.Lock, readOnly bool) *pebble.Options {
	o := &pebble.Options{
		FS: steadyFS{Named(l.cfg.FS), l.guard}, Lock: lock, ReadOnly: readOnly, ErrorIfNotExists: readOnly,
		Logger: l.guard, EventListener: l.guard.listener(),
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       l.cfg.MemTable, MemTableStopWritesThreshold: 4,
		CacheSize: 64 << 20, MaxOpenFiles: 256,
		WALBytesPerSync: 0, BytesPerSync: 512 << 10,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 16 << 10 // keys and parties repeat: more of them compress better
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	return o
}

func (l *Ledger) openStore(store string, lock *pebble.Lock, readOnly bool) error {
	var db *pebble.DB
	err := l.guard.within(l.guard.whenFull(), func() (err error) {
		db, err = pebble.Open(store, l.options(lock, readOnly))
		return err
	})
	if err != nil {
		return damaged(err)
	}
	l.db = db
	return nil
}

// damaged tells a store that Pebble does not open from a disk that does not answer.
func damaged(err error) error {
	if errors.Is(err, ErrCorrupt) || pebble.IsCorruptionError(err) {
		return corrupted(err)
	}
	return err
}
