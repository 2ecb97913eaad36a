// Package ledger keeps the append-only Merkle log of signed entries over Pebble, and
// the indexes that follow from it.
//
// The log is the only source of truth: every index is a cache that Verify recomputes.
// What an entry does to balances is decided by ledger/account; this package stores it.
// What Apply has acknowledged survives a crash at any moment, and a file that was
// damaged is noticed: the ledger then refuses instead of answering with less. A Ledger
// is safe for concurrent use.
package ledger

import (
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// Config shapes a Ledger.
type Config struct {
	// FS holds the files. Nil means the disk.
	FS vfs.FS
	// Now is the clock behind ledger time, which never goes back. Nil means time.Now.
	Now func() time.Time
	// Log receives events. Nil means slog.Default().
	Log *slog.Logger
	// Metrics registers counters. Nil means none.
	Metrics prometheus.Registerer
	// MinFree is the disk space in bytes below which appends are refused. Zero means
	// 64 MiB.
	MinFree uint64
	// MemTable is how many bytes of fresh entries are kept in memory. Zero means
	// 16 MiB.
	MemTable uint64
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	c.MinFree = cmp.Or(c.MinFree, 64<<20)
	c.MemTable = cmp.Or(c.MemTable, 16<<20)
	return c
}

var (
	// ErrNotFound is returned when there is no entry of that index or hash.
	ErrNotFound = errors.New("entry not found")
	// ErrConflict is returned for a known idempotency key with another body.
	ErrConflict = errors.New("idempotency key was used for another entry")
	// ErrSequence is what a SequenceError is.
	ErrSequence = errors.New("entry is out of its author's sequence")
	// ErrLocked is returned when another process holds the ledger's folder.
	ErrLocked = errors.New("ledger folder is in use by another process")
	// ErrCorrupt is returned for files that are damaged or hold less than was
	// acknowledged. Nothing is changed then.
	ErrCorrupt = errors.New("ledger files are damaged")
	// ErrFull is returned while the disk has too little space.
	ErrFull = errors.New("disk is full")
	// ErrMesh is returned for a folder that holds another mesh's ledger.
	ErrMesh = errors.New("ledger is of another mesh")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("ledger is closed")
	// ErrReadOnly is returned by Apply and Prove of a ledger opened for reading, which
	// has no key to sign with.
	ErrReadOnly = errors.New("ledger is open for reading only")
)

// A SequenceError reports an entry whose number is not its stream's next. It is an
// ErrSequence.
type SequenceError struct{ Have, Want uint64 }

// Error names both numbers.
func (e *SequenceError) Error() string {
	return fmt.Sprintf("%v: %d, want %d", ErrSequence, e.Have, e.Want)
}

// Unwrap returns ErrSequence.
func (e *SequenceError) Unwrap() error { return ErrSequence }

// A Ledger is a log and its indexes.
type Ledger struct {
	cfg   Config
	dir   string
	mesh  record.Signed[record.Mesh]
	key   crypto.Signer // nil when only read
	db    *pebble.DB
	lock  io.Closer
	kept  *kept // nil when only read
	guard *guard
	count metrics

	signed tree.Head // by a quorum, kept beside a copy that is only read

	// turn holds one token: whoever has put it in writes. A commit that Pebble does
	// not let go of keeps it, so that others are refused and do not queue behind.
	turn chan struct{}

	users sync.WaitGroup // of db; none is added once closed

	mu     sync.RWMutex
	head   tree.Head     // durable
	time   record.Millis // of its last batch
	mark   uint64        // of the last batch placed, which may have been refused whole
	grown  chan struct{} // closed and replaced at each commit
	away   bool          // while another store takes this one's place
	closed bool
}

// Head returns the newest durable tree head, signed where the ledger has a key.
func (l *Ledger) Head() tree.Head {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.head
}

// Time returns the ledger time of the last entry.
func (l *Ledger) Time() record.Millis {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.time
}

// view reads what is stored; it may run ahead of the head by a commit in flight.
func (l *Ledger) view() view {
	return view{mesh: l.mesh.Value, get: func(k []byte) ([]byte, error) { return getFrom(l.db, k) }}
}

// hold keeps Close waiting until the caller has called the function it returns.
func (l *Ledger) hold() (release func(), err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, ErrClosed
	}
	if l.away {
		return nil, ErrReplaced
	}
	if err := l.guard.usable(); err != nil {
		return nil, err
	}
	l.users.Add(1)
	return l.users.Done, nil
}

// Balance returns an account's balance at the head.
func (l *Ledger) Balance(id account.ID) (b account.Balance, err error) {
	release, err := l.hold()
	if err != nil {
		return b, err
	}
	defer release()
	_, b, err = balances(l.db, id, l.Head().Size)
	return b, l.guard.read(err)
}

// Job returns what the rules remember of a job; the zero Job when there is none.
func (l *Ledger) Job(r record.Ref) (j account.Job, err error) {
	release, err := l.hold()
	if err != nil {
		return j, err
	}
	defer release()
	j, err = l.view().Job(r)
	return j, l.guard.read(err)
}

// Lease returns what the rules remember of a lease; the zero Lease when there is none.
func (l *Ledger) Lease(r record.Ref) (s account.Lease, err error) {
	release, err := l.hold()
	if err != nil {
		return s, err
	}
	defer release()
	s, err = l.view().Lease(r)
	return s, l.guard.read(err)
}

// NextSeq returns the number that an author's stream goes on with.
func (l *Ledger) NextSeq(author record.NodeID, stream record.Ref) (uint64, error) {
	release, err := l.hold()
	if err != nil {
		return 0, err
	}
	defer release()
	n, err := l.view().nextSeq(author, stream)
	return n, l.guard.read(err)
}

// Close waits for readers and the commit in flight and closes the files. When Pebble
// does not let go of a commit, it leaves them to the process's end.
func (l *Ledger) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.grown)
	l.mu.Unlock()
	close(l.guard.closing)
	select {
	case <-l.guard.stuck:
		return l.guard.usable()
	case l.turn <- struct{}{}:
	}
	l.users.Wait()
	return l.closeFiles()
}

func (l *Ledger) closeFiles() error {
	var errs []error
	if l.db != nil {
		errs = append(errs, l.guard.within(nil, l.db.Close))
	}
	if l.kept != nil {
		errs = append(errs, l.kept.close())
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	return errors.Join(errs...)
}
