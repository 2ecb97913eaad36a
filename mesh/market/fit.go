package market

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"idlemesh/ledger/record"
)

// A Reason says why a candidate cannot serve a task; zero means that he can.
type Reason uint8

// Reasons. Busy and Avoided pass by themselves, and a task waits for that.
const (
	Stale       Reason = iota + 1 // the advert has expired
	WrongRegion                   // Needs.Region
	WrongTier                     // the owner does not sell it
	WrongModel                    // Needs.Model
	TooSmall                      // Needs.VRAM
	Simulated                     // and the mesh lets no simulated device earn
	NoWindow                      // none open that is long enough, with guard
	TooFar                        // Needs.MaxRTT; unknown is too far
	Unreliable                    // Needs.Reliability
	TooDear                       // C > R
	Declined                      // its owner's policy refuses this job
	OtherOffer                    // the bid is not what the node advertises
	Avoided                       // it lost this task before
	Busy                          // no slot is free
)

var reasons = [...]string{Stale: "stale-advert", WrongRegion: "region", WrongTier: "tier", WrongModel: "gpu", TooSmall: "vram",
	Simulated: "simulated", NoWindow: "window", TooFar: "rtt", Unreliable: "reliability", TooDear: "price", Declined: "declined",
	OtherOffer: "other-offer", Avoided: "avoided", Busy: "busy"}

// String returns the reason's name.
func (r Reason) String() string {
	if int(r) >= len(reasons) {
		return fmt.Sprintf("reason %d", uint8(r))
	}
	return reasons[r]
}

// MarshalText returns the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A set of reasons, a bit each.
type set uint32

func (s set) has(r Reason) bool { return s>>r&1 == 1 }

func (s *set) add(r Reason, holds bool) {
	if holds {
		*s |= 1 << r
	}
}

// first is the reason to tell.
func (s set) first() Reason { return Reason(bits.TrailingZeros32(uint32(s))) }

const passing = set(1<<Avoided | 1<<Busy)

// Fit returns why c cannot serve t at now, the first of the reasons in their order.
func Fit(t Task, c Candidate, now record.Millis, p record.Params) Reason {
	if s := misfits(t, c, now, p); s != 0 {
		return s.first()
	}
	return 0
}

// misfits returns every reason why c cannot serve t at now.
func misfits(t Task, c Candidate, now record.Millis, p record.Params) (s set) {
	need, a, limit := t.Terms.Needs, c.Advert, Ceiling(t, p)
	s.add(Stale, a.Expires <= now)
	s.add(WrongRegion, !within(a.Region, need.Region))
	s.add(WrongTier, !slices.Contains(a.Tiers, t.Terms.Tier))
	s.add(WrongModel, need.Model != "" && !strings.Contains(normal(a.Device.Model), normal(need.Model)))
	s.add(TooSmall, a.Device.VRAM < need.VRAM)
	s.add(Simulated, a.Device.Simulated && !p.AllowSimulated)
	s.add(NoWindow, !slices.ContainsFunc(a.Windows, func(w record.Window) bool { return holds(w, now, Span(t, c)) }))
	s.add(TooFar, need.MaxRTT > 0 && (c.RTT < 0 || c.RTT > need.MaxRTT))
	s.add(Unreliable, c.Standing.Reliability() < need.Reliability)
	s.add(TooDear, score(t, c, a.Ask, limit) > limit)
	s.add(Avoided, slices.Contains(t.Avoid, c.ID))
	s.add(Busy, c.free() == 0)
	return s
}

// free is how many tasks c can take. The advert's own count lags behind the leases
// that this gateway made since; it is believed when it tells of somebody else's.
func (c Candidate) free() uint32 {
	if c.Busy >= c.Advert.Slots || c.Busy == 0 && c.Advert.Free == 0 {
		return 0
	}
	return c.Advert.Slots - c.Busy
}

// holds reports whether a run of span, started at now, ends inside w with a guard of
// 5 seconds and a tenth: estimates err, and what a window cuts off is lost.
func holds(w record.Window, now, span record.Millis) bool {
	return w.From <= now && now+span+span/10+5000 <= w.Until
}

// within reports whether a region is the wanted one or a part of it: eu-west is
// within eu.
func within(region, want string) bool {
	region, want = strings.ToLower(region), strings.ToLower(want)
	return want == "" || region == want || strings.HasPrefix(region, want+"-")
}

// normal is a model's name as it is compared: RTX 4090, rtx-4090 and rtx4090 are one.
func normal(model string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, model)
}
