package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"idlemesh/ledger/record"
)

// Serve answers one stream; it is a mesh.Handler. A peer reads and writes what
// Config.May allows; whether a blob is here he learns only if he may read it.
func (s *Store) Serve(ctx context.Context, from record.NodeID, c io.ReadWriteCloser) {
	l := newLink(ctx, c, s.cfg.Stall)
	defer l.Close()
	q, err := readRequest(l)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			_ = writeFrame(l, answer{Status: refused, Text: err.Error()}) // he may be gone
		}
		return
	}
	if q.Op == opGet {
		s.serveGet(from, l, q.Offers[0])
		return
	}
	s.servePut(ctx, from, l, q.Offers)
}

func (s *Store) serveGet(from record.NodeID, l *link, o offer) {
	if !s.cfg.May(from, o.Ref, false) {
		_ = writeFrame(l, answer{Status: denied})
		return
	}
	r, err := s.Get(o.Ref)
	if err != nil {
		_ = writeFrame(l, answer{Status: statusOf(err)})
		return
	}
	defer r.Close()
	if o.From > groupsOf(r.size) {
		_ = writeFrame(l, answer{Status: refused, Text: fmt.Sprintf("no group %d in a blob of %d bytes", o.From, r.size)})
		return
	}
	if err := writeFrame(l, answer{Size: r.size}); err != nil {
		return
	}
	// A peer who sees the stream end early asks again, or asks another.
	_ = send(l, r, o.From, ignore)
}

// servePut takes what is offered and not here. Transfers of one blob at a time: who
// offers a second waits for the first, as long as a stream may stand still.
func (s *Store) servePut(ctx context.Context, from record.NodeID, l *link, offers []offer) {
	p := intake{s: s, l: l}
	defer p.end()
	a := answer{Fates: make([]fate, len(offers))}
	for i, o := range offers {
		f, err := p.admit(ctx, from, o)
		if err != nil {
			_ = writeFrame(l, answer{Status: statusOf(err), Text: err.Error()})
			return
		}
		a.Fates[i] = f
	}
	if err := writeFrame(l, a); err != nil || len(p.want) == 0 {
		return
	}
	if err := p.take(); err != nil {
		_ = writeFrame(l, answer{Status: statusOf(err), Text: text(err)})
		return
	}
	_ = writeFrame(l, answer{})
}

// text is what a stranger is told of an error: nothing of this machine.
func text(err error) string {
	if errors.Is(err, errBytes) {
		return errBytes.Error()
	}
	return "the blobs could not be stored"
}

// An intake is what comes of one put.
type intake struct {
	s    *Store
	l    *link
	want []offer
	ends map[record.Ref]func()
	recs []rec // small blobs, not yet written
	n    int64 // their bytes
}

// admit decides about one offer.
func (p *intake) admit(ctx context.Context, from record.NodeID, o offer) (fate, error) {
	s := p.s
	switch {
	case !s.cfg.May(from, o.Ref, true):
		return fate{Status: denied}, nil
	case o.Size > s.cfg.MaxBlob:
		return fate{Status: noRoom}, nil
	case p.ends[o.Ref] != nil: // named twice
		return fate{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Stall)
	defer cancel()
	for {
		if s.holds(o.Ref) {
			return fate{}, nil
		}
		if o.Size <= small {
			break // so little may as well come twice
		}
		end, err := s.begin(ctx, o.Ref)
		if err != nil {
			return fate{}, errors.New("another is sending this blob; try again")
		}
		if end != nil {
			if p.ends == nil {
				p.ends = map[record.Ref]func(){}
			}
			p.ends[o.Ref] = end
			o.From = s.partOf(o.Ref) / group
			break
		}
	}
	if !s.cfg.Room(from, o.Ref, o.Size) {
		return fate{Status: overQuota}, nil
	}
	p.want = append(p.want, o)
	return fate{wanted, o.From}, nil
}

func (p *intake) end() {
	for _, end := range p.ends {
		end()
	}
}

// take stores what was wanted, in its order; small blobs share a sync.
func (p *intake) take() error {
	for _, o := range p.want {
		if o.Size > small {
			if err := p.takeLarge(o); err != nil {
				return err
			}
			continue
		}
		b, err := receiveSmall(p.l, o.Ref, o.Size)
		if err != nil {
			return err
		}
		p.recs = append(p.recs, rec{ref: o.Ref, data: b})
		if p.n += o.Size + recHead; p.n >= group {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return p.flush()
}

func (p *intake) flush() error {
	err := p.s.putSmall(p.recs, true)
	p.recs, p.n = nil, 0
	return err
}

func (p *intake) takeLarge(o offer) error {
	select { // each holds a group in memory
	case p.s.intakes <- struct{}{}:
		defer func() { <-p.s.intakes }()
	case <-time.After(p.s.cfg.Stall):
		return errors.New("too many are sending")
	}
	leaves, err := receiveLeaves(p.l, o.Ref, o.Size)
	if err != nil {
		return err
	}
	d, err := p.s.resume(o.Ref, o.Size)
	if err != nil {
		return err
	}
	defer d.discard()
	if err := p.s.trim(d, leaves); err != nil {
		return err // the next push begins where the good groups end
	}
	if d.have/group != o.From {
		return fmt.Errorf("what came before was dropped; push again")
	}
	return p.s.receive(p.l, d, leaves, o.Size, ignore)
}
