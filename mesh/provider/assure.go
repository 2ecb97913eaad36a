package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/wire"
)

const (
	// unassured is how long a run goes on before its lease is looked for: most are over
	// by then, and lose nothing worth a question.
	unassured = time.Second
	// doubt is how long a run goes on whose lease the log has not.
	doubt = 30 * time.Second
)

// errUnpaid is why a run ends whose lease the log does not have.
var errUnpaid = errors.New("its lease is not in the ledger: nobody would pay for it")

// assured does what do says while it looks for the lease in the log.
func (p *Provider) assured(ctx context.Context, l *lease, do func(context.Context, *lease) (wire.LeaseEvent, error)) (wire.LeaseEvent, error) {
	look, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() { p.assure(look, l) })
	return do(ctx, l)
}

// assure ends a run for which nobody would pay. A keeper that does not answer proves
// nothing: it is asked again.
func (p *Provider) assure(ctx context.Context, l *lease) {
	if len(p.cfg.File.Raw()) == 0 {
		return
	}
	var since time.Time // keepers deny the lease
	for wait := unassured; ; wait = min(2*wait, doubt/4) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		err := p.stands(ctx, l.signed)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case !wire.Is(err, wire.NotFound) && !wire.Is(err, wire.Unverified):
			p.cfg.Log.Debug("look for a lease", "err", err)
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= doubt:
			p.cfg.Log.Warn("a run is given up", "job", l.signed.Value.Job.JobID(), "why", errUnpaid, "err", err)
			l.cancel(errUnpaid)
			return
		}
	}
}

// stands proves that the log has a lease.
func (p *Provider) stands(ctx context.Context, lease record.Signed[record.Lease]) (err error) {
	ctx, cancel := context.WithTimeout(ctx, advertEvery)
	defer cancel()
	for _, k := range p.cfg.Mesh.Keepers {
		if err = p.proves(ctx, k.Key.ID(), lease); err == nil {
			break
		}
	}
	return err
}

func (p *Provider) proves(ctx context.Context, keeper record.NodeID, lease record.Signed[record.Lease]) error {
	q := wire.QueryRequest{Lease: lease.Ref(), Kind: record.TypeLease, Limit: 1}
	for row, err := range wire.Stream(ctx, p.cfg.Open, keeper, wire.Query, q) {
		if err != nil {
			return err
		}
		rep, err := wire.Call(ctx, p.cfg.Open, keeper, wire.Prove, wire.ProveRequest{Index: row.Index})
		if err != nil {
			return err
		}
		var proof tree.Proof
		var proven tree.Proven
		if err = proof.UnmarshalText([]byte(rep.Proof)); err == nil {
			proven, err = tree.Check(proof, p.cfg.File)
		}
		if err != nil {
			return wire.Refuse(wire.Unverified, fmt.Sprintf("lease %s: %v", lease.Ref(), err))
		}
		if e := proven.Entry.Value.Lease; e == nil || e.Ref() != lease.Ref() {
			return wire.Refuse(wire.Unverified, fmt.Sprintf("entry %d is another than lease %s", row.Index, lease.Ref()))
		}
		return nil
	}
	return wire.Refuse(wire.NotFound, "no such lease")
}
