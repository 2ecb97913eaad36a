package market

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"idlemesh/ledger/record"
)

const now record.Millis = 1_800_000_000_000

func id(n int) record.NodeID { return record.NodeID{byte(n), byte(n >> 8), 1} }

// good is a candidate that fits the job of good terms.
func good(n int) Candidate {
	return Candidate{ID: id(n), RTT: 1, Standing: Standing{Good: 50 * ppm}, Age: 4 * 3_600_000,
		Advert: record.Advert{Expires: now + 30_000, Ask: 200_000, Region: "eu-de", Slots: 1, Free: 1,
			Device:  record.Device{Model: "NVIDIA GeForce RTX 4090", VRAM: 24 << 30, Speed: 1000},
			Windows: []record.Window{{From: now - 1000, Until: now + 3_600_000}}, Tiers: []record.Tier{record.Bronze}}}
}

func task() Task {
	return Task{Job: record.Ref{7}, Since: now, Terms: record.Job{Shards: 1, Tier: record.Bronze, MaxPrice: 500_000,
		MaxTotal: record.Credit, Expires: now + 600_000}}
}

func tasks(k int) []Task {
	t := task()
	t.Terms.Shards, t.Terms.MaxTotal = uint32(k), record.Amount(k)*record.Credit
	ts := slices.Repeat([]Task{t}, k)
	for i := range ts {
		ts[i].Shard = uint32(i)
	}
	return ts
}

// market is candidates by node and a bid of each at its advert's ask.
func market(cs ...Candidate) (func(record.NodeID) Candidate, []Bid) {
	known := map[record.NodeID]Candidate{}
	var bids []Bid
	for _, c := range cs {
		known[c.ID] = c
		bids = append(bids, bid(c, c.Advert.Ask))
	}
	return func(id record.NodeID) Candidate { return known[id] }, bids
}

func bid(c Candidate, ask record.Amount) Bid {
	return Bid{By: c.ID, Bid: record.Bid{Job: record.Ref{7}, Device: c.Advert.Device, Ask: ask,
		Window: record.Window{From: now, Until: now + 3_600_000}, Expires: now + 2000}}
}

func asking(n int, ask record.Amount) Candidate {
	c := good(n)
	c.Advert.Ask = ask
	return c
}

