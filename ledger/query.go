package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// A Query selects entries; its zero value selects all. Several fields select what
// fits each of them.
type Query struct {
	Account record.NodeID // a party whose balances the entry moved; fills Row.Moves
	Author  record.NodeID // who signed the entry
	Node    record.NodeID // the provider of its lease
	Job     record.Ref
	Lease   record.Ref
	Hash    record.Ref // of the signed entry
	Kind    record.EntryType
	Since   record.Millis // ledger time, inclusive
	Until   record.Millis // ledger time, exclusive; zero means no end
	From    uint64        // index, inclusive: the first to yield, or the last if Reverse and not zero
	Size    uint64        // of the log that is asked about; zero means all there is
	Limit   int           // rows; zero means all
	Reverse bool          // newest first
	// Whole takes the escrows of Account's jobs for his, and adds what an entry did to the
	// mesh's own accounts, so that only other parties are left out of Row.Moves.
	Whole bool
}

// A Row is an entry and its place.
type Row struct {
	Index uint64
	Time  record.Millis
	Entry record.Raw // a record.Signed[record.Entry], verified when it was appended
	Leaf  []byte     // what the tree hashes: an encoded record.Leaf
	Moves []account.Changed
	Role  account.Role // of the query's Account
	Job   record.Ref   // that the entry is about, if the query is Whole
}

// Query yields the entries of q in order, as of the head when it began. It stops at the
// first error and when ctx ends.
func (l *Ledger) Query(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		release, err := l.hold()
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer release()
		snap := l.db.NewSnapshot()
		defer snap.Close()
		size := l.Head().Size
		if q.Size > 0 {
			size = min(size, q.Size)
		}
		s := search{q: q, r: snap, size: size, view: view{get: func(k []byte) ([]byte, error) { return getFrom(snap, k) }}}
		left := false // by the caller, who must hear of nothing then
		err = s.run(ctx, func(row Row, err error) bool {
			left = !yield(row, err)
			return !left
		})
		if err = cmp.Or(err, s.close()); err != nil && !left {
			yield(Row{}, l.guard.read(err))
		}
	}
}

// Entry returns the entry at an index.
func (l *Ledger) Entry(index uint64) (Row, error) {
	for row, err := range l.Query(context.Background(), Query{From: index, Limit: 1}) {
		return row, err
	}
	return Row{}, fmt.Errorf("%w: index %d", ErrNotFound, index)
}

