package gateway

import (
	"fmt"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// A grant says who may fetch a blob: those whose jobs name it, and the providers that
// hold, or held, a lease of such a job.
type grant map[record.NodeID]bool

// day is how long an upload waits for its job, in milliseconds.
const day = 24 * 3_600_000

func (g *Gateway) permit(ref record.Ref, who record.NodeID) {
	if g.grants[ref] == nil {
		g.grants[ref] = grant{}
	}
	g.grants[ref][who] = true
}

// grantLocked lets a job's tenant fetch its blobs.
func (g *Gateway) grantLocked(j *job) {
	g.permit(j.signed.Value.Body, j.signed.By())
	for _, b := range blobs(j.body) {
		g.permit(b.Ref, j.signed.By())
	}
}

// keepJob keeps a job's body and blobs until the job and its retention are over.
func (g *Gateway) keepJob(t record.Job, sealed []byte, body record.Body) error {
	until := wholeHour(t.Expires + record.Millis(t.Limits.Wall) + t.Retention)
	refs, err := g.cfg.Blobs.PutAll(until, sealed)
	if err != nil {
		return fmt.Errorf("keep the body: %w", err)
	}
	if refs[0] != t.Body {
		return wire.Refuse(wire.Invalid, "submit: the body is not the one that the job names")
	}
	for _, b := range blobs(body) {
		if err := g.cfg.Blobs.Pin(b.Ref, until); err != nil {
			return fmt.Errorf("keep blob %s: %w", b.Ref.String()[:12], err)
		}
	}
	return nil
}

// wholeHour rounds up: each pin that says something new costs a sync, and a module that
// many jobs share is to be pinned once an hour.
func wholeHour(t record.Millis) record.Millis {
	const hour = 3_600_000
	return (t + hour - 1) / hour * hour
}

// permitLocked lets a provider fetch what its lease needs.
func (g *Gateway) permitLocked(provider record.NodeID, body record.Body) {
	for _, b := range blobs(body) {
		g.permit(b.Ref, provider)
	}
}

// grantOutputsLocked lets the tenant fetch what a task left.
func (g *Gateway) grantOutputsLocked(j *job, r record.Receipt) {
	if r.Outputs == (record.Ref{}) {
		return
	}
	g.permit(r.Outputs, j.signed.By())
	m, err := g.readManifest(r.Outputs)
	if err != nil {
		g.cfg.Log.Warn("manifest", "job", r.Job.JobID(), "err", err)
		return
	}
	for _, b := range outputs(m) {
		g.permit(b.Ref, j.signed.By())
	}
}

func (g *Gateway) keep(ref record.Ref, until record.Millis) {
	if err := g.cfg.Blobs.Pin(ref, until); err != nil {
		g.cfg.Log.Warn("keep blob", "blob", ref.String()[:12], "err", err)
	}
}

// keepManifest stores what a receipt says the task left, once all of it is here.
func (g *Gateway) keepManifest(j *job, r record.Receipt, sealed []byte) error {
	if r.Outputs == (record.Ref{}) {
		return nil
	}
	until := wholeHour(g.now() + j.signed.Value.Retention)
	refs, err := g.cfg.Blobs.PutAll(until, sealed)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if refs[0] != r.Outputs {
		return wire.Refuse(wire.Unverified, "manifest: not the one that the receipt names")
	}
	m, err := g.readManifest(r.Outputs)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	for _, b := range outputs(m) {
		if b.Size > 0 && !g.cfg.Blobs.Has(b.Ref) {
			return wire.Refuse(wire.Unverified, "manifest: an output was not handed over")
		}
		g.keep(b.Ref, until)
	}
	return nil
}

func (g *Gateway) readManifest(ref record.Ref) (m record.Manifest, err error) {
	sealed, err := g.cfg.Blobs.Bytes(ref, maxManifest)
	if err != nil {
		return m, err
	}
	plain, err := g.opener.Open(sealed, wire.SealManifest)
	if err != nil {
		return m, err
	}
	return m, record.Decode(plain, &m)
}

const maxManifest = 4 << 20 // bytes, sealed

func outputs(m record.Manifest) []record.Blob {
	list := []record.Blob{m.Stdout, m.Stderr, m.Log}
	for _, o := range m.Outputs {
		list = append(list, o.Blob)
	}
	return list
}

// MayRead reports whether a peer may fetch a blob from this gateway.
func (g *Gateway) MayRead(peer record.NodeID, ref record.Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grants[ref][peer]
}
