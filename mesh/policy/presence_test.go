package policy_test

import (
	"strings"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/policy"
)

// see is a sight of an idle device s seconds after midnight of a Monday.
func see(s int, change ...func(*policy.Sight)) policy.Sight {
	monday := record.At(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	x := policy.Sight{At: monday + record.Millis(s)*1000, Load: 0, Celsius: 40, Watts: 30}
	for _, f := range change {
		f(&x)
	}
	return x
}

func load(percent int) func(*policy.Sight) { return func(s *policy.Sight) { s.Load = percent } }
func hot(celsius int) func(*policy.Sight)  { return func(s *policy.Sight) { s.Celsius = celsius } }
func power(watts int) func(*policy.Sight)  { return func(s *policy.Sight) { s.Watts = watts } }
func works(n int) func(*policy.Sight)      { return func(s *policy.Sight) { s.Processes = n } }
func wish(w policy.Wish) func(*policy.Sight) {
	return func(s *policy.Sight) { s.Wish = w }
}

func blind(s *policy.Sight) {
	s.Processes, s.Load, s.Celsius, s.Watts = policy.Unknown, policy.Unknown, policy.Unknown, policy.Unknown
}

func TestNext(t *testing.T) {
	caps := policy.Policy{Presence: policy.Presence{MaxCelsius: 80, MaxWatts: 300}}
	brief := policy.Policy{Presence: policy.Presence{Load: 50, Quiet: 10_000}}
	nights := policy.Policy{Windows: []policy.Weekly{{Days: [7]bool{true, true, true, true, true, true, true}, From: 0, Until: 1}}}
	for name, tc := range map[string]struct {
		policy policy.Policy
		sights []policy.Sight
		want   policy.State
		why    string
	}{
		"nothing happens":              {sights: []policy.Sight{see(0), see(100)}},
		"no sensor":                    {policy: caps, sights: []policy.Sight{see(0, blind), see(100, blind)}},
		"a short burst":                {sights: []policy.Sight{see(0, load(90)), see(2, load(90)), see(3), see(4, load(90))}},
		"load up to the limit":         {sights: []policy.Sight{see(0, load(5)), see(10, load(5))}},
		"load that lasts":              {sights: []policy.Sight{see(0, load(6)), see(3, load(6))}, want: policy.Reclaimed, why: "6 %"},
		"load the owner allows":        {policy: brief, sights: []policy.Sight{see(0, load(50)), see(3, load(50))}},
		"a process":                    {sights: []policy.Sight{see(0, works(1))}, want: policy.Reclaimed, why: "1 processes"},
		"rests":                        {sights: []policy.Sight{see(0, works(1)), see(1), see(179)}, want: policy.Reclaimed, why: "1 processes"},
		"has rested":                   {sights: []policy.Sight{see(0, works(1)), see(1), see(180)}},
		"comes back while it rests":    {sights: []policy.Sight{see(0, works(1)), see(100, works(1)), see(200)}, want: policy.Reclaimed, why: "processes"},
		"a rest of the owner's":        {policy: brief, sights: []policy.Sight{see(0, works(1)), see(10)}},
		"too hot":                      {policy: caps, sights: []policy.Sight{see(0, hot(81))}, want: policy.Reclaimed, why: "81 °C"},
		"as hot as it may be":          {policy: caps, sights: []policy.Sight{see(0, hot(80))}},
		"too much power":               {policy: caps, sights: []policy.Sight{see(0, power(301))}, want: policy.Reclaimed, why: "301 W"},
		"no cap":                       {sights: []policy.Sight{see(0, hot(110), power(900))}},
		"paused":                       {sights: []policy.Sight{see(0, wish(policy.Pause))}, want: policy.Reclaimed, why: "paused"},
		"resumed at once":              {sights: []policy.Sight{see(0, wish(policy.Pause)), see(1)}},
		"drains":                       {sights: []policy.Sight{see(0, wish(policy.Drain))}, want: policy.Draining, why: "asked"},
		"work while it drains":         {sights: []policy.Sight{see(0, wish(policy.Drain)), see(1, wish(policy.Drain), works(1))}, want: policy.Reclaimed},
		"window ends":                  {policy: nights, sights: []policy.Sight{see(59), see(60)}, want: policy.Reclaimed, why: "windows"},
		"window opens":                 {policy: nights, sights: []policy.Sight{see(60), see(24 * 3600)}},
		"work goes on when it reopens": {policy: nights, sights: []policy.Sight{see(60, load(9)), see(24*3600, load(9))}, want: policy.Reclaimed, why: "9 %"},
	} {
		t.Run(name, func(t *testing.T) {
			var c policy.Claim
			for _, s := range tc.sights {
				c = tc.policy.Next(c, s)
			}
			if c.State != tc.want || !strings.Contains(c.Why, tc.why) || (c.Why == "") != (c.State == policy.Free) {
				t.Errorf("%s because %q, want %s because %q", c.State, c.Why, tc.want, tc.why)
			}
		})
	}
}

func TestPresenceKeys(t *testing.T) {
	p, err := policy.Parse([]byte("foreign-load: 20\nquiet: 1m\nmax-celsius: 85\nmax-watts: 250\n"))
	want := policy.Presence{Load: 20, Quiet: 60_000, MaxCelsius: 85, MaxWatts: 250}
	if err != nil || p.Presence != want {
		t.Errorf("%+v, %v, want %+v", p.Presence, err, want)
	}
	for _, bad := range []string{"foreign-load: 100", "foreign-load: -1", "quiet: x", "max-celsius: 1000", "max-watts: -5", "max-watts: 1.5"} {
		if _, err := policy.Parse([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}