func TestDecide(t *testing.T) {
	q := penalty(task(), good(1), 500_000)
	with := func(c Candidate, change func(*Candidate)) Candidate { change(&c); return c }
	for name, tc := range map[string]struct {
		k      int
		nodes  []Candidate
		beacon record.Ref
		want   []int           // winners
		rates  []record.Amount // theirs
		wins   record.Amount   // WinsAt of the first loser
		why    Reason
		err    error
	}{
		"a lone bidder gets R less his Q": {k: 1, nodes: []Candidate{asking(1, 100_000)}, want: []int{1}, rates: []record.Amount{500_000 - q}},
		"the cheapest is paid what the next asks": {k: 1, nodes: []Candidate{asking(1, 300_000), asking(2, 100_000)},
			want: []int{2}, rates: []record.Amount{300_000}, wins: 99_999},
		"k tasks, the price is the first loser's": {k: 2, nodes: []Candidate{asking(1, 100_000), asking(2, 150_000), asking(3, 250_000)},
			want: []int{1, 2}, rates: []record.Amount{250_000, 250_000}, wins: 149_999},
		"fewer bids than tasks": {k: 3, nodes: []Candidate{asking(1, 100_000)}, want: []int{1}, rates: []record.Amount{500_000 - q}},
		"an owner's two nodes do not set each other's price": {k: 1, nodes: []Candidate{
			with(asking(1, 100_000), func(c *Candidate) { c.Owner = id(9) }), with(asking(2, 120_000), func(c *Candidate) { c.Owner = id(9) })},
			want: []int{1}, rates: []record.Amount{500_000 - q}, wins: 100_000},
		"a slow device is paid by work": {k: 1, nodes: []Candidate{
			with(asking(1, 50_000), func(c *Candidate) { c.Advert.Device.Speed = 250 }), asking(2, 250_000)},
			want: []int{1}, rates: []record.Amount{250_000 - (penalty(task(), with(good(1), func(c *Candidate) { c.Advert.Device.Speed = 250 }), 500_000) - q)},
			wins: 200_000 + penalty(task(), with(good(1), func(c *Candidate) { c.Advert.Device.Speed = 250 }), 500_000) - q},
		"above R": {k: 1, nodes: []Candidate{asking(1, 500_000)}, why: TooDear, wins: 500_000 - q},
		"longest since its last lease": {k: 1, nodes: []Candidate{
			with(asking(1, 100_000), func(c *Candidate) { c.Standing.Filled = 9 }), with(asking(2, 100_000), func(c *Candidate) { c.Standing.Filled = 5 })},
			want: []int{2}, rates: []record.Amount{100_000}, wins: 99_999},
		"a tie needs a beacon":             {k: 1, nodes: []Candidate{asking(1, 100_000), asking(2, 100_000)}, err: ErrTie},
		"a tie of winners needs none":      {k: 2, nodes: []Candidate{asking(1, 100_000), asking(2, 100_000)}, want: []int{1, 2}, rates: []record.Amount{500_000 - q, 500_000 - q}},
		"a beacon breaks a tie":            {k: 1, nodes: []Candidate{asking(1, 100_000), asking(2, 100_000)}, beacon: record.Ref{1}, want: []int{2}, rates: []record.Amount{100_000}, wins: 99_999},
		"another beacon, another way":      {k: 1, nodes: []Candidate{asking(1, 100_000), asking(2, 100_000)}, beacon: record.Ref{3}, want: []int{1}, rates: []record.Amount{100_000}, wins: 99_999},
		"who bids nothing wins at nothing": {k: 1, nodes: []Candidate{asking(1, 0), asking(2, 0)}, beacon: record.Ref{1}, want: []int{2}, rates: []record.Amount{0}},
	} {
		t.Run(name, func(t *testing.T) {
			of, bids := market(tc.nodes...)
			res, err := Decide(tasks(tc.k), bids, of, tc.beacon, record.DefaultParams())
			if !errors.Is(err, tc.err) {
				t.Fatalf("Decide: %v, want %v", err, tc.err)
			}
			var got []record.NodeID
			var rates []record.Amount
			for i, a := range res.Awards {
				got, rates = append(got, a.Bid.By), append(rates, a.Rate)
				if a.Task.Shard != uint32(i) {
					t.Errorf("award %d is of shard %d", i, a.Task.Shard)
				}
			}
			var want []record.NodeID
			for _, n := range tc.want {
				want = append(want, id(n))
			}
			if slices.SortFunc(got, func(a, b record.NodeID) int { return int(a[0]) - int(b[0]) }); !slices.Equal(got, want) || !slices.Equal(rates, tc.rates) {
				t.Errorf("winners %v at %v, want %v at %v", got, rates, want, tc.rates)
			}
			if err == nil && len(res.Awards)+len(res.Unplaced) != tc.k {
				t.Errorf("%d awards and %d unplaced of %d tasks", len(res.Awards), len(res.Unplaced), tc.k)
			}
			if len(res.Lost) > 0 && (res.Lost[0].WinsAt != tc.wins || res.Lost[0].Why != tc.why) {
				t.Errorf("first loser %+v, want WinsAt %v, %v", res.Lost[0], tc.wins, tc.why)
			}
		})
	}
}

func TestDecideRefusesBids(t *testing.T) {
	c := asking(1, 100_000)
	of, _ := market(c)
	for name, change := range map[string]func(*Bid){
		"above its advert":     func(b *Bid) { b.Ask++ },
		"another device":       func(b *Bid) { b.Device.Speed++ },
		"another job":          func(b *Bid) { b.Job[0]++ },
		"of an unknown node":   func(b *Bid) { b.By[0]++ },
		"a sum that overflows": func(b *Bid) { b.Ask = 1<<64 - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := bid(c, c.Advert.Ask)
			change(&b)
			res, err := Decide(tasks(1), []Bid{b}, of, record.Ref{}, record.DefaultParams())
			if err != nil || len(res.Awards) != 0 || len(res.Lost) != 1 || res.Lost[0].Why != OtherOffer {
				t.Errorf("Decide = %+v, %v; want the bid lost as %v", res, err, OtherOffer)
			}
		})
	}
	b := bid(c, 1000)
	if res, _ := Decide(tasks(2), []Bid{b, b}, of, record.Ref{}, record.DefaultParams()); len(res.Awards) != 1 {
		t.Errorf("one bid sent twice has %d awards", len(res.Awards))
	}
	mixed := tasks(2)
	mixed[1].Work = 1
	if _, err := Decide(mixed, nil, of, record.Ref{}, record.DefaultParams()); !errors.Is(err, ErrMixed) {
		t.Errorf("unequal work: %v, want ErrMixed", err)
	}
}

// What a loser is told is true: at WinsAt he wins, at one more he does not.
func TestWinsAtIsTheEdge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		cs, k := randomNodes(r), 1+r.IntN(3)
		of, bids := market(cs...)
		res, err := Decide(tasks(k), bids, of, record.Ref{1}, record.DefaultParams())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range res.Lost {
			if l.WinsAt == 0 {
				continue
			}
			for _, d := range []record.Amount{0, 1} {
				again := slices.Clone(bids)
				i := slices.IndexFunc(again, func(b Bid) bool { return b.By == l.ID })
				again[i].Ask = l.WinsAt + d
				res, err := Decide(tasks(k), again, of, record.Ref{1}, record.DefaultParams())
				won := slices.ContainsFunc(res.Awards, func(a Award) bool { return a.Bid.By == l.ID })
				if err != nil || won != (d == 0) {
					t.Fatalf("loser %v asking %v (told %v): won %v, %v", l.ID[0], again[i].Ask, l.WinsAt, won, err)
				}
			}
		}
	}
}

