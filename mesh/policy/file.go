package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"idlemesh/ledger/record"
)

// Bounds of policy.yaml.
const (
	maxFile    = 64 << 10
	maxWindows = 100
	maxTenants = 1000
	maxSlots   = 1024
)

// Sample is a policy.yaml with every key, explained. As it stands it sells as the
// empty file does: from nothing, always, to everybody.
const Sample = `# policy.yaml: what this node sells. Every key may be left out.

# floor: the least you take for one hour of this device, in credits.
floor: "0"

# region: where the node stands, as tenants ask for it, such as eu-de or us-east.
region: ""

# zone: the IANA time zone of the windows below, such as Europe/Berlin.
zone: UTC

# windows: when the node is for sale, every week. None means always. days is a day, a
# range or a list of them; left out it is every day. A window whose until is not after
# its from ends on the next day. For instance nights on working days, and weekends:
#   windows:
#     - {days: mon-thu, from: "18:00", until: "08:00"}
#     - {days: [fri], from: "18:00", until: "24:00"}
#     - {days: [sat, sun], from: "00:00", until: "24:00"}
windows: []

# min-window: what is left of a window is not sold when it is shorter than this.
min-window: 0s

# tiers: which promises you make: bronze may be preempted, silver runs on demand, gold
# is reserved. None means all.
tiers: []

# tenants: the accounts you serve, 52 letters each, as "meshctl key show" prints them.
# None means everybody.
tenants: []

# slots: tasks that run at once. 0 leaves it to the node.
slots: 0

# hand-back: when you want the device back, its task is gone within this time.
hand-back: 5s

# foreign-load: when work that is not the node's takes more than this many percent of the
# device's time for 3 seconds, the device is yours again.
foreign-load: 5

# quiet: the device is for sale again when it has been left alone for so long.
quiet: 3m

# max-celsius: when the device is hotter than this it rests. 0 is no cap; where no sensor
# tells there is none.
max-celsius: 0

# max-watts: when the device draws more than this it rests. 0 is no cap, as above.
max-watts: 0
`

type file struct {
	Floor     *text[record.Amount]  `yaml:"floor"`
	Region    string                `yaml:"region"`
	Zone      *text[*time.Location] `yaml:"zone"`
	Windows   []weekly              `yaml:"windows"`
	MinWindow *text[record.Millis]  `yaml:"min-window"`
	Tiers     []text[record.Tier]   `yaml:"tiers"`
	Tenants   []text[record.NodeID] `yaml:"tenants"`
	Slots     *text[uint32]         `yaml:"slots"`
	HandBack  *text[record.Millis]  `yaml:"hand-back"`
	Load      *text[uint32]         `yaml:"foreign-load"`
	Quiet     *text[record.Millis]  `yaml:"quiet"`
	Celsius   *text[uint32]         `yaml:"max-celsius"`
	Watts     *text[uint32]         `yaml:"max-watts"`
}

type weekly struct {
	Days  *text[[7]bool] `yaml:"days"`
	From  *text[int]     `yaml:"from"`
	Until *text[int]     `yaml:"until"`
	line  int
}

