package policy

import (
	"cmp"
	"slices"
	"time"

	"idlemesh/ledger/record"
)

// Open looks at most so far ahead, and returns at most so many windows.
const (
	horizon = 35 * 24 * time.Hour
	maxOpen = 64
)

// Open returns when the device is for sale between from and until: concrete windows
// in UTC, in order, apart from each other, none shorter than MinWindow. It looks at
// most 35 days ahead and returns the first 64.
//
// A wall-clock time means the first instant at which the owner's clock shows it or
// has passed it. So where clocks are put back, the first of two equal times counts;
// where they are put forward, a time that is left out is the moment of the change.
func (p Policy) Open(from, until record.Millis) []record.Window {
	until = min(until, from+record.Span(horizon))
	open := []record.Window{{From: from, Until: until}}
	if len(p.Windows) > 0 {
		open = p.weekly(from, until)
	}
	open = slices.DeleteFunc(open, func(w record.Window) bool { return w.Until-w.From < max(p.MinWindow, 1) })
	return open[:min(len(open), maxOpen)]
}

func (p Policy) weekly(from, until record.Millis) []record.Window {
	zone := cmp.Or(p.Zone, time.UTC)
	// A window that starts the day before yesterday may reach into today.
	first := from.Time().In(zone).AddDate(0, 0, -2)
	var all []record.Window
	for i := 0; ; i++ {
		day := time.Date(first.Year(), first.Month(), first.Day()+i, 0, 0, 0, 0, time.UTC)
		if record.At(day) > until+record.Span(48*time.Hour) {
			break
		}
		for _, w := range p.Windows {
			if !w.Days[day.Weekday()] {
				continue
			}
			end := w.Until
			if end <= w.From {
				end += 24 * 60
			}
			c := record.Window{From: max(instant(day, w.From, zone), from), Until: min(instant(day, end, zone), until)}
			if c.From < c.Until {
				all = append(all, c)
			}
		}
	}
	return merge(all)
}

// instant is the first moment at which the clock of zone shows minute of day, or
// later. Day is midnight, as if the zone were UTC.
func instant(day time.Time, minute int, zone *time.Location) record.Millis {
	wall := day.Unix() + int64(minute)*60
	// No zone is more than 26 hours from another: here its clock shows less.
	t := time.Unix(wall-26*3600, 0).In(zone)
	for {
		_, offset := t.Zone()
		x := max(wall-int64(offset), t.Unix())
		_, end := t.ZoneBounds()
		if end.IsZero() || x < end.Unix() {
			return record.Millis(x * 1000)
		}
		t = end
	}
}

// merge sorts windows and joins those that touch.
func merge(all []record.Window) []record.Window {
	slices.SortFunc(all, func(a, b record.Window) int { return cmp.Compare(a.From, b.From) })
	var out []record.Window
	for _, w := range all {
		if n := len(out); n > 0 && w.From <= out[n-1].Until {
			out[n-1].Until = max(out[n-1].Until, w.Until)
			continue
		}
		out = append(out, w)
	}
	return out
}
