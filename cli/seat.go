package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"idlemesh/ledger/record"
)

// A seat is the right to run one of this home's nodes, which one process has at a
// time. NAME.lock is locked by that process and has its number; NAME.addr says where it
// is reached, once it is.
type seat struct {
	base string
	lock *os.File
}

// A holder is who has a seat, as NAME.addr tells it.
type holder struct {
	Addr       string        `json:"addr"`
	Node       record.NodeID `json:"node"`
	PID        int           `json:"pid"`
	Background bool          `json:"background,omitempty"`
}

// maxSmall bounds what is read of a file that meshctl or a person wrote, in bytes.
const maxSmall = 1 << 20

// errTaken is returned when another process has the seat.
var errTaken = errors.New("taken by another process")

// takeSeat takes the seat whose files start with base, or returns errTaken.
func takeSeat(base string) (*seat, error) {
	f, err := os.OpenFile(base+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		return nil, err
	}
	// What a killed holder left is not true any more.
	if err := os.Remove(base + ".addr"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &seat{base, f}, nil
}

// announce tells others where the node is.
func (s *seat) announce(h holder) error {
	h.PID = os.Getpid()
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return writeFile(s.base+".addr", b)
}

// leave gives the seat up.
func (s *seat) leave() error {
	err := os.Remove(s.base + ".addr")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.lock.Close())
}

// findHolder returns who has the seat and says that he can be reached. An announcement
// of another process than the one that has the lock is an old one.
func findHolder(base string) (holder, bool) {
	var h holder
	b, err := readSome(base+".addr", maxSmall)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return h, false
	}
	return h, h.PID != 0 && h.PID == lockPID(base)
}

// lockPID returns the process that locked the seat last, 0 if that is not known.
func lockPID(base string) int {
	b, err := readSome(base+".lock", maxSmall)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// writeFile writes a file whole or not at all, for its owner alone.
func writeFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
