package provider

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"idlemesh/ledger/record"
)

// A note is what a provider must know of a lease after a restart.
type note struct {
	Lease record.Signed[record.Lease] `cbor:"1,keyasint"`
	Job   record.Signed[record.Job]   `cbor:"2,keyasint"`
	// Receipt is what the run came to, not signed yet; nil when it came to nothing.
	Receipt *record.Receipt `cbor:"3,keyasint,omitempty"`
	Outputs []record.Ref    `cbor:"4,keyasint,omitempty"`
	// Left is whether an orderly stop of the node ended the run, which may begin anew.
	Left bool          `cbor:"5,keyasint,omitempty"`
	At   record.Millis `cbor:"6,keyasint"`
}

// A journal keeps notes in two files: when the newer one is long, it takes the place of
// the older. A note is a length, the start of its hash, and its bytes; what a crash left
// half-written at the end is cut off. It is safe for concurrent use.
type journal struct {
	dir string // "" keeps nothing

	mu   sync.Mutex
	next *page // not yet being written

	io   sync.Mutex
	f    *os.File
	size int64
}

// A page is what one write and one sync take.
type page struct {
	b    []byte
	done chan struct{}
	err  error // set before done is closed
}

const (
	maxJournal = 8 << 20  // bytes of a file, above which another is begun
	maxNote    = 16 << 20 // bytes
	noteHead   = 12
)

// openJournal returns the journal in dir and what it has of each lease, the newest note.
func openJournal(dir string) (*journal, map[record.Ref]note, error) {
	j, notes := &journal{dir: dir}, map[record.Ref]note{}
	if dir == "" {
		return j, notes, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	for _, path := range []string{j.older(), j.newer()} {
		end, err := readNotes(path, notes)
		if err != nil {
			return nil, nil, err
		}
		j.size = end
	}
	f, err := os.OpenFile(j.newer(), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(f.Truncate(j.size), syncDir(dir))
	}
	j.f = f
	return j, notes, err
}

func (j *journal) newer() string { return filepath.Join(j.dir, "leases.new") }
func (j *journal) older() string { return filepath.Join(j.dir, "leases.old") }

// readNotes adds the notes of a file and returns where the last whole one ends.
func readNotes(path string, into map[record.Ref]note) (end int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return scanNotes(bufio.NewReader(f), func(n note) { into[n.Lease.Ref()] = n })
}

func scanNotes(r io.Reader, each func(note)) (end int64, err error) {
	for {
		var head [noteHead]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return end, ended(err)
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxNote {
			return end, nil
		}
		var b []byte
		if b, err = io.ReadAll(io.LimitReader(r, int64(n))); err != nil {
			return end, err
		}
		sum := sha256.Sum256(b)
		var x note
		if len(b) != int(n) || string(sum[:8]) != string(head[4:]) || record.Decode(b, &x) != nil {
			return end, nil
		}
		each(x)
		end += noteHead + int64(n)
	}
}

// ended makes nothing of a file's end.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// write returns once n is on disk. The first to come after a write has begun writes for
// all who come until it ends.
func (j *journal) write(n note) error {
	if j.dir == "" {
		return nil
	}
	b, err := record.Encode(n)
	if err == nil && len(b) > maxNote {
		err = fmt.Errorf("a note of %d bytes, at most %d", len(b), maxNote)
	}
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	j.mu.Lock()
	p := j.next
	lead := p == nil
	if lead {
		p = &page{done: make(chan struct{})}
		j.next = p
	}
	p.b = append(binary.BigEndian.AppendUint32(p.b, uint32(len(b))), sum[:8]...)
	p.b = append(p.b, b...)
	j.mu.Unlock()
	if !lead {
		<-p.done
		return p.err
	}
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	j.next = nil
	j.mu.Unlock()
	p.err = j.commitLocked(p.b)
	close(p.done)
	return p.err
}

func (j *journal) commitLocked(b []byte) error {
	if j.size >= maxJournal {
		if err := j.turnLocked(); err != nil {
			return err
		}
	}
	_, err := j.f.WriteAt(b, j.size)
	if err == nil {
		err = j.f.Sync()
	}
	if err == nil {
		j.size += int64(len(b))
	}
	return err
}

// turnLocked begins a new file.
func (j *journal) turnLocked() error {
	_ = j.f.Close() // what it holds is synced; some systems do not rename open files
	if err := os.Rename(j.newer(), j.older()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(j.newer(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	j.f, j.size = f, 0
	return syncDir(j.dir)
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	return j.f.Close()
}
