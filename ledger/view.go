package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// A view reads states by key. It is the rules' account.State and tlog's HashReader.
type view struct {
	mesh record.Mesh
	// get returns the value, or nil when there is none.
	get func(key []byte) ([]byte, error)
}

// getFrom returns a copy of key's value, or nil.
func getFrom(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(v)), v...)
	return out, closer.Close()
}

func (v view) Mesh() record.Mesh { return v.mesh }

func (v view) Balance(id account.ID) (b account.Balance, err error) {
	p, err := v.get(accountKey(stateBalance, id))
	if err != nil || p == nil {
		return b, err
	}
	return b, b.UnmarshalBinary(p)
}

func (v view) Job(r record.Ref) (j account.Job, err error) {
	return j, v.decode(key(stateJob, r[:]), &j)
}

func (v view) Task(t account.Task) (s account.TaskState, err error) {
	return s, v.decode(taskKey(t), &s)
}

func (v view) Lease(r record.Ref) (l account.Lease, err error) {
	return l, v.decode(key(stateLease, r[:]), &l)
}

func (v view) Deposited(external string) (bool, error) {
	p, err := v.get(depositKey(external))
	return p != nil, err
}

func (v view) Minted(day uint32) (record.Amount, error) {
	n, err := v.number(key(stateMinted, u32(day)))
	return record.Amount(n), err
}

func (v view) Fact(n account.Name, into any) error { return v.decode(factKey(n), into) }

// nextSeq is the number that a stream of by goes on with.
func (v view) nextSeq(by record.NodeID, stream record.Ref) (uint64, error) {
	return v.number(key(stateSeq, by[:], stream[:]))
}

// idem returns what the author has written under an idempotency key.
func (v view) idem(by record.NodeID, idem record.Ref) (index uint64, body record.Ref, known bool, err error) {
	p, err := v.get(key(keyIdem, by[:], idem[:]))
	if err != nil || p == nil {
		return 0, body, false, err
	}
	if len(p) != 40 {
		return 0, body, false, corrupt("idempotency key", p)
	}
	return binary.BigEndian.Uint64(p), record.Ref(p[8:]), true, nil
}

// ReadHashes implements tlog.HashReader.
func (v view) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, n := range at {
		p, err := v.get(key(keyHash, u64(uint64(n))))
		if err != nil {
			return nil, err
		}
		if len(p) != tlog.HashSize {
			return nil, corrupt("tree hash", p)
		}
		out[i] = tlog.Hash(p)
	}
	return out, nil
}

func (v view) number(k []byte) (uint64, error) {
	p, err := v.get(k)
	if err != nil || p == nil {
		return 0, err
	}
	if len(p) != 8 {
		return 0, corrupt("number", p)
	}
	return binary.BigEndian.Uint64(p), nil
}

func (v view) decode(k []byte, into any) error {
	p, err := v.get(k)
	if err != nil || p == nil {
		return err
	}
	if err := record.Decode(p, into); err != nil {
		return fmt.Errorf("%w: state: %w", ErrCorrupt, err)
	}
	return nil
}

// leaf returns the leaf at an index, and its bytes.
func (v view) leaf(index uint64) (l record.Leaf, raw []byte, err error) {
	raw, err = v.get(key(keyEntry, u64(index)))
	if err != nil {
		return l, nil, err
	}
	if raw == nil {
		return l, nil, fmt.Errorf("%w: entry %d is missing", ErrCorrupt, index)
	}
	if err := record.Decode(raw, &l); err != nil {
		return l, nil, fmt.Errorf("%w: entry %d: %w", ErrCorrupt, index, err)
	}
	return l, raw, nil
}

func corrupt(what string, v []byte) error {
	return fmt.Errorf("%w: a %s of %d bytes", ErrCorrupt, what, len(v))
}