// Follow yields the entries of q in order, waiting for new ones until ctx ends or the
// ledger is closed. It ignores q's Reverse, Size and Limit.
func (l *Ledger) Follow(ctx context.Context, q Query) iter.Seq2[Row, error] {
	q.Reverse, q.Limit = false, 0
	return func(yield func(Row, error) bool) {
		for {
			l.mu.RLock()
			grown, closed := l.grown, l.closed
			q.Size = l.head.Size
			l.mu.RUnlock()
			if closed || ctx.Err() != nil {
				return
			}
			if q.From < q.Size {
				for row, err := range l.Query(ctx, q) {
					if ctx.Err() != nil || !yield(row, err) || err != nil {
						return
					}
				}
				q.From = q.Size
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Prove returns a proof that the entry at index stands in the log under the signed head.
func (l *Ledger) Prove(index uint64) (p tree.Proof, err error) {
	head := l.Signed()
	if head.Note == "" {
		return p, ErrReadOnly
	}
	return l.ProveUnder(head, index)
}

// Receipt returns the proof of an entry as a COSE Receipt, which the keeper signs.
func (l *Ledger) Receipt(index uint64) ([]byte, error) {
	if l.key == nil {
		return nil, ErrReadOnly
	}
	p, err := l.Prove(index)
	if err != nil {
		return nil, err
	}
	return tree.SignReceipt(l.key, l.mesh, p)
}

// ProveUnder returns a proof under an older head of this log, such as one that other
// keepers have signed too.
func (l *Ledger) ProveUnder(head tree.Head, index uint64) (p tree.Proof, err error) {
	release, err := l.hold()
	if err != nil {
		return p, err
	}
	defer release()
	switch {
	case head.Size > l.Head().Size:
		return p, fmt.Errorf("%w: a head of %d entries, the log has %d", ErrNotFound, head.Size, l.Head().Size)
	case index >= head.Size:
		return p, fmt.Errorf("%w: index %d of %d", ErrNotFound, index, head.Size)
	}
	v := l.view()
	leaf, err := v.get(key(keyEntry, u64(index)))
	if err != nil {
		return p, l.guard.read(err)
	}
	path, err := tlog.ProveRecord(int64(head.Size), int64(index), v)
	if err != nil {
		return p, l.guard.read(err)
	}
	p = tree.Proof{Index: index, Leaf: leaf, Head: head, Path: make([]record.Ref, len(path))}
	for i, h := range path {
		p.Path[i] = record.Ref(h)
	}
	return p, nil
}

// A search is one query's walk over the narrowest index, each row checked against the
// others.
type search struct {
	view
	q    Query
	r    pebble.Reader
	size uint64

	history *pebble.Iterator // of balances, once one was asked for
}

// filters are the index prefixes that a row must stand under, the narrowest first.
func (q Query) filters() (out [][]byte) {
	add := func(on bool, prefix string, id []byte) {
		if on {
			out = append(out, key(prefix, id))
		}
	}
	add(q.Lease != record.Ref{}, keyLease, q.Lease[:])
	add(q.Job != record.Ref{}, keyJob, q.Job[:])
	add(q.Node != record.NodeID{}, keyNode, q.Node[:])
	add(q.Author != record.NodeID{}, keyNode, q.Author[:])
	add(q.Account != record.NodeID{}, keyNode, q.Account[:])
	add(q.Kind != 0, keyKind, []byte{byte(q.Kind >> 8), byte(q.Kind)})
	return append(out, []byte(keyEntry))
}

func (s *search) run(ctx context.Context, yield func(Row, error) bool) error {
	lo, hi, err := s.bounds()
	if err != nil || lo >= hi {
		return err
	}
	all := s.q.filters()
	it, err := s.r.NewIter(&pebble.IterOptions{LowerBound: key("", all[0], u64(lo)), UpperBound: key("", all[0], u64(hi))})
	if err != nil {
		return err
	}
	step, left := it.Next, cmp.Or(s.q.Limit, math.MaxInt)
	ok := false
	if s.q.Reverse {
		step, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	for ; ok && left > 0 && ctx.Err() == nil; ok = step() {
		index := binary.BigEndian.Uint64(it.Key()[len(all[0]):])
		row, fits, err := s.row(index, all[1:])
		if err != nil {
			return cmp.Or(err, it.Close())
		}
		if !fits {
			continue
		}
		if left--; !yield(row, nil) {
			return it.Close()
		}
	}
	return cmp.Or(it.Error(), it.Close(), context.Cause(ctx))
}

func (s *search) close() error {
	if s.history == nil {
		return nil
	}
	return s.history.Close()
}

// bounds turns times, hash and From into indexes.
func (s *search) bounds() (lo, hi uint64, err error) {
	hi = s.size
	if s.q.Reverse && s.q.From > 0 {
		hi = min(hi, s.q.From+1)
	} else {
		lo = s.q.From
	}
	if s.q.Since > 0 {
		at, err := s.firstIn(s.q.Since)
		if err != nil {
			return 0, 0, err
		}
		lo = max(lo, at)
	}
	if s.q.Until > 0 {
		at, err := s.firstIn(s.q.Until + 59_999) // the minute after: row looks closer
		if err != nil {
			return 0, 0, err
		}
		hi = min(hi, at)
	}
	if s.q.Hash != (record.Ref{}) {
		p, err := s.get(key(keyRef, s.q.Hash[:]))
		if err != nil || len(p) != 8 {
			return 0, 0, err
		}
		at := binary.BigEndian.Uint64(p)
		lo, hi = max(lo, at), min(hi, at+1)
	}
	return lo, hi, nil
}

// firstIn returns the first index of t's minute or later.
func (s *search) firstIn(t record.Millis) (uint64, error) {
	it, err := s.r.NewIter(&pebble.IterOptions{LowerBound: key(keyMinute, u64(uint64(t)/60_000)), UpperBound: after(keyMinute)})
	if err != nil {
		return 0, err
	}
	at := s.size
	if it.First() {
		at = binary.BigEndian.Uint64(it.Key()[len(it.Key())-8:])
	}
	return at, cmp.Or(it.Error(), it.Close())
}

// row reads the entry at index and reports whether it fits the other filters.
func (s *search) row(index uint64, others [][]byte) (row Row, fits bool, err error) {
	at := u64(index)
	for _, prefix := range others {
		if bytes.Equal(prefix, []byte(keyEntry)) {
			continue
		}
		if there, err := s.has(key("", prefix, at)); err != nil || !there {
			return row, false, err
		}
	}
	for _, want := range [...]account.Party{{ID: s.q.Node, Role: account.Seller}, {ID: s.q.Author, Role: account.Author}} {
		if ok, err := s.plays(want, at); err != nil || !ok {
			return row, false, err
		}
	}
	row.Index = index
	leaf, raw, err := s.leaf(index)
	row.Time, row.Entry, row.Leaf = leaf.Time, leaf.Entry, raw
	if err != nil || row.Time < s.q.Since || s.q.Until > 0 && row.Time >= s.q.Until {
		return row, false, err
	}
	if s.q.Account == (record.NodeID{}) {
		return row, true, nil
	}
	row.Moves, err = s.moves(s.q.Account, index)
	if err == nil {
		row.Role, err = s.role(s.q.Account, at)
	}
	if err == nil && s.q.Whole {
		err = s.whole(&row)
	}
	return row, len(row.Moves) > 0, err
}

// whole adds what an entry did to the escrow of the account's job and, if it did
// anything, to the mesh's accounts.
func (s *search) whole(row *Row) error {
	e, err := record.Open[record.Entry](row.Entry)
	if err != nil {
		return fmt.Errorf("%w: entry %d: %w", ErrCorrupt, row.Index, err)
	}
	if row.Job, err = s.about(e.Value); err != nil {
		return err
	}
	owners := []record.NodeID{record.NodeID(row.Job), {}}
	if row.Job == (record.Ref{}) || row.Role&account.Payer == 0 {
		owners = owners[1:]
	}
	for _, owner := range owners {
		if owner == (record.NodeID{}) && len(row.Moves) == 0 {
			return nil
		}
		more, err := s.moves(owner, row.Index)
		if err != nil {
			return err
		}
		row.Moves = append(row.Moves, more...)
	}
	return nil
}

// about returns the job of an entry, zero where it has none.
func (s *search) about(e record.Entry) (record.Ref, error) {
	switch {
	case e.Stream != record.Ref{}:
		return e.Stream, nil // a stream that is not the author's account is the job
	case e.Job != nil:
		return e.Job.Ref(), nil
	case e.Lease != nil:
		return e.Lease.Value.Job, nil
	case e.Settle != nil:
		return e.Settle.Receipt.Value.Job, nil
	case e.Close != nil:
		return e.Close.Job, nil
	case e.Cancel != nil:
		return e.Cancel.Value.Job, nil
	case e.TopUp != nil:
		return e.TopUp.Job, nil
	case e.Voucher != nil:
		l, err := s.Lease(e.Voucher.Value.Lease)
		return l.Job, err
	case e.Cut != nil:
		l, err := s.Lease(e.Cut.Lease)
		return l.Job, err
	}
	return record.Ref{}, nil
}

func (s *search) has(k []byte) (bool, error) {
	_, closer, err := s.r.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// plays reports whether a party, if one is asked for, has its role in the entry.
func (s *search) plays(want account.Party, at []byte) (bool, error) {
	if want.ID == (record.NodeID{}) {
		return true, nil
	}
	role, err := s.role(want.ID, at)
	return role&want.Role != 0, err
}

// role returns what a party is in the entry at an index.
func (s *search) role(id record.NodeID, at []byte) (account.Role, error) {
	p, err := s.get(key(keyNode, id[:], at))
	if err != nil || p == nil {
		return 0, err
	}
	if len(p) != 1 {
		return 0, corrupt("role", p)
	}
	return account.Role(p[0]), nil
}

// moves returns what the entry did to a party's accounts.
func (s *search) moves(owner record.NodeID, index uint64) (out []account.Changed, err error) {
	if s.history == nil {
		if s.history, err = s.r.NewIter(&pebble.IterOptions{LowerBound: []byte(keyBalance), UpperBound: after(keyBalance)}); err != nil {
			return nil, err
		}
	}
	for k := account.Tenant; k <= account.Mint; k++ {
		c := account.Changed{Account: account.ID{Kind: k, Owner: owner}}
		if there, err := changedAt(s.history, &c, index); err != nil {
			return nil, err
		} else if there {
			out = append(out, c)
		}
	}
	return out, s.history.Error()
}

// changedAt fills c's balances if the entry at index changed its account.
func changedAt(history *pebble.Iterator, c *account.Changed, index uint64) (there bool, err error) {
	prefix := accountKey(keyBalance, c.Account)
	at := append(bytes.Clone(prefix), u64(index)...)
	if !history.SeekGE(at) || !bytes.Equal(history.Key(), at) {
		return false, nil
	}
	if err := c.After.UnmarshalBinary(history.Value()); err != nil {
		return false, err
	}
	if history.Prev() && bytes.HasPrefix(history.Key(), prefix) {
		err = c.Before.UnmarshalBinary(history.Value())
	}
	return true, err
}

// balances returns an account's last two balances in a log of size.
func balances(r pebble.Reader, id account.ID, size uint64) (before, now account.Balance, err error) {
	prefix := accountKey(keyBalance, id)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: append(bytes.Clone(prefix), u64(size)...)})
	if err != nil {
		return before, now, err
	}
	if it.Last() {
		err = now.UnmarshalBinary(it.Value())
		if err == nil && it.Prev() {
			err = before.UnmarshalBinary(it.Value())
		}
	}
	return before, now, cmp.Or(err, it.Error(), it.Close())
}

// An Account is an account's balance at one moment.
type Account struct {
	ID      account.ID
	Balance account.Balance
}

// Accounts returns the accounts of a party, or of the mesh itself for the zero party,
// that had ever moved in the log of size; zero means now.
func (l *Ledger) Accounts(owner record.NodeID, size uint64) (out []Account, err error) {
	release, err := l.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	if head := l.Head().Size; size == 0 || size > head {
		size = head
	}
	for k := account.Tenant; k <= account.Mint; k++ {
		id := account.ID{Kind: k, Owner: owner}
		_, now, err := balances(l.db, id, size)
		if err != nil {
			return nil, l.guard.read(err)
		}
		if now != (account.Balance{}) {
			out = append(out, Account{id, now})
		}
	}
	return out, nil
}
