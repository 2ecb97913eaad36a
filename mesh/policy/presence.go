package policy

import (
	"cmp"
	"fmt"

	"idlemesh/ledger/record"
)

// A Wish is what the owner has asked for by hand.
type Wish uint8

// Wishes.
const (
	Sell  Wish = iota // as the policy says
	Drain             // let what runs end, begin nothing
	Pause             // give the device back now
)

// A State is where a device stands between its owner and the market.
type State uint8

// States.
const (
	Free      State = iota // for sale
	Draining               // what runs may end, nothing begins
	Reclaimed              // the owner's: nothing runs
)

var states = [...]string{Free: "free", Draining: "draining", Reclaimed: "reclaimed"}

// String returns the state's name.
func (s State) String() string {
	if int(s) >= len(states) {
		return fmt.Sprintf("state %d", uint8(s))
	}
	return states[s]
}

// Unknown is the value in a Sight of what no sensor tells.
const Unknown = -1

// A Sight is what is seen of a device, and of its owner, at one moment. What no sensor
// tells is Unknown, never zero.
type Sight struct {
	At        record.Millis
	Processes int // computing on the device, not ours
	Load      int // percent of the device's time that is not ours
	Celsius   int
	Watts     int
	Wish      Wish
}

// A Claim is a device's state, why, and what decides how long. The zero value is free.
type Claim struct {
	State State
	Why   string // for people; empty when free

	loud  record.Millis // since when another's load is seen; zero when it is not
	quiet record.Millis // since when nothing calls for the device; zero when something does
}

// What Presence's zeros mean.
const (
	foreignLoad               = 5       // percent
	foreignFor  record.Millis = 3_000   // that it lasts before it counts
	quietFor    record.Millis = 180_000 // before the device is for sale again
)

// A Presence says what takes the device back from the market. Zeros are defaults, or no
// cap.
type Presence struct {
	Load       int           // percent of the device's time that another's work may take
	Quiet      record.Millis // how long the device rests before it is for sale again
	MaxCelsius int
	MaxWatts   int
}

// Next returns the claim after a sight. The owner's wish comes before his windows, these
// before what the sensors show. What the sensors have taken back is free again after a
// rest; what a wish or a window has is free as soon as it ends.
func (p Policy) Next(c Claim, s Sight) Claim {
	c.loud = since(c.loud, s.At, s.Load > cmp.Or(p.Presence.Load, foreignLoad))
	if why := p.held(s); why != "" {
		return Claim{State: Reclaimed, Why: why, loud: c.loud}
	}
	why := p.taken(c, s)
	switch {
	case why != "":
		return Claim{State: Reclaimed, Why: why, loud: c.loud, quiet: s.At}
	case c.quiet != 0 && s.At-c.quiet < cmp.Or(p.Presence.Quiet, quietFor):
		return c
	case s.Wish == Drain:
		return Claim{State: Draining, Why: "draining, as its owner asked", loud: c.loud}
	}
	return Claim{loud: c.loud}
}

// held is why the device is not for sale whatever happens on it.
func (p Policy) held(s Sight) string {
	switch w := p.Open(s.At, s.At+max(p.MinWindow, 1)); {
	case s.Wish == Pause:
		return "paused by its owner"
	case len(w) == 0 || w[0].From > s.At:
		return "outside its owner's windows"
	}
	return ""
}

// taken is what on the device calls for it.
func (p Policy) taken(c Claim, s Sight) string {
	q := p.Presence
	switch {
	case s.Processes > 0:
		return fmt.Sprintf("its owner's work: %d processes on the device", s.Processes)
	case c.loud != 0 && s.At-c.loud >= foreignFor:
		return fmt.Sprintf("its owner's work: %d %% of the device", s.Load)
	case q.MaxCelsius > 0 && s.Celsius > q.MaxCelsius:
		return fmt.Sprintf("%d °C, above its owner's cap of %d", s.Celsius, q.MaxCelsius)
	case q.MaxWatts > 0 && s.Watts > q.MaxWatts:
		return fmt.Sprintf("%d W, above its owner's cap of %d", s.Watts, q.MaxWatts)
	}
	return ""
}

func since(was, now record.Millis, is bool) record.Millis {
	if !is {
		return 0
	}
	return cmp.Or(was, now)
}
