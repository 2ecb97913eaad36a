package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
)

// A debt is outputs that their provider was paid for and that this node had no room for.
// They lie with him for as long as they are to be kept.
type debt struct {
	job     *job
	receipt record.Receipt
	from    record.NodeID
	until   record.Millis
}

const (
	maxDebts   = 10_000
	collecting = 10 * time.Minute // that fetching one may take
)

// keepManifest stores what a receipt says the task left, once all of it is here, and
// lets the tenant fetch it. That this node has no room is no fault of the provider's: he
// is paid, and the outputs are fetched when there is some.
func (g *Gateway) keepManifest(ctx context.Context, j *job, c carried, r record.Receipt, sealed []byte) error {
	if r.Outputs == (record.Ref{}) {
		return nil
	}
	d := debt{j, r, c.lease.Value.Bid.By(), (g.now() + c.terms.Retention).WholeHour()}
	if len(sealed) == 0 { // a large one was pushed like an output
		err := g.fetch(ctx, d.from, record.Blob{Ref: r.Outputs})
		if errors.Is(err, blob.ErrFull) {
			g.owe(d, err)
			return nil
		}
		if err == nil {
			sealed, err = g.cfg.Blobs.Bytes(r.Outputs, maxManifest)
		}
		if err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
	}
	if blob.Sum(sealed) != r.Outputs {
		return lie("the manifest is not the one that it names")
	}
	m, err := g.openManifest(sealed)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	size, short := g.sizes(ctx, d.from, m)
	if err := c.checkManifest(m, size); err != nil {
		return err
	}
	if short == nil {
		_, short = g.cfg.Blobs.PutAll(d.until, sealed)
	}
	if short == nil {
		short = g.cfg.Blobs.PinAll(d.until, append(refsOf(outputs(m)), r.Outputs)...)
	}
	g.grantOutputs(j, r, m, d.until)
	if short != nil {
		g.owe(d, short)
	}
	return nil
}

// sizes returns how long each output is that is here, after it has fetched the others.
// Where there is no room for one, which short says, the manifest is believed.
func (g *Gateway) sizes(ctx context.Context, from record.NodeID, m record.Manifest) (size func(record.Ref) (int64, bool), short error) {
	believed := map[record.Ref]int64{}
	for _, b := range outputs(m) {
		if _, here := g.cfg.Blobs.Size(b.Ref); here {
			continue
		}
		err := short
		if err == nil {
			err = g.fetch(ctx, from, b)
		}
		if errors.Is(err, blob.ErrFull) {
			short, believed[b.Ref] = err, int64(b.Size)
		}
	}
	return func(ref record.Ref) (int64, bool) {
		if n, ok := believed[ref]; ok {
			return n, true
		}
		return g.cfg.Blobs.Size(ref)
	}, short
}

// fetch brings a blob here that its provider has not pushed.
func (g *Gateway) fetch(ctx context.Context, from record.NodeID, b record.Blob) error {
	if _, here := g.cfg.Blobs.Size(b.Ref); here {
		return nil
	}
	size := int64(b.Size)
	if size == 0 {
		size = -1
	}
	return g.cfg.Blobs.Fetch(ctx, b.Ref, size, nil, from)
}

func (g *Gateway) owe(d debt, why error) {
	g.cfg.Log.Warn("outputs are left with their provider", "job", d.job.ref.JobID(), "node", d.from.Short(), "err", why)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.debts) < maxDebts {
		g.debts = append(g.debts, d)
	}
}

// collectLocked tries again to fetch what is owed.
func (g *Gateway) collectLocked(now record.Millis) {
	debts := g.debts
	if g.debts = nil; len(debts) == 0 || !g.openLocked() {
		return
	}
	g.spawnLocked(func(ctx context.Context) {
		for i, d := range debts {
			if d.until < now {
				continue
			}
			err := g.collect(ctx, d)
			switch {
			case err == nil:
			case errors.Is(err, blob.ErrFull), ctx.Err() != nil: // so it is for the others
				g.mu.Lock()
				g.debts = append(g.debts, debts[i:]...)
				g.mu.Unlock()
				return
			default:
				g.owe(d, err)
			}
		}
	})
}

func (g *Gateway) collect(ctx context.Context, d debt) error {
	ctx, cancel := context.WithTimeout(ctx, collecting)
	defer cancel()
	if err := g.fetch(ctx, d.from, record.Blob{Ref: d.receipt.Outputs}); err != nil {
		return err
	}
	m, err := g.readManifest(d.receipt.Outputs)
	if err != nil {
		return err
	}
	for _, b := range outputs(m) {
		if err := g.fetch(ctx, d.from, b); err != nil {
			return err
		}
	}
	if err := g.cfg.Blobs.PinAll(d.until, append(refsOf(outputs(m)), d.receipt.Outputs)...); err != nil {
		return err
	}
	g.grantOutputs(d.job, d.receipt, m, d.until)
	return nil
}
