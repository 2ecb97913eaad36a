package gateway

import (
	"context"
	"fmt"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// A grant says who may fetch a blob and until when: those whose jobs name it, and the
// providers that have a lease of such a job.
type grant map[record.NodeID]record.Millis

func (g *Gateway) permitLocked(who record.NodeID, until record.Millis, list ...record.Blob) {
	for _, b := range list {
		if g.grants[b.Ref] == nil {
			g.grants[b.Ref] = grant{}
		}
		g.grants[b.Ref][who] = max(g.grants[b.Ref][who], until)
	}
}

// grantLocked lets a job's tenant fetch its blobs.
func (g *Gateway) grantLocked(j *job) {
	t := j.signed.Value
	blobs := j.body.Blobs()
	g.permitLocked(j.signed.By(), kept(t), append(blobs, record.Blob{Ref: t.Body})...)
	g.shelveLocked(j.signed.By(), kept(t), blobs...)
}

// grantOutputs lets the tenant fetch what a task left.
func (g *Gateway) grantOutputs(j *job, r record.Receipt, m record.Manifest, until record.Millis) {
	g.mu.Lock()
	defer g.mu.Unlock()
	blobs := outputs(m)
	g.permitLocked(j.signed.By(), until, append(blobs, record.Blob{Ref: r.Outputs})...)
	g.handedLocked(j.tasks[r.Shard].info.Node, j.signed.By(), until, blobs)
}

// expireLocked forgets grants that have ended.
func (g *Gateway) expireLocked(now record.Millis) {
	for ref, who := range g.grants {
		for id, until := range who {
			if until < now {
				delete(who, id)
			}
		}
		if len(who) == 0 {
			delete(g.grants, ref)
		}
	}
}

// kept is until when a job's body and inputs are kept.
func kept(t record.Job) record.Millis {
	return (t.Expires + record.Millis(t.Limits.Wall) + t.Retention).WholeHour()
}

// keepJob keeps a job's body and blobs until the job and its retention are over.
func (g *Gateway) keepJob(t record.Job, sealed []byte, body record.Body) error {
	refs, err := g.cfg.Blobs.PutAll(kept(t), sealed)
	if err != nil {
		return fmt.Errorf("keep the body: %w", err)
	}
	if refs[0] != t.Body {
		return wire.Refuse(wire.Invalid, "submit: the body is not the one that the job names")
	}
	if err := g.cfg.Blobs.PinAll(kept(t), refsOf(body.Blobs())...); err != nil {
		return fmt.Errorf("keep the job's blobs: %w", err)
	}
	return nil
}

func refsOf(list []record.Blob) []record.Ref {
	refs := make([]record.Ref, 0, len(list)+1)
	for _, b := range list {
		if b.Size > 0 { // else it is not stored, whatever its name
			refs = append(refs, b.Ref)
		}
	}
	return refs
}

func (g *Gateway) readManifest(ref record.Ref) (m record.Manifest, err error) {
	sealed, err := g.cfg.Blobs.Bytes(ref, maxManifest)
	if err != nil {
		return m, err
	}
	return g.openManifest(sealed)
}

func (g *Gateway) openManifest(sealed []byte) (m record.Manifest, err error) {
	plain, err := g.opener.Open(sealed, wire.SealManifest)
	if err != nil {
		return m, err
	}
	return m, record.Decode(plain, &m)
}

const maxManifest = 16 << 20 // bytes, sealed

// outputs lists what a manifest names and is not empty.
func outputs(m record.Manifest) []record.Blob {
	var list []record.Blob
	for _, b := range []record.Blob{m.Stdout, m.Stderr, m.Log, m.Transcript} {
		if b.Size > 0 {
			list = append(list, b)
		}
	}
	for _, o := range m.Outputs {
		if o.Blob.Size > 0 {
			list = append(list, o.Blob)
		}
	}
	return list
}

const (
	solvent  = 60_000           // ms for which a tenant's balance is believed
	asking   = time.Second      // for it
	learning = 20 * time.Second // that a peer waits for a gateway that reads its log
)

// takeFromLocked lets a provider hand over what a lease of such a job leaves.
func (g *Gateway) takeFromLocked(provider record.NodeID, t record.Job) {
	g.takes[provider] = max(g.takes[provider], g.now()+record.Millis(t.Limits.Wall)+record.Span(staging))
}

// learned reports whether the jobs of the log are known, which after a start takes a
// moment.
func (g *Gateway) learned() bool {
	ctx, cancel := context.WithTimeout(context.Background(), learning)
	defer cancel()
	return g.await(ctx) == nil
}

// MayWrite reports whether a peer may upload: providers that have a lease of this
// gateway's, and tenants with credits. Else anybody could fill the disk.
func (g *Gateway) MayWrite(peer record.NodeID) bool {
	if !g.learned() {
		return false
	}
	g.mu.Lock()
	may := g.takes[peer] >= g.now() || g.loads[peer].jobs > 0
	g.mu.Unlock()
	if may {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	b, err := wire.Ask(ctx, g.keepers, wire.Balance, wire.BalanceRequest{Of: peer})
	if err != nil || b.Free == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takes[peer] = max(g.takes[peer], g.now()+solvent)
	return true
}

// MayRead reports whether a peer may fetch a blob from this gateway.
func (g *Gateway) MayRead(peer record.NodeID, ref record.Ref) bool {
	if !g.learned() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grants[ref][peer] >= g.now()
}
