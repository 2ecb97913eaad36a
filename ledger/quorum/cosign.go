package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// heads holds the newest tree head that a quorum has signed.
type heads struct {
	mu    sync.Mutex
	best  tree.Head
	moved chan struct{} // closed and replaced when best moves
}

func (h *heads) init(l *ledger.Ledger) {
	h.moved = make(chan struct{})
	if l.Head().Size == 0 {
		h.best = l.Head()
	}
}

func (h *heads) get() (tree.Head, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.best, h.moved
}

func (h *heads) set(head tree.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.best = head
	close(h.moved)
	h.moved = make(chan struct{})
}

// signTime is how long a head may wait for the others' signatures.
const signTime = 3 * time.Second

// Head returns a tree head that a quorum of keepers has signed, the one of now if they
// do so in time.
func (m *Member) Head(ctx context.Context) tree.Head {
	return m.signed(ctx, m.cfg.Ledger.Head().Size)
}

// HeadAt returns the tree head of a size that the log has reached, signed by a quorum.
func (m *Member) HeadAt(ctx context.Context, size uint64) (tree.Head, error) {
	own, err := m.cfg.Ledger.HeadAt(size)
	if err != nil {
		return own, err
	}
	head, ok := m.collect(ctx, own)
	if !ok {
		return head, fmt.Errorf("%w: no quorum of keepers signs a head of %d entries now", ErrNoLeader, size)
	}
	return head, nil
}

// signed returns a quorum's head of at least size, or the best there is.
func (m *Member) signed(ctx context.Context, size uint64) tree.Head {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	for {
		best, moved := m.heads.get()
		if best.Size >= size {
			return best
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return best
		}
	}
}

// Prove returns a proof of the entry at index under a head that a quorum has signed.
func (m *Member) Prove(ctx context.Context, index uint64) (tree.Proof, error) {
	if size := m.cfg.Ledger.Head().Size; index >= size {
		return tree.Proof{}, fmt.Errorf("%w: index %d of %d", ledger.ErrNotFound, index, size)
	}
	head := m.signed(ctx, index+1)
	if head.Size <= index {
		return tree.Proof{}, fmt.Errorf("%w: entry %d is under no tree head yet that a quorum of keepers has signed", ErrNoLeader, index)
	}
	return m.cfg.Ledger.ProveUnder(head, index)
}

// signPause gathers the batches of a moment under one head.
const signPause = 10 * time.Millisecond

// cosign has each new head signed by a quorum, until ctx ends.
func (m *Member) cosign(ctx context.Context) {
	for ctx.Err() == nil {
		grown, own := m.cfg.Ledger.Grown(), m.cfg.Ledger.Head()
		best, _ := m.heads.get()
		pause := signPause
		if own.Size > best.Size || best.Note == "" {
			if head, ok := m.collect(ctx, own); ok {
				m.heads.set(head)
			} else {
				pause = signTime / 10
			}
		} else {
			select {
			case <-grown:
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// A signRequest asks for a keeper's signature at a size.
type signRequest struct {
	Size uint64 `cbor:"1,keyasint"`
}

// A signReply brings it: a signed tree head, or none where the keeper is not there yet.
type signReply struct {
	Note string `cbor:"1,keyasint"`
}

// sign signs what this keeper has committed and applied, and nothing else: the ledger's
// size and root are on disk before its head says so.
func (m *Member) sign(ctx context.Context, q signRequest) signReply {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	if m.cfg.Ledger.Await(ctx, q.Size) != nil {
		return signReply{}
	}
	h, err := m.cfg.Ledger.HeadAt(q.Size)
	if err != nil {
		return signReply{}
	}
	return signReply{h.Note}
}

// collect asks the others for their signatures until they and ours are a quorum.
func (m *Member) collect(ctx context.Context, own tree.Head) (tree.Head, bool) {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	got := make(chan tree.Head)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	others := 0
	for _, k := range m.cfg.Mesh.Value.Keepers {
		if k.Key.ID() == m.id {
			continue
		}
		others++
		wg.Go(func() {
			h := m.signature(ctx, k, own)
			select {
			case got <- h:
			case <-ctx.Done():
			}
		})
	}
	all := own
	for range others {
		if head, err := tree.Open(all.Note, m.cfg.Mesh); err == nil {
			return head, true
		}
		select {
		case h := <-got:
			if h.Note == "" {
				continue
			}
			joined, err := tree.Join(all, h)
			if err != nil {
				m.conflict(own, h)
				continue
			}
			all = joined
		case <-ctx.Done():
			return all, false
		}
	}
	head, err := tree.Open(all.Note, m.cfg.Mesh)
	return head, err == nil
}

// signature is what keeper k signs at own's size: a verified head, or none.
func (m *Member) signature(ctx context.Context, k record.Member, own tree.Head) tree.Head {
	rep, err := call[signRequest, signReply](ctx, m, k.Key.ID(), forSign, signRequest{own.Size})
	if err != nil || rep.Note == "" {
		return tree.Head{}
	}
	only := m.cfg.Mesh
	only.Value.Keepers, only.Value.Quorum = []record.Member{k}, 1
	h, err := tree.Open(rep.Note, only)
	if err != nil || h.Size != own.Size {
		m.cfg.Log.Warn("quorum: a keeper's signature does not verify", "keeper", k.Key.ID().Short(), "err", err)
		return tree.Head{}
	}
	return h
}

// maxConflicts is how many pieces of evidence are kept.
const maxConflicts = 16

// conflict keeps two keepers' heads of one size with different roots: one of them lies
// or is damaged, and the two notes are the evidence, for whoever has both logs.
func (m *Member) conflict(ours, theirs tree.Head) {
	m.mu.Lock()
	m.conflicts++
	n := m.conflicts
	m.mu.Unlock()
	if n > maxConflicts {
		return
	}
	name := m.cfg.FS.PathJoin(m.dir, fmt.Sprintf("conflict.%d", ours.Size))
	err := writeFile(m.cfg.FS, m.dir, name, []byte(ours.Note+"\n"+theirs.Note))
	m.cfg.Log.Error("quorum: two keepers have signed different logs", "size", ours.Size, "evidence", name, "err", err)
}
