// Package author writes one party's entries to the keepers: numbered without gaps in
// each stream, in order, and each exactly once whatever becomes of a reply.
//
// A ledger refuses an author's entries out of order, so whoever finds nobody
// writing numbers, signs and sends for all that wait. Where the keeper is, in this
// process or far away, makes no difference: an entry always goes by wire.Append.
package author

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// An Author is safe for concurrent use.
type Author struct {
	key     crypto.Signer
	keepers *wire.Keepers
	turn    chan struct{} // holds one token: whoever has put it in writes

	// next is the number that a stream goes on with, as far as is known; guarded by
	// turn. A keeper corrects a wrong one.
	next map[record.Ref]uint64

	mu    sync.Mutex
	queue []*draft
}

type draft struct {
	entry record.Entry
	tries int
	done  chan outcome
}

type outcome struct {
	at  Place
	err error
}

// A Place is where an entry stands.
type Place struct {
	Index uint64
	Time  record.Millis // ledger time
	Known bool          // it stood there already
	Size  uint64        // of the log when it answered
	Root  record.Ref    // of its tree
	// Promise is the keeper's word for it, a record.Signed[tree.Promise] not yet verified.
	Promise record.Raw
}

const (
	answer = 10 * time.Second // that the keepers have

	maxBatch  = 256  // entries in one request
	maxTries  = 8    // corrections of one entry's number
	maxStream = 4096 // streams whose number is remembered
)

func idOf(key crypto.Signer) record.NodeID {
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return record.NodeID{} // signing says so
	}
	return record.IDOf(pub)
}

// New returns an author that signs with key and writes to a keeper of m.
func New(key crypto.Signer, o wire.Opener, m record.Mesh) *Author {
	return &Author{key: key, keepers: wire.KeepersOf(m, o, idOf(key)), turn: make(chan struct{}, 1), next: map[record.Ref]uint64{}}
}

// Append returns where e stands once it is durable. The author fills in V and Seq;
// e.Idem makes a second Append of the same entry the same entry. A refusal is a
// *wire.Error; after wire.Unavailable, or when ctx ended, the entry's fate is unknown:
// append it again.
func (a *Author) Append(ctx context.Context, e record.Entry) (Place, error) {
	e.V = 1
	d := &draft{entry: e, done: make(chan outcome, 1)}
	a.mu.Lock()
	a.queue = append(a.queue, d)
	a.mu.Unlock()
	for {
		select {
		case a.turn <- struct{}{}:
			a.write(context.WithoutCancel(ctx))
			<-a.turn
		case o := <-d.done:
			return o.at, o.err
		case <-ctx.Done():
			return Place{}, context.Cause(ctx)
		}
	}
}

// write sends what waits, and again what a keeper asked to be renumbered.
func (a *Author) write(ctx context.Context) {
	a.mu.Lock()
	drafts := a.queue[:min(len(a.queue), maxBatch)]
	a.queue = a.queue[len(drafts):]
	a.mu.Unlock()
	for len(drafts) > 0 {
		rep, err := a.send(ctx, drafts)
		if err != nil {
			for _, d := range drafts {
				d.done <- outcome{err: err}
			}
			return
		}
		drafts = a.tell(drafts, rep)
	}
}

func (a *Author) send(ctx context.Context, drafts []*draft) (rep wire.Appended, err error) {
	if len(a.next) > maxStream {
		clear(a.next)
	}
	ahead := map[record.Ref]uint64{}
	req := wire.AppendRequest{Entries: make([]record.Raw, len(drafts))}
	for _, d := range drafts {
		d.entry.Seq = a.next[d.entry.Stream] + ahead[d.entry.Stream]
		ahead[d.entry.Stream]++
	}
	if err := a.sign(drafts, req.Entries); err != nil {
		return rep, err
	}
	rep, err = a.call(ctx, req)
	if err == nil && len(rep.Results) != len(drafts) {
		err = errors.New("append: the keeper answered for other entries")
	}
	return rep, err
}

// call gives the keepers so long for an answer: those who wait behind must not wait for
// one that is gone. An entry that two of them got stands once, by its key.
func (a *Author) call(ctx context.Context, req wire.AppendRequest) (wire.Appended, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answer, wire.Refuse(wire.Unavailable, "append: the keepers do not answer"))
	defer cancel()
	return wire.Ask(ctx, a.keepers, wire.Append, req)
}

// sign fills raws in parallel: a signature costs as much as everything else here.
func (a *Author) sign(drafts []*draft, raws []record.Raw) error {
	var wg sync.WaitGroup
	errs := make([]error, len(drafts))
	for i, d := range drafts {
		one := func() {
			s, err := record.Sign(a.key, d.entry)
			raws[i], errs[i] = s.Raw(), err
		}
		if i == len(drafts)-1 {
			one()
		} else {
			wg.Go(one)
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// tell gives each draft its outcome and returns those to be numbered anew.
func (a *Author) tell(drafts []*draft, rep wire.Appended) (again []*draft) {
	seen := map[record.Ref]bool{}
	for i, d := range drafts {
		r, stream := rep.Results[i], d.entry.Stream
		if !seen[stream] { // those behind it may be wrong for its sake alone
			d.tries++
			seen[stream] = true
		}
		switch {
		case r.Err != nil && r.Want != nil && d.tries < maxTries:
			a.next[stream] = *r.Want
			again = append(again, d)
		case r.Err != nil:
			d.done <- outcome{err: r.Err}
		default:
			if !r.Known {
				a.next[stream] = d.entry.Seq + 1
			}
			d.done <- outcome{at: Place{Index: r.Index, Time: r.Time, Known: r.Known, Size: rep.Size, Root: rep.Root, Promise: rep.Promise}}
		}
	}
	return again
}
