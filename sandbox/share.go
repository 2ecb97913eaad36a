package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"idlemesh/sandbox/frame"
)

// shareTimeout is how long a worker may take to give up what lies warm on the device.
const shareTimeout = 10 * time.Second

// enter waits until the device has room for a run with vram bytes of its memory in a
// tenant's worker, zero being all of it, and lets every worker know its share; leave ends
// it. Where workers have device memory of their own, nobody waits.
func (p *Pool) enter(ctx context.Context, pl *place, vram uint64) (leave func(), err error) {
	total := pl.w.hello.VRAM
	if total == 0 {
		return func() {}, nil
	}
	vram = min(cmp.Or(vram, total), total)
	for {
		p.mu.Lock()
		room := p.room
		free := p.leasedLocked() <= total-vram
		if free {
			pl.vram += vram
		}
		p.mu.Unlock()
		if free {
			break
		}
		select {
		case <-room:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	leave = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		pl.vram -= vram
		close(p.room)
		p.room = make(chan struct{})
	}
	if err := p.spread(ctx, total); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// leasedLocked is how much of the device's memory runs may have.
func (p *Pool) leasedLocked() (sum uint64) {
	for _, pl := range p.tenants {
		sum += pl.vram
	}
	return sum
}

// spread tells each worker what it may hold of the device's memory: what its runs may
// have, and for what lies warm an equal part of the rest. Who is to hold less, first; who
// was ended holds what he has until his process is gone.
func (p *Pool) spread(ctx context.Context, total uint64) error {
	select {
	case p.sharing <- struct{}{}:
		defer func() { <-p.sharing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, w := range p.dying() {
		select {
		case <-w.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	shares := p.shares(total)
	for _, less := range []bool{true, false} {
		for w, share := range shares {
			if share == w.share || share < w.share != less {
				continue
			}
			if err := w.tell(share); err != nil && less { // who is gone holds nothing
				w.end(err)
				<-w.gone
			}
		}
	}
	return nil
}

// dying lists the workers that were ended and whose processes have not.
func (p *Pool) dying() (all []*worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.alive {
		if w.isGone() {
			all = append(all, w)
		}
	}
	return all
}

func (p *Pool) shares(total uint64) map[*worker]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	shares := map[*worker]uint64{}
	for _, pl := range p.tenants {
		select {
		case <-pl.ready:
			if pl.w != nil && !pl.w.isGone() {
				shares[pl.w] = pl.vram
			}
		default:
		}
	}
	rest := total - min(total, p.leasedLocked())
	for w := range shares {
		shares[w] += rest / uint64(len(shares))
	}
	return shares
}

// tell tells a worker its share, and returns when it holds no more.
func (w *worker) tell(share uint64) error {
	if err := w.conn.Send(frame.TypeShare, 0, frame.Share{VRAM: share}); err != nil {
		return err
	}
	w.share = share
	late := time.NewTimer(shareTimeout)
	defer late.Stop()
	select {
	case <-w.shared:
		return nil
	case <-w.gone:
		return ErrWorkerLost
	case <-late.C:
		return fmt.Errorf("%w: it does not give up its share of the device", errLying)
	}
}
