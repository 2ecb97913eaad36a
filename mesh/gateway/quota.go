package gateway

import (
	"fmt"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// A shelf is what this node keeps for one account: what it has uploaded, and what its
// jobs name and have left, each blob once. Credits that come back cost nothing, so money
// is no bound of what an account may fill the disk with.
type shelf struct {
	bytes int64
	lots  map[record.Ref]lot
}

type lot struct {
	size  int64
	until record.Millis
}

// uploadFor is how long, in milliseconds, an upload counts that no job names.
const uploadFor = 3_600_000

// spare is what a lease lets its provider send beside the outputs: log and manifest.
const spare = 64 << 20 // bytes

func (s *shelf) put(ref record.Ref, size int64, until record.Millis) {
	l := s.lots[ref]
	s.bytes += max(size-l.size, 0)
	s.lots[ref] = lot{max(l.size, size), max(l.until, until)}
}

func (s *shelf) drop(ref record.Ref) {
	s.bytes -= s.lots[ref].size
	delete(s.lots, ref)
}

// more is how much the list adds.
func (s *shelf) more(list []record.Blob) (n int64) {
	seen := map[record.Ref]bool{}
	for _, b := range list {
		if _, known := s.lots[b.Ref]; !known && !seen[b.Ref] {
			seen[b.Ref] = true
			n += int64(min(b.Size, 1<<40)) // what is here is smaller
		}
	}
	return n
}

func (g *Gateway) shelfLocked(who record.NodeID) *shelf {
	s := g.shelves[who]
	if s == nil {
		s = &shelf{lots: map[record.Ref]lot{}}
		g.shelves[who] = s
	}
	return s
}

// shelveLocked counts blobs against an account until then.
func (g *Gateway) shelveLocked(who record.NodeID, until record.Millis, list ...record.Blob) {
	if until < g.now() {
		return
	}
	s := g.shelfLocked(who)
	for _, b := range list {
		if b.Size > 0 {
			s.put(b.Ref, int64(b.Size), until)
		}
	}
}

// handedLocked moves what a provider has handed over from his account to the tenant's.
func (g *Gateway) handedLocked(provider, tenant record.NodeID, until record.Millis, list []record.Blob) {
	if s := g.shelves[provider]; s != nil && provider != tenant {
		for _, b := range list {
			s.drop(b.Ref)
		}
	}
	g.shelveLocked(tenant, until, list...)
}

// clearLocked forgets what is no longer kept.
func (g *Gateway) clearLocked(now record.Millis) {
	for who, s := range g.shelves {
		for ref, l := range s.lots {
			if l.until < now {
				s.drop(ref)
			}
		}
		if len(s.lots) == 0 {
			delete(g.shelves, who)
		}
	}
}

// MayStore reports whether an account that may upload may send so much more, and counts
// it. A provider may beside his own share send what his leases leave.
func (g *Gateway) MayStore(peer record.NodeID, ref record.Ref, size int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, most := g.shelfLocked(peer), g.cfg.Quota
	for _, l := range g.leases {
		if l.node == peer {
			most += l.room
		}
	}
	if _, known := s.lots[ref]; !known && size > most-s.bytes {
		return false
	}
	s.put(ref, size, g.now()+uploadFor)
	return true
}

// fits refuses a job whose blobs are more than its tenant may have here.
func (g *Gateway) fits(tenant record.NodeID, body record.Body) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shelfLocked(tenant)
	if n := s.bytes + s.more(body.Blobs()); n > g.cfg.Quota {
		return &wire.Error{Code: wire.Funds, Text: fmt.Sprintf("submit: %d bytes of this account would be kept here, at most %d are", n, g.cfg.Quota),
			Next: "use smaller inputs, or wait until the --retention of earlier jobs is over"}
	}
	return nil
}
