package gateway

import (
	"context"
	"fmt"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// maxAdvert bounds an advert in bytes: a gateway remembers thousands of strangers'.
const maxAdvert = 8 << 10

// advertise takes a provider's newest advert, and measures how far he is.
func (g *Gateway) advertise(_ context.Context, c wire.Caller, q wire.AdvertRequest) (wire.Ack, error) {
	if q.Advert.By() != c.ID {
		return wire.Ack{}, wire.Refuse(wire.Denied, "advertise: signed by another node")
	}
	if n := len(q.Advert.Raw()); n > maxAdvert {
		return wire.Ack{}, wire.Refuse(wire.Invalid, fmt.Sprintf("advertise: %d bytes, at most %d", n, maxAdvert))
	}
	if a := q.Advert.Value; a.Device.Speed > a.Proven(q.Advert.Key, g.cfg.Mesh.Params) {
		return wire.Ack{}, wire.Refuse(wire.Invalid, fmt.Sprintf("advertise: a speed of %d ‰ of the reference GPU, and no bench of this device by this node that shows it", a.Device.Speed))
	}
	g.mu.Lock()
	err := g.book.Advert(g.now(), c.ID, q.Advert.Value)
	if err == nil {
		g.offers[c.ID] = q.Advert.Value
		g.met()
		g.book.Measured(c.ID, g.rtt(c.ID))
	}
	g.mu.Unlock()
	if err != nil {
		return wire.Ack{}, wire.Refuse(wire.Invalid, "advertise: "+err.Error())
	}
	g.wake()
	return wire.Ack{}, nil
}

// firstOffer returns once there is an offer, or none was made in time.
func (g *Gateway) firstOffer(ctx context.Context) {
	late := time.NewTimer((g.patient - g.now()).Duration())
	defer late.Stop()
	select {
	case <-g.offered:
	case <-late.C:
	case <-ctx.Done():
	}
}

// rtt is a peer's round trip in whole milliseconds, rounded up, or -1.
func (g *Gateway) rtt(id record.NodeID) record.Millis {
	d, ok := g.cfg.RTT(id)
	if !ok {
		return -1
	}
	return record.Millis((d + time.Millisecond - 1) / time.Millisecond)
}

// nodes lists the providers whose adverts stand.
func (g *Gateway) nodes(_ context.Context, _ wire.Caller, _ wire.NodesRequest, send func(wire.NodeInfo) error) error {
	now := g.now()
	var list []wire.NodeInfo
	g.mu.Lock()
	for id, a := range g.offers {
		if a.Expires < now {
			delete(g.offers, id)
			continue
		}
		c := g.book.Candidate(now, id)
		open := len(a.Windows) > 0 && a.Windows[0].From <= now && now < a.Windows[0].Until
		list = append(list, wire.NodeInfo{ID: id, RTT: c.RTT, Q: c.Standing.Reliability(), Seen: a.Expires - 30_000,
			Offer: wire.Offer{Device: a.Device, Ask: a.Ask, Region: a.Region, Tiers: a.Tiers, Slots: a.Slots, Leases: c.Busy, Open: open, Windows: a.Windows, Grade: a.Grade, Measured: measured(a.Bench)}})
	}
	g.mu.Unlock()
	for _, n := range list {
		if err := send(n); err != nil {
			return err
		}
	}
	return nil
}

func measured(b *record.Signed[record.Bench]) record.Millis {
	if b == nil {
		return 0
	}
	return b.Value.At
}

// quote says who would fit and for how much, without an escrow. A gateway that has
// just started waits for its providers, as a job does.
func (g *Gateway) quote(ctx context.Context, _ wire.Caller, q wire.QuoteRequest) (wire.QuoteReply, error) {
	g.firstOffer(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	got := g.book.Quote(g.now(), q.Terms, 0)
	rep := wire.QuoteReply{Auction: auction(got), Low: got.Low, High: got.High}
	if got.NoMatch != nil {
		rep.Err = &wire.Error{Code: wire.NoMatch, Text: got.NoMatch.Error(), Next: got.NoMatch.Next()}
	}
	return rep, nil
}