// Parse reads policy.yaml. What it does not know or understand is an error with the
// line: a misspelt key must not sell what its owner meant to keep.
func Parse(b []byte) (Policy, error) {
	p, err := read(b)
	if err != nil {
		return Policy{}, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}

func read(b []byte) (Policy, error) {
	if len(b) > maxFile {
		return Policy{}, fmt.Errorf("%d bytes, at most %d", len(b), maxFile)
	}
	var f file
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); errors.Is(err, io.EOF) {
		return Policy{}, nil
	} else if err != nil {
		return Policy{}, oneLine(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Policy{}, errors.New("a second document follows: one file is one policy")
	}
	return f.policy()
}

func (f file) policy() (Policy, error) {
	p := Policy{Floor: f.Floor.or(0), Region: f.Region, Zone: f.Zone.or(nil), Slots: f.Slots.or(0),
		HandBack: f.HandBack.or(0), MinWindow: f.MinWindow.or(0),
		Presence: Presence{Load: int(f.Load.or(0)), Quiet: f.Quiet.or(0), MaxCelsius: int(f.Celsius.or(0)), MaxWatts: int(f.Watts.or(0))}}
	switch {
	case len(f.Windows) > maxWindows:
		return p, fmt.Errorf("%d windows, at most %d", len(f.Windows), maxWindows)
	case len(f.Tenants) > maxTenants:
		return p, fmt.Errorf("%d tenants, at most %d", len(f.Tenants), maxTenants)
	case p.Slots > maxSlots:
		return p, fmt.Errorf("slots: %d, at most %d", p.Slots, maxSlots)
	case p.Presence.Load > 99:
		return p, fmt.Errorf("foreign-load: %d percent: want 1 to 99, or 0 for the default", p.Presence.Load)
	case p.Presence.MaxCelsius > 200:
		return p, fmt.Errorf("max-celsius: %d: want up to 200, or 0 for no cap", p.Presence.MaxCelsius)
	case p.Presence.MaxWatts > 5000:
		return p, fmt.Errorf("max-watts: %d: want up to 5000, or 0 for no cap", p.Presence.MaxWatts)
	case len(f.Region) > 64:
		return p, errors.New("region: at most 64 bytes")
	}
	for _, w := range f.Windows {
		if w.From == nil || w.Until == nil {
			return p, fmt.Errorf("line %d: a window needs from and until", w.line)
		}
		if w.From.v == 24*60 {
			return p, fmt.Errorf("line %d: from 24:00 is 00:00 of the next day: write that", w.line)
		}
		every := [7]bool{true, true, true, true, true, true, true}
		p.Windows = append(p.Windows, Weekly{Days: w.Days.or(every), From: w.From.v, Until: cmp.Or(w.Until.v, 24*60)})
	}
	for _, t := range f.Tiers {
		p.Tiers = append(p.Tiers, t.v)
	}
	for _, t := range f.Tenants {
		p.Tenants = append(p.Tenants, t.v)
	}
	return p, nil
}

// UnmarshalYAML keeps the line, and refuses unknown keys where the decoder's own
// check does not reach.
func (w *weekly) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if k := n.Content[i]; !slices.Contains([]string{"days", "from", "until"}, k.Value) {
				return fmt.Errorf("line %d: unknown key %q in a window: want days, from, until", k.Line, k.Value)
			}
		}
	}
	type plain weekly
	w.line = n.Line
	return n.Decode((*plain)(w))
}

// A text is a value with a text form of its own.
type text[T any] struct{ v T }

func (t *text[T]) or(def T) T {
	if t == nil {
		return def
	}
	return t.v
}

// UnmarshalYAML reads the value and names the line of what it refuses.
func (t *text[T]) UnmarshalYAML(n *yaml.Node) (err error) {
	words := []string{n.Value}
	switch v := any(&t.v).(type) {
	case *[7]bool:
		if n.Kind == yaml.SequenceNode {
			words = nil
			for _, c := range n.Content {
				words = append(words, c.Value)
			}
		}
		*v, err = days(words)
	case *record.Amount:
		*v, err = record.ParseAmount(n.Value)
	case **time.Location:
		*v, err = location(n.Value)
	case *int:
		*v, err = minute(n.Value)
	case *uint32:
		*v, err = count(n.Value)
	case *record.Millis:
		*v, err = span(n.Value)
	case *record.Tier:
		*v, err = record.ParseTier(n.Value)
	case *record.NodeID:
		*v, err = record.ParseNodeID(n.Value)
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

func location(s string) (*time.Location, error) {
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || s == "Local" {
		return nil, fmt.Errorf("%q is not a time zone: want an IANA name such as Europe/Berlin", s)
	}
	return zone, nil
}

func minute(s string) (int, error) {
	t, err := time.Parse("15:04", s)
	switch {
	case s == "24:00":
		return 24 * 60, nil
	case err != nil || len(s) != len("15:04"):
		return 0, fmt.Errorf("%q is not a time of day: want \"18:00\", in quotes", s)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// count is strict where the decoder would take 1.5 for 1.
func count(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number from 0", s)
	}
	return uint32(n), nil
}

func span(s string) (record.Millis, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 7*24*time.Hour {
		return 0, fmt.Errorf("%q is not a duration up to a week: want 5s, 30m or 2h", s)
	}
	return record.Span(d), nil
}

var week = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func days(words []string) (set [7]bool, err error) {
	for _, w := range words {
		first, last, isRange := strings.Cut(w, "-")
		from, to := slices.Index(week, first), slices.Index(week, last)
		if !isRange {
			to = from
		}
		if from < 0 || to < 0 {
			return set, fmt.Errorf("%q are no days: want mon, mon-fri or a list of them", w)
		}
		for i := from; ; i = (i + 1) % 7 {
			if set[i] = true; i == to {
				break
			}
		}
	}
	if set == ([7]bool{}) {
		return set, errors.New("a window on no day: leave days out for every day")
	}
	return set, nil
}

var unknown = regexp.MustCompile(`field (\S*) not found in type \S+`)

// oneLine puts what the decoder says on several lines on one.
func oneLine(err error) error {
	s := strings.TrimPrefix(err.Error(), "yaml: ")
	s = strings.TrimPrefix(s, "unmarshal errors:\n")
	s = unknown.ReplaceAllString(s, "unknown key $1")
	return errors.New(strings.Join(strings.Fields(s), " "))
}
