package gateway

import (
	"cmp"
	"fmt"

	"idlemesh/ledger/record"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

// becauseLocked is why a job ends that is not finished, in more words than its reason has.
func (j *job) becauseLocked(why record.Reason) *wire.Error {
	switch {
	case j.cause != nil:
		return j.cause
	case why == record.GivenUp:
		e := &wire.Error{Code: wire.Internal, Text: "no attempt is left", Next: "submit it again, with more --retries"}
		for i, t := range j.state.Tasks {
			if t.Phase == plan.Failed {
				e.Text = fmt.Sprintf("task %d was lost %d times, at last by %s: %s", i, t.Attempt, t.Node.Short(),
					cmp.Or(j.loss, "the gateway was restarted meanwhile"))
				break
			}
		}
		return e
	case why == record.Unaffordable:
		return &wire.Error{Code: wire.Funds, Text: fmt.Sprintf("what is left of %v credits pays no further attempt", j.signed.Value.MaxTotal),
			Next: "submit it again, with a larger --max-total"}
	case why == record.Expired:
		return &wire.Error{Code: wire.NoMatch, Text: "no provider took it before it expired", Next: "meshctl node status"}
	}
	return nil
}

// keepCause stores why a job ends, sealed, and returns its name for the log. Where it
// cannot be stored the job ends all the same, and its reason alone is kept.
func (g *Gateway) keepCause(j *job, why record.Reason) record.Ref {
	g.mu.Lock()
	j.cause = j.becauseLocked(why)
	e, until := j.cause, max(kept(j.signed.Value), (g.now()+j.signed.Value.Retention).WholeHour())
	g.mu.Unlock()
	if e == nil {
		return record.Ref{}
	}
	plain, err := record.Encode(*e)
	var sealed []byte
	if err == nil {
		sealed, err = g.sealer.Seal(plain, wire.SealCause, j.signed.Key, g.cfg.Key.PublicKey())
	}
	var refs []record.Ref
	if err == nil {
		refs, err = g.cfg.Blobs.PutAll(until, sealed)
	}
	if err != nil {
		g.cfg.Log.Warn("keep why a job ended", "job", j.ref.JobID(), "err", err)
		return record.Ref{}
	}
	return refs[0]
}

const maxCause = 64 << 10 // bytes, sealed

// readCause returns what keepCause stored, nil when it is gone.
func (g *Gateway) readCause(ref record.Ref) *wire.Error {
	if ref == (record.Ref{}) {
		return nil
	}
	var e wire.Error
	sealed, err := g.cfg.Blobs.Bytes(ref, maxCause)
	if err == nil {
		sealed, err = g.opener.Open(sealed, wire.SealCause)
	}
	if err == nil {
		err = record.Decode(sealed, &e)
	}
	if err != nil {
		g.cfg.Log.Debug("why a job ended is gone", "err", err)
		return nil
	}
	return &e
}