// randomNodes are up to 18 nodes of up to 6 owners; few values, so that ties occur.
func randomNodes(r *rand.Rand) (cs []Candidate) {
	for owner := range 1 + r.IntN(6) {
		for range 1 + r.IntN(3) {
			c := asking(len(cs)+1, record.Amount(r.IntN(500)*1000+r.IntN(3)))
			c.Owner = id(200 + owner)
			c.Advert.Device.Speed = []uint32{1000, 1000, 730, 3001}[r.IntN(4)]
			c.Standing = Standing{Good: uint64(r.IntN(3)) * 20 * ppm, Filled: record.Millis(r.IntN(2))}
			c.RTT = record.Millis(r.IntN(3) * 40)
			cs = append(cs, c)
		}
	}
	return cs
}

// income is what an owner earns per hour of work, in exact
// µcredits an hour: rate less the AskRate of what the device truly costs.
func income(res Result, mine map[record.NodeID]record.Amount) (sum int64) {
	for _, a := range res.Awards {
		if cost, ok := mine[a.Bid.By]; ok {
			sum += int64(a.Rate) - int64(AskRate(cost, a.Bid.Device.Speed))
		}
	}
	return sum
}

// Random markets: no owner gains by asking another price, by holding nodes back or by
// posing as several owners; nobody is paid below his ask or above R; the order of
// bids does not matter. Rates and scores are integers and an owner's sum is split
// without a rest, so the rounding tolerance is zero µcredits an hour.
func TestRandomMarkets(t *testing.T) {
	const markets, tolerance = 20_000, 0
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	p := record.DefaultParams()
	gains := 0
	for m := range markets {
		cs, k := randomNodes(r), 1+r.IntN(4)
		ts := tasks(k)
		price, work := record.Amount(100_000+r.IntN(5)*100_000), record.Work(1e6+r.IntN(1e9))
		for i := range ts {
			ts[i].Terms.MaxPrice, ts[i].Work = price, work
		}
		limit := Ceiling(ts[0], p)
		beacon := record.Ref{byte(r.Uint32()) | 1}
		of, bids := market(cs...)
		res := decide(t, ts, bids, of, beacon)
		owner := cs[r.IntN(len(cs))].Owner
		mine := map[record.NodeID]record.Amount{}
		for _, c := range cs {
			if c.Owner == owner {
				mine[c.ID] = c.Advert.Ask
			}
		}
		for _, a := range res.Awards {
			if a.Rate < AskRate(a.Bid.Ask, a.Bid.Device.Speed) || a.Rate > limit {
				t.Fatalf("market %d: rate %v for an ask of %v, ceiling %v", m, a.Rate, a.Bid.Ask, limit)
			}
		}
		honest := income(res, mine)
		if honest < 0 {
			t.Fatalf("market %d: honest owner loses %d", m, -honest)
		}
		shuffled := slices.Clone(bids)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := decide(t, ts, shuffled, of, beacon); !reflect.DeepEqual(again, res) {
			t.Fatalf("market %d: another order of bids, another result:\n%+v\n%+v", m, res, again)
		}
		// The lie: adverts carry the asks of liars too, so that no bid exceeds one.
		lied := slices.Clone(cs)
		var lies []Bid
		for i, c := range lied {
			if c.Owner == owner {
				if r.IntN(10) < 3 {
					continue
				}
				lied[i].Advert.Ask = c.Advert.Ask * record.Amount(r.IntN(250)) / 100
			}
			lies = append(lies, bid(lied[i], lied[i].Advert.Ask))
		}
		of2, _ := market(lied...)
		if got := income(decide(t, ts, lies, of2, beacon), mine); got > honest+tolerance {
			t.Fatalf("market %d: a lie earns %d, the truth %d", m, got, honest)
		}
		split := slices.Clone(cs)
		for i, c := range split {
			if c.Owner == owner {
				split[i].Owner = c.ID
			}
		}
		of3, _ := market(split...)
		if got := income(decide(t, ts, bids, of3, beacon), mine); got > honest+tolerance {
			t.Fatalf("market %d: posing as several owners earns %d, one %d", m, got, honest)
		}
		if honest > 0 {
			gains++
		}
	}
	if gains < markets/10 {
		t.Errorf("only in %d of %d markets there was anything to gain", gains, markets)
	}
}

func decide(t *testing.T, ts []Task, bids []Bid, of func(record.NodeID) Candidate, beacon record.Ref) Result {
	t.Helper()
	res, err := Decide(ts, bids, of, beacon, record.DefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	return res
}
