package quorum

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"idlemesh/ledger"
)

// A store holds raft's log and its few values in Pebble: one sync for all logs of a
// call. It is raft.LogStore and raft.StableStore.
type store struct {
	fs      vfs.FS
	dir     string
	minFree uint64
	log     *slog.Logger
	db      *pebble.DB
	stuck   chan struct{} // closed once Pebble must not be called again

	mu     sync.Mutex
	broken error
}

const (
	prefixLog    = 'l' // index → term, type, time, extensions, data
	prefixStable = 's' // name → value
)

func logKey(i uint64) []byte { return binary.BigEndian.AppendUint64([]byte{prefixLog}, i) }

func openStore(fs vfs.FS, dir string, minFree uint64, log *slog.Logger) (*store, error) {
	s := &store{fs: fs, dir: dir, minFree: minFree, log: log, stuck: make(chan struct{})}
	var err error
	if s.db, err = pebble.Open(dir, s.options()); err != nil {
		return nil, fmt.Errorf("open the keepers' log: %w", err)
	}
	if err := s.bear(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// bear names a new store. It is flushed before it takes a batch: the first WAL of a
// store without a table may lose a synced tail in silence.
func (s *store) bear() error {
	_, err := s.born()
	if !errors.Is(err, errNoValue) {
		return err
	}
	if last, err := s.LastIndex(); err != nil || last > 0 {
		return cmp.Or(err, fmt.Errorf("%w: the keepers' log has lost its name", ledger.ErrCorrupt))
	}
	var id [8]byte
	rand.Read(id[:])
	if err := s.Set([]byte(keyBorn), []byte(hex.EncodeToString(id[:]))); err != nil {
		return err
	}
	return s.db.Flush()
}

func (s *store) options() *pebble.Options {
	return &pebble.Options{
		FS: ledger.Named(s.fs), Logger: s, FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize: 16 << 20, MemTableStopWritesThreshold: 4, CacheSize: 4 << 20, MaxOpenFiles: 64,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { _ = s.fail(err) },
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				_ = s.fail(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, i.Path, i.Details))
			},
		},
	}
}

// keyBorn names this store among all that a keeper ever had.
const keyBorn = "born"

func (s *store) born() (string, error) {
	b, err := s.Get([]byte(keyBorn))
	return string(b), err
}

func (s *store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = err
		s.log.Error("quorum: the keepers' log refuses everything from now on", "err", err)
	}
	return s.broken
}

func (s *store) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Infof implements pebble.Logger; Pebble's news are of no interest here.
func (s *store) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (s *store) Errorf(format string, args ...any) {
	s.log.Error("quorum: " + fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. Pebble must not go on after it and the process must
// not end by it, so the goroutine is parked and the store answers with the reason.
func (s *store) Fatalf(format string, args ...any) {
	if err := fmt.Errorf("%w: %s", ledger.ErrCorrupt, fmt.Sprintf(format, args...)); s.fail(err) == err {
		close(s.stuck)
	}
	select {}
}

// commit makes a batch durable. On a full disk Pebble's writes block for ever, so there
// must be room first.
func (s *store) commit(b *pebble.Batch) error {
	if err := s.usable(); err != nil {
		return err
	}
	if u, err := s.fs.GetDiskUsage(s.dir); err == nil && u.AvailBytes < s.minFree {
		return fmt.Errorf("%w: the keepers' log wants %d MiB free in %s", ledger.ErrFull, s.minFree>>20, s.dir)
	}
	done := make(chan error, 1)
	go func() { done <- b.Commit(pebble.Sync) }() // Pebble has no way to be cancelled
	select {
	case err := <-done:
		if err != nil {
			return s.fail(err)
		}
		return b.Close()
	case <-s.stuck:
		return s.usable()
	}
}

// FirstIndex implements raft.LogStore.
func (s *store) FirstIndex() (uint64, error) { return s.edge((*pebble.Iterator).First) }

// LastIndex implements raft.LogStore.
func (s *store) LastIndex() (uint64, error) { return s.edge((*pebble.Iterator).Last) }

func (s *store) edge(seek func(*pebble.Iterator) bool) (i uint64, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixLog}, UpperBound: []byte{prefixLog + 1}})
	if err != nil {
		return 0, err
	}
	if seek(it) {
		i = binary.BigEndian.Uint64(it.Key()[1:])
	}
	return i, cmp.Or(it.Error(), it.Close())
}

