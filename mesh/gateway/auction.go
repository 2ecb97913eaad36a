package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/market"
	"idlemesh/mesh/plan"
	"idlemesh/mesh/wire"
)

const bidTime = 1500 * time.Millisecond // that a provider has for a bid

// place takes the tasks of one step from their auction on.
func (g *Gateway) place(ctx context.Context, s market.Step) {
	g.mu.Lock()
	j := g.jobs[s.Tasks[0].Job]
	g.mu.Unlock()
	if j == nil {
		return // it ended meanwhile
	}
	if s.Err != nil {
		g.giveUp(ctx, j, s.Err)
		return
	}
	begin := g.now()
	bids := g.solicit(ctx, j, s)
	res, beacon, err := g.decide(ctx, j, s, bids)
	if err != nil {
		g.cfg.Log.Error("auction", "job", j.ref.JobID(), "err", err)
		return
	}
	g.auctioned(j, s, len(bids), len(res.Awards), g.now()-begin)
	for _, a := range res.Awards {
		g.work.Go(func() { g.lead(ctx, j, a, bids[key(a.Bid)], beacon) })
	}
	if len(res.Awards) == 0 {
		g.wait(j)
	}
}

// giveUp ends a job that nobody can serve. One that somebody has served already waits:
// he, or one like him, will be back.
func (g *Gateway) giveUp(ctx context.Context, j *job, err error) {
	cause := &wire.Error{Code: wire.NoMatch, Text: err.Error()}
	var none *market.NoMatchError
	g.mu.Lock()
	if errors.As(err, &none) {
		cause.Next = none.Next()
		if j.state.Begun() {
			j.rest = max(j.rest, g.now()+lull)
			g.waitLocked(j)
			g.mu.Unlock()
			return
		}
	}
	over := !j.closing && j.ended == 0 && j.state.Live() == 0 && len(j.placing) == 0
	if over {
		j.closing, j.cause = true, cause
	}
	g.mu.Unlock()
	if over {
		g.close(ctx, j, record.Expired)
	}
}

// lull is how long, in milliseconds, a job waits before the market is asked again.
const lull = 2000

type bidKey struct {
	by    record.NodeID
	nonce uint64
}

func key(b market.Bid) bidKey { return bidKey{b.By, b.Nonce} }

// solicit returns the live bids of those that answer in time.
func (g *Gateway) solicit(ctx context.Context, j *job, s market.Step) map[bidKey]record.Signed[record.Bid] {
	ctx, cancel := context.WithTimeout(ctx, bidTime)
	defer cancel()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		bids = map[bidKey]record.Signed[record.Bid]{}
	)
	for _, id := range s.Ask {
		wg.Go(func() {
			r, err := wire.Call(ctx, g.cfg.Open, id, wire.Solicit, wire.Solicitation{Job: j.signed, N: uint32(len(s.Tasks))})
			mu.Lock()
			defer mu.Unlock()
			if wire.Is(err, wire.Denied) {
				g.mu.Lock()
				g.book.Decline(j.ref, id)
				g.mu.Unlock()
			}
			if err != nil {
				return
			}
			for _, b := range r.Bids[:min(len(r.Bids), len(s.Tasks))] {
				if b.By() == id && b.Value.Job == j.ref {
					bids[bidKey{id, b.Value.Nonce}] = b
				}
			}
		})
	}
	wg.Wait()
	return bids
}

// decide lets the market award the tasks. A tie is drawn with the tree head's root
// after the bids have closed, which none of the bidders could know.
func (g *Gateway) decide(ctx context.Context, j *job, s market.Step, signed map[bidKey]record.Signed[record.Bid]) (res market.Result, beacon record.Ref, err error) {
	var bids []market.Bid
	for k, b := range signed {
		bids = append(bids, market.Bid{By: k.by, Bid: b.Value})
	}
	if res, err = g.award(j, s, bids, beacon); !errors.Is(err, market.ErrTie) {
		return res, beacon, err
	}
	head, err := g.head(ctx)
	if err != nil {
		// Without a decision the tasks would never be asked for again.
		_, e := g.award(j, s, nil, beacon)
		return res, beacon, errors.Join(err, e)
	}
	beacon = head.Root
	res, err = g.award(j, s, bids, beacon)
	return res, beacon, err
}

// award decides, and claims what the awards are for. A job may have been cancelled, or
// a task leased by another, while bids were asked for.
func (g *Gateway) award(j *job, s market.Step, bids []market.Bid, beacon record.Ref) (market.Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	res, err := g.book.Decide(g.now(), s, bids, beacon)
	res.Awards = slices.DeleteFunc(res.Awards, func(a market.Award) bool {
		if !j.wantsLocked(a.Task) {
			g.book.Release(a.Task)
			return true
		}
		j.placing[a.Task.Shard] = true
		return false
	})
	return res, err
}

// wantsLocked reports whether a task still waits for a provider.
func (j *job) wantsLocked(t market.Task) bool {
	if j.ended != 0 || j.closing || j.cancelled || j.placing[t.Shard] {
		return false
	}
	is := &j.state.Tasks[t.Shard]
	return is.Phase == plan.Waiting && is.Attempt+1 == t.Attempt
}

func (g *Gateway) head(ctx context.Context) (wire.HeadReply, error) {
	return wire.Ask(ctx, g.keepers, wire.Head, wire.HeadRequest{})
}

// auctioned tells those who watch how an auction went.
func (g *Gateway) auctioned(j *job, s market.Step, bids, won int, took record.Millis) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.book.Quote(g.now(), j.signed.Value, 0)
	a := auction(q)
	a.Fit, a.Bids, a.Won, a.Took = max(a.Fit, uint32(len(s.Ask))), uint32(bids), uint32(won), took
	if won > 0 && !j.auctioned {
		j.auctioned = true
		j.tellLocked(g.now(), wire.JobEvent{Kind: wire.Auctioned, Auction: &a})
	}
}

func auction(q market.Quote) wire.Auction {
	a := wire.Auction{Nodes: uint32(q.Nodes), Fit: uint32(q.Fits + q.Busy)}
	for why, n := range q.Counts {
		a.Others = append(a.Others, wire.Count{N: uint32(n), Why: why.String()})
	}
	slices.SortFunc(a.Others, func(x, y wire.Count) int { return int(y.N) - int(x.N) })
	return a
}

// wait tells those who watch, once, that everybody who fits is busy.
func (g *Gateway) wait(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waitLocked(j)
}

func (g *Gateway) waitLocked(j *job) {
	if j.waited {
		return
	}
	j.waited = true
	a := auction(g.book.Quote(g.now(), j.signed.Value, 0))
	j.tellLocked(g.now(), wire.JobEvent{Kind: wire.Waiting, Auction: &a})
}
