package cli

import (
	"strings"
	"testing"
	"time"

	"idlemesh/ledger/record"
)

// TestClock: a clock more than half a minute off the ledger's is a failure with a remedy,
// whatever the way; a slow answer is not taken for a wrong clock.
func TestClock(t *testing.T) {
	now := time.Date(2026, 12, 1, 7, 0, 0, 0, time.UTC)
	at := func(d time.Duration) record.Millis { return record.At(now.Add(d)) }
	for name, tc := range map[string]struct {
		took   time.Duration
		ledger record.Millis
		like   finding
		says   string
	}{
		"right":                    {20 * time.Millisecond, at(10 * time.Millisecond), ok(""), "0.0 s"},
		"a second off":             {0, at(time.Second), ok(""), "1.0 s behind"},
		"ten seconds off":          {0, at(-10 * time.Second), warn("", ""), "10.0 s ahead of"},
		"a minute behind":          {0, at(time.Minute), fail("", ""), "60.0 s behind"},
		"a year ahead":             {0, at(-365 * 24 * time.Hour), fail("", ""), "ahead of"},
		"thirty seconds off":       {0, at(30 * time.Second), warn("", ""), "30.0 s behind"},
		"a slow answer":            {70 * time.Second, at(0), ok(""), "35.0 s ahead of"},
		"a keeper that tells none": {0, 0, warn("", ""), "does not tell"},
	} {
		f := compare(now, now.Add(tc.took), tc.ledger)
		if f.State != tc.like.State || !strings.Contains(f.Found, tc.says) {
			t.Errorf("%s: %+v, want %v and %q", name, f, tc.like.State, tc.says)
		}
		if f.State == "fail" && !strings.Contains(f.Remedy, "timedatectl") {
			t.Errorf("%s: the remedy is %q", name, f.Remedy)
		}
	}
}