const logFixed = 8 + 1 + 8 + 4

func encodeLog(l *raft.Log) []byte {
	b := make([]byte, 0, logFixed+len(l.Extensions)+len(l.Data))
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	b = binary.BigEndian.AppendUint64(b, uint64(l.AppendedAt.UnixNano()))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Extensions)))
	return append(append(b, l.Extensions...), l.Data...)
}

// decodeLog fills l from a copy of b.
func decodeLog(b []byte, l *raft.Log) error {
	if len(b) < logFixed || uint64(binary.BigEndian.Uint32(b[17:])) > uint64(len(b)-logFixed) {
		return fmt.Errorf("%w: a batch of the keepers' log of %d bytes", ledger.ErrCorrupt, len(b))
	}
	ext := logFixed + int(binary.BigEndian.Uint32(b[17:]))
	l.Term, l.Type = binary.BigEndian.Uint64(b), raft.LogType(b[8])
	l.AppendedAt = time.Unix(0, int64(binary.BigEndian.Uint64(b[9:])))
	l.Extensions, l.Data = append([]byte(nil), b[logFixed:ext]...), append([]byte(nil), b[ext:]...)
	return nil
}

// GetLog implements raft.LogStore.
func (s *store) GetLog(i uint64, l *raft.Log) error {
	v, closer, err := s.db.Get(logKey(i))
	if errors.Is(err, pebble.ErrNotFound) {
		return raft.ErrLogNotFound
	}
	if err != nil {
		return err
	}
	l.Index = i
	return cmp.Or(decodeLog(v, l), closer.Close())
}

// lastCommand is the index of the last batch at i or before, zero where the log begins
// later: what is no longer there has been applied.
func (s *store) lastCommand(i uint64) (uint64, error) {
	for ; i > 0; i-- {
		v, closer, err := s.db.Get(logKey(i))
		if errors.Is(err, pebble.ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		command := len(v) >= logFixed && raft.LogType(v[8]) == raft.LogCommand
		if err := closer.Close(); err != nil || command {
			return i, err
		}
	}
	return 0, nil
}

// StoreLog implements raft.LogStore.
func (s *store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore, with one sync.
func (s *store) StoreLogs(logs []*raft.Log) error {
	b := s.db.NewBatch()
	for _, l := range logs {
		if err := b.Set(logKey(l.Index), encodeLog(l), nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// DeleteRange implements raft.LogStore.
func (s *store) DeleteRange(from, to uint64) error {
	b := s.db.NewBatch()
	if err := b.DeleteRange(logKey(from), logKey(to+1), nil); err != nil {
		return err
	}
	return s.commit(b)
}

func stableKey(k []byte) []byte { return append([]byte{prefixStable}, k...) }

// errNoValue must have these words: raft compares them.
var errNoValue = errors.New("not found")

// Set implements raft.StableStore.
func (s *store) Set(k, v []byte) error {
	b := s.db.NewBatch()
	if err := b.Set(stableKey(k), v, nil); err != nil {
		return err
	}
	return s.commit(b)
}

// Get implements raft.StableStore.
func (s *store) Get(k []byte) ([]byte, error) {
	v, closer, err := s.db.Get(stableKey(k))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, errNoValue
	}
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), v...), closer.Close()
}

// SetUint64 implements raft.StableStore.
func (s *store) SetUint64(k []byte, v uint64) error {
	return s.Set(k, binary.BigEndian.AppendUint64(nil, v))
}

// GetUint64 implements raft.StableStore.
func (s *store) GetUint64(k []byte) (uint64, error) {
	v, err := s.Get(k)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: a number of %d bytes", ledger.ErrCorrupt, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

func (s *store) close() error {
	select {
	case <-s.stuck:
		return s.usable()
	default:
		return s.db.Close()
	}
}

// cached keeps the newest batches in memory, for the followers.
func cached(s *store) raft.LogStore {
	c, err := raft.NewLogCache(2*maxAppend, s)
	if err != nil {
		panic(err) // of its size alone
	}
	return c
}
