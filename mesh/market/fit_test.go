package market

import (
	"errors"
	"math"
	"strings"
	"testing"

	"idlemesh/ledger/record"
)

func TestFit(t *testing.T) {
	for name, tc := range map[string]struct {
		task func(*Task)
		node func(*Candidate)
		sim  bool
		want Reason
	}{
		"all is well":                   {},
		"the advert ends now":           {node: func(c *Candidate) { c.Advert.Expires = now }, want: Stale},
		"another region":                {task: func(t *Task) { t.Terms.Needs.Region = "us" }, want: WrongRegion},
		"a part of the region":          {task: func(t *Task) { t.Terms.Needs.Region = "EU" }},
		"not a part, but alike":         {task: func(t *Task) { t.Terms.Needs.Region = "eu-d" }, want: WrongRegion},
		"a tier not sold":               {task: func(t *Task) { t.Terms.Tier = record.Gold }, want: WrongTier},
		"no tiers":                      {node: func(c *Candidate) { c.Advert.Tiers = nil }, want: WrongTier},
		"the model, written otherwise":  {task: func(t *Task) { t.Terms.Needs.Model = "rtx-4090" }},
		"another model":                 {task: func(t *Task) { t.Terms.Needs.Model = "H100" }, want: WrongModel},
		"just enough memory":            {task: func(t *Task) { t.Terms.Needs.VRAM = 24 << 30 }},
		"a byte too little":             {task: func(t *Task) { t.Terms.Needs.VRAM = 24<<30 + 1 }, want: TooSmall},
		"simulated":                     {node: func(c *Candidate) { c.Advert.Device.Simulated = true }, want: Simulated},
		"simulated, and allowed":        {node: func(c *Candidate) { c.Advert.Device.Simulated = true }, sim: true},
		"no window":                     {node: func(c *Candidate) { c.Advert.Windows = nil }, want: NoWindow},
		"a window that opens later":     {node: func(c *Candidate) { c.Advert.Windows[0].From = now + 1 }, want: NoWindow},
		"a window with its guard":       {node: func(c *Candidate) { c.Advert.Windows[0].Until = now + 71_000 }},
		"a window short of its guard":   {node: func(c *Candidate) { c.Advert.Windows[0].Until = now + 70_999 }, want: NoWindow},
		"slow, so too long":             {node: func(c *Candidate) { c.Advert.Device.Speed, c.Advert.Ask = 10, 0 }, want: NoWindow},
		"slow, but the wall limit ends": {node: func(c *Candidate) { c.Advert.Device.Speed, c.Advert.Ask = 10, 0 }, task: func(t *Task) { t.Terms.Limits.Wall = 60_000 }},
		"near enough":                   {task: func(t *Task) { t.Terms.Needs.MaxRTT = 1 }},
		"too far":                       {task: func(t *Task) { t.Terms.Needs.MaxRTT = 1 }, node: func(c *Candidate) { c.RTT = 2 }, want: TooFar},
		"nobody knows how far":          {task: func(t *Task) { t.Terms.Needs.MaxRTT = 1000 }, node: func(c *Candidate) { c.RTT = -1 }, want: TooFar},
		"reliable":                      {task: func(t *Task) { t.Terms.Needs.Reliability = 940_000 }},
		"not reliable enough":           {task: func(t *Task) { t.Terms.Needs.Reliability = 960_000 }, want: Unreliable},
		"a newcomer":                    {task: func(t *Task) { t.Terms.Needs.Reliability = 1 }, node: func(c *Candidate) { c.Standing = Standing{} }, want: Unreliable},
		"above the offer":               {task: func(t *Task) { t.Terms.MaxPrice = 200_000 }, want: TooDear},
		"above the class reserve":       {node: func(c *Candidate) { c.Advert.Ask = 500_000 }, task: func(t *Task) { t.Terms.MaxPrice = 900_000 }, want: TooDear},
		"above its share of the total":  {task: func(t *Task) { t.Terms.MaxTotal, t.Terms.Shards = 6000, 2 }, want: TooDear},
		"within its share":              {task: func(t *Task) { t.Terms.MaxTotal, t.Terms.Shards = 7000, 2 }},
		"an ask that overflows":         {node: func(c *Candidate) { c.Advert.Ask = math.MaxUint64 }, want: TooDear},
		"an offer that overflows":       {task: func(t *Task) { t.Terms.MaxPrice, t.Terms.MaxTotal = math.MaxUint64, math.MaxUint64 }},
		"a speed nobody knows":          {node: func(c *Candidate) { c.Advert.Device.Speed = 0 }, task: func(t *Task) { t.Terms.Limits.Wall = 1 }, want: TooDear},
		"lost it before":                {task: func(t *Task) { t.Avoid = []record.NodeID{id(1)} }, want: Avoided},
		"busy":                          {node: func(c *Candidate) { c.Busy = 1 }, want: Busy},
		"busy with what we don't know":  {node: func(c *Candidate) { c.Advert.Free = 0 }, want: Busy},
		"a lasting reason comes first":  {node: func(c *Candidate) { c.Busy = 1 }, task: func(t *Task) { t.Terms.Tier = record.Gold }, want: WrongTier},
	} {
		t.Run(name, func(t *testing.T) {
			k, c, p := task(), good(1), record.DefaultParams()
			p.AllowSimulated = tc.sim
			if tc.task != nil {
				tc.task(&k)
			}
			if tc.node != nil {
				tc.node(&c)
			}
			if got := Fit(k, c, now, p); got != tc.want {
				t.Errorf("Fit = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCostOrders(t *testing.T) {
	p := record.DefaultParams()
	for name, tc := range map[string]struct {
		task         func(*Task)
		better, less func(*Candidate)
	}{
		"a safer node":              {less: func(c *Candidate) { c.Standing = Standing{Good: 10 * ppm, Bad: 3 * ppm} }},
		"one that was there longer": {less: func(c *Candidate) { c.Age = 0 }},
		"a nearer one, a little":    {less: func(c *Candidate) { c.RTT = 30 }},
		"but not for much money":    {better: func(c *Candidate) { c.RTT = 200 }, less: func(c *Candidate) { c.Advert.Ask += 20_000 }},
		"for much money with near": {task: func(t *Task) { t.Terms.Needs.Near = id(99) },
			better: func(c *Candidate) { c.Advert.Ask += 90_000 }, less: func(c *Candidate) { c.RTT = 30 }},
		"a measured one":        {less: func(c *Candidate) { c.RTT = -1 }},
		"one that has the data": {less: func(c *Candidate) { c.Missing = 1 << 30 }},
		"one a microcredit cheaper": {less: func(c *Candidate) { c.Advert.Ask++ },
			task: func(t *Task) { t.Work = 3600e9 }},
	} {
		t.Run(name, func(t *testing.T) {
			k, a, b := task(), good(1), good(2)
			if tc.task != nil {
				tc.task(&k)
			}
			if tc.better != nil {
				tc.better(&a)
			}
			tc.less(&b)
			if x, y := Cost(k, a, a.Advert.Ask, p), Cost(k, b, b.Advert.Ask, p); x >= y {
				t.Errorf("costs %d, want less than %d", x, y)
			}
		})
	}
	worst := good(1)
	worst.Standing, worst.RTT, worst.Missing, worst.Age = Standing{}, -1, math.MaxUint64, -5
	k := task()
	k.Terms.Needs.Near = id(99)
	if q := penalty(k, worst, 500_000); q > 350_000 {
		t.Errorf("Q takes %d of 500000: no price would buy", q)
	}
}

func TestReliability(t *testing.T) {
	for name, tc := range map[string]struct {
		s    Standing
		want uint32 // from the formula in floating point, to 1 in 10,000
	}{
		"nothing known":    {Standing{}, 0},
		"one good":         {Standing{Good: ppm}, 269_830},
		"one bad":          {Standing{Bad: ppm}, 0},
		"ten good":         {Standing{Good: 10 * ppm}, 787_033},
		"200 good":         {Standing{Good: 200 * ppm}, 986_650},
		"90 of a hundred":  {Standing{Good: 90 * ppm, Bad: 10 * ppm}, 839_638},
		"as many as it is": {Standing{Good: most, Bad: most}, 499_418},
	} {
		if got := tc.s.Reliability(); max(got, tc.want)-min(got, tc.want) > 100 {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	s := Standing{Good: 100 * ppm, Bad: 10 * ppm}
	if half := s.on(60 * day); max(half.Good, 50*ppm)-min(half.Good, 50*ppm) > 1000 || half.Day != 60 {
		t.Errorf("after 60 days %+v, want half of %+v", half, s)
	}
	if gone := s.on(1 << 60); gone.Good != 0 || gone.Bad != 0 {
		t.Errorf("after an age %+v, want nothing", gone)
	}
	if same := s.on(-day); same != s {
		t.Errorf("time went back: %+v", same)
	}
}

func TestSurvival(t *testing.T) {
	const h = 3_600_000
	for _, tc := range []struct {
		age, span record.Millis
		want      uint64
	}{{0, h, 370_000}, {h, h, 660_000}, {4 * h, h, 820_000}, {12 * h, h, 890_000}, {99 * h, h, 890_000}, {h / 2, h, 515_000},
		{0, h / 2, 685_000}, {0, 0, ppm}, {0, 9 * h, 370_000}, {-1, h, 370_000}} {
		if got := survival(tc.age, tc.span); got != tc.want {
			t.Errorf("survival(%d, %d) = %d, want %d", tc.age, tc.span, got, tc.want)
		}
	}
}

func TestNoMatch(t *testing.T) {
	p := record.DefaultParams()
	dear := func(n int, ask record.Amount) Candidate { return asking(n, ask) }
	small := good(9)
	small.Advert.Device.VRAM = 8 << 30
	far := good(8)
	far.RTT = 70
	joker, lost := good(7), good(6)
	joker.Advert.Region, lost.RTT = "\x1b[2J; rm", -1
	for name, tc := range map[string]struct {
		task  func(*Task)
		nodes []Candidate
		text  string
		next  string
	}{
		"nobody": {text: "no provider fits: none is connected"},
		"price": {task: func(t *Task) { t.Terms.MaxPrice, t.Terms.Needs.VRAM = 100_000, 24<<30 },
			nodes: []Candidate{dear(1, 400_000), dear(2, 450_000), dear(3, 420_000), small},
			text:  "no provider fits: 1 has less than 24 GiB VRAM, 3 ask more than 0.10 cr/GPU-h (nearest asks 0.40)", next: "--max-price 0.41"},
		"price against the class reserve": {nodes: []Candidate{dear(1, 600_000)},
			text: "no provider fits: 1 asks more than 0.50 cr/GPU-h (nearest asks 0.60)"},
		"total": {task: func(t *Task) { t.Terms.MaxTotal = 1000 }, nodes: []Candidate{dear(1, 200_000)},
			text: "no provider fits: 1 asks more than 0.06 cr/GPU-h (nearest asks 0.20)", next: "--max-total 0.003501"},
		"memory": {task: func(t *Task) { t.Terms.Needs.VRAM = 24 << 30 }, nodes: []Candidate{small},
			text: "no provider fits: 1 has less than 24 GiB VRAM", next: "--min-vram 8GiB"},
		"distance": {task: func(t *Task) { t.Terms.Needs.MaxRTT = 10 }, nodes: []Candidate{far},
			text: "no provider fits: 1 is farther than 10 ms", next: "--max-rtt 70ms"},
		"reliability": {task: func(t *Task) { t.Terms.Needs.Reliability = 990_000 }, nodes: []Candidate{good(1)},
			text: "no provider fits: 1 is less reliable than 0.99", next: "--min-reliability 0.948658"},
		"tier": {task: func(t *Task) { t.Terms.Tier = record.Gold }, nodes: []Candidate{good(1), good(2)},
			text: "no provider fits: 2 do not sell tier gold", next: "--tier bronze"},
		"region": {task: func(t *Task) { t.Terms.Needs.Region = "us" }, nodes: []Candidate{good(1)},
			text: "no provider fits: 1 is outside region us", next: "--region eu-de"},
		"region of a joker": {task: func(t *Task) { t.Terms.Needs.Region = "us" }, nodes: []Candidate{joker},
			text: "no provider fits: 1 is outside region us", next: `--region "\x1b[2J; rm"`},
		"distance unknown": {task: func(t *Task) { t.Terms.Needs.MaxRTT = 10 }, nodes: []Candidate{lost},
			text: "no provider fits: 1 is farther than 10 ms"},
		"model": {task: func(t *Task) { t.Terms.Needs.Model = "H100" }, nodes: []Candidate{good(1)},
			text: "no provider fits: 1 is not of model H100", next: `--gpu "NVIDIA GeForce RTX 4090"`},
		"two reasons at once": {task: func(t *Task) { t.Terms.Needs.Region, t.Terms.Tier = "us", record.Gold }, nodes: []Candidate{good(1)},
			text: "no provider fits: 1 is outside region us"},
	} {
		t.Run(name, func(t *testing.T) {
			k := task()
			if tc.task != nil {
				tc.task(&k)
			}
			b := NewBook(p, 0)
			for i, c := range tc.nodes {
				c.Advert.Seq = uint64(i)
				if err := b.Advert(now, c.ID, c.Advert); err != nil {
					t.Fatal(err)
				}
				c.Standing.Day = int64(now) / day
				b.nodes[c.ID].standing, b.nodes[c.ID].since = c.Standing, now-c.Age
				b.Measured(c.ID, c.RTT)
			}
			b.Want(now, k)
			steps := b.Next(now)
			var e *NoMatchError
			if len(steps) != 1 || !errors.As(steps[0].Err, &e) {
				t.Fatalf("Next = %+v, want a NoMatchError", steps)
			}
			if e.Error() != tc.text || e.Next() != tc.next || e.Nodes != len(tc.nodes) {
				t.Errorf("%d nodes: %q, next %q\nwant %q, next %q", e.Nodes, e.Error(), e.Next(), tc.text, tc.next)
			}
			// What it says helps, helps.
			if flag, value, ok := strings.Cut(e.Next(), " "); ok {
				relaxed(t, &k, flag, value)
				if q := b.Quote(now, k.Terms, 0); q.Fits != e.Nearest[0].Fits || q.Fits == 0 {
					t.Errorf("with %s %d fit, promised %d", e.Next(), q.Fits, e.Nearest[0].Fits)
				}
			}
		})
	}
}

func relaxed(t *testing.T, k *Task, flag, value string) {
	t.Helper()
	amount, _ := record.ParseAmount(value)
	switch flag {
	case "--max-price":
		k.Terms.MaxPrice = amount
	case "--max-total":
		k.Terms.MaxTotal = amount
	case "--min-vram":
		k.Terms.Needs.VRAM = 8 << 30
	case "--max-rtt":
		k.Terms.Needs.MaxRTT = 70
	case "--min-reliability":
		k.Terms.Needs.Reliability = uint32(amount)
	case "--tier":
		k.Terms.Tier = record.Bronze
	case "--region":
		if k.Terms.Needs.Region = value; value[0] == '"' {
			k.Terms.Needs.Region = "\x1b[2J; rm"
		}
	case "--gpu":
		k.Terms.Needs.Model = strings.Trim(value, `"`)
	default:
		t.Fatalf("unknown flag %s", flag)
	}
}
