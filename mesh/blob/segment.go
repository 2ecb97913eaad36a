package blob

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"idlemesh/ledger/record"
)

// A segment file is a head (magic, random salt) and records one after another. The
// salt enters every record's check, so bytes inside a blob cannot pass for a record
// when a scan looks for the next one after damage.
const (
	segMagic   = "idmblob1"
	segHead    = len(segMagic) + 16
	segSize    = 64 << 20 // a new file is begun beyond it
	recHead    = 56
	recMagic   = "rec"
	kindBlob   = 'B'
	kindPin    = 'P'
	checkBytes = 8
)

// A rec is one record: a small blob, perhaps pinned, or a pin alone.
type rec struct {
	ref   record.Ref
	until record.Millis
	pin   bool
	data  []byte
}

func (r rec) size() int64 { return recHead + int64(len(r.data)) }

// appendTo appends the record: kind, magic, length, until, ref, check, data. The
// data is checked by its name when it is read.
func (r rec) appendTo(b []byte, salt []byte) []byte {
	start, kind := len(b), byte(kindBlob)
	if r.pin {
		kind = kindPin
	}
	b = append(append(b, kind), recMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.data)))
	b = binary.BigEndian.AppendUint64(b, uint64(r.until))
	b = append(b, r.ref[:]...)
	sum := checkOf(salt, b[start:])
	return append(append(b, sum[:]...), r.data...)
}

func checkOf(salt, head []byte) [checkBytes]byte {
	var b [16 + recHead]byte
	n := copy(b[:], salt)
	n += copy(b[n:], head)
	sum := sha256.Sum256(b[:n])
	return [checkBytes]byte(sum[:])
}

// parseHead reads a record's head and its data's length.
func parseHead(salt, b []byte) (r rec, n int, ok bool) {
	if string(b[1:4]) != recMagic || b[0] != kindBlob && b[0] != kindPin {
		return rec{}, 0, false
	}
	r.pin = b[0] == kindPin
	length := binary.BigEndian.Uint32(b[4:])
	r.until = record.Millis(binary.BigEndian.Uint64(b[8:]))
	copy(r.ref[:], b[16:])
	sum := checkOf(salt, b[:recHead-checkBytes])
	if length > small || !bytes.Equal(sum[:], b[recHead-checkBytes:recHead]) {
		return rec{}, 0, false
	}
	return r, int(length), true
}

// scan calls each with every record of a segment of that size, its data left out,
// and the offset of its data; it skips what is damaged and returns where the last
// whole record ends.
func scan(f io.Reader, size int64, each func(r rec, off, n int64)) (salt []byte, end int64, err error) {
	br := bufio.NewReaderSize(f, 256<<10)
	head := make([]byte, segHead)
	if _, err := io.ReadFull(br, head); err != nil || string(head[:len(segMagic)]) != segMagic {
		return nil, 0, errors.Join(errors.New("not a segment"), err)
	}
	salt, end = head[len(segMagic):], int64(segHead)
	for pos := end; ; {
		b, err := br.Peek(recHead)
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return salt, end, err
		}
		r, n, ok := parseHead(salt, b)
		step := recHead + n
		if ok = ok && pos+int64(step) <= size; !ok {
			step = 1
		}
		if _, err := br.Discard(step); err != nil {
			return salt, end, nil
		}
		if ok {
			each(r, pos+recHead, int64(n))
			end = pos + int64(step)
		}
		pos += int64(step)
	}
}

// A segment is one open file. Who reads from it holds use for reading.
type segment struct {
	use  sync.RWMutex
	f    *os.File
	id   uint32
	salt []byte
	size int64        // bytes of the file; journal.io guards it until another is active
	live int64        // bytes of records that are needed; Store.mu guards it
	late atomic.Int64 // records written that the index does not have yet
}

// A journal appends records to segments; many callers share one write and one sync.
type journal struct {
	dir   string
	write func(f *os.File, b []byte, off int64) (int, error) // WriteAt, but in tests of a full disk
	sync  func(f *os.File) error

	mu   sync.Mutex
	next *batch // not yet being written
	all  map[*segment]bool

	io     sync.Mutex
	active *segment
	last   uint32 // id given
}

type batch struct {
	recs []rec
	sync bool
	done chan struct{}

	// Set before done is closed.
	seg  *segment
	offs []int64 // of each record's data
	err  error
}

// append writes the records, and syncs them when asked. The first to come after a
// write has begun writes for all who come until it ends. It returns the batch and
// where the caller's records stand in it.
func (j *journal) append(recs []rec, durable bool) (*batch, int) {
	j.mu.Lock()
	b := j.next
	lead := b == nil
	if lead {
		b = &batch{done: make(chan struct{})}
		j.next = b
	}
	at := len(b.recs)
	b.recs = append(b.recs, recs...)
	b.sync = b.sync || durable
	j.mu.Unlock()
	if !lead {
		<-b.done
		return b, at
	}
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	j.next = nil
	j.mu.Unlock()
	b.err = j.commitLocked(b)
	close(b.done)
	return b, at
}

func (j *journal) commitLocked(b *batch) error {
	if j.active == nil || j.active.size >= segSize {
		if err := j.rollLocked(); err != nil {
			return err
		}
	}
	seg := j.active
	b.seg, b.offs = seg, make([]int64, len(b.recs))
	var n int64
	for _, r := range b.recs {
		n += r.size()
	}
	buf := make([]byte, 0, n)
	for i, r := range b.recs {
		b.offs[i] = seg.size + int64(len(buf)) + recHead
		buf = r.appendTo(buf, seg.salt)
	}
	if _, err := j.write(seg.f, buf, seg.size); err != nil {
		return errors.Join(err, seg.f.Truncate(seg.size))
	}
	if b.sync {
		if err := j.sync(seg.f); err != nil {
			// What the disk holds now is unknown: nothing is appended to it again.
			seg.size += n
			j.active = nil
			return err
		}
	}
	seg.size += n
	seg.late.Add(int64(len(b.recs)))
	return nil
}

// rollLocked begins a new segment. The old one is synced first: a later pin may
// promise to keep what stands there.
func (j *journal) rollLocked() error {
	if j.active != nil {
		if err := j.sync(j.active.f); err != nil {
			return err
		}
		j.active = nil
	}
	seg := &segment{id: j.last + 1, salt: make([]byte, 16), size: int64(segHead)}
	rand.Read(seg.salt)
	f, err := os.OpenFile(j.path(seg.id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	seg.f = f
	_, err = j.write(f, append([]byte(segMagic), seg.salt...), 0)
	if err = errors.Join(err, syncDir(j.dir)); err != nil {
		f.Close()
		remove(f.Name())
		return err
	}
	j.last++
	j.active = seg
	j.mu.Lock()
	j.all[seg] = true
	j.mu.Unlock()
	return nil
}

func (j *journal) path(id uint32) string { return filepath.Join(j.dir, fmt.Sprintf("%08d.seg", id)) }

func (j *journal) close() error {
	var err error
	if j.active != nil {
		err = j.sync(j.active.f)
	}
	for seg := range j.all {
		err = errors.Join(err, seg.f.Close())
	}
	return err
}
