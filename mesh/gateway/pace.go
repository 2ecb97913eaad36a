package gateway

import (
	"context"
	"time"
)

// A pace lets so many events of one run pass at once, and then so many a second: a guest
// that says all it can, or a provider who makes things up, gets no more of this node's
// time. What waits is held back by the stream.
type pace struct{ next time.Time }

const (
	burst = 1024                 // events; more than wait at an honest provider
	beat  = 5 * time.Millisecond // between events in the long run
)

// wait returns once another event may pass.
func (p *pace) wait(ctx context.Context) error {
	now := time.Now()
	if first := now.Add(-burst * beat); p.next.Before(first) {
		p.next = first
	}
	p.next = p.next.Add(beat)
	if !p.next.After(now) {
		return nil
	}
	late := time.NewTimer(p.next.Sub(now))
	defer late.Stop()
	select {
	case <-late.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
