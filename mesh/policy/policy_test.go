package policy

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"idlemesh/ledger/record"
)

const tenant = "aiaacaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestParse(t *testing.T) {
	all := [7]bool{true, true, true, true, true, true, true}
	id, err := record.ParseNodeID(tenant)
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file string
		want Policy
	}{
		"nothing":       {},
		"only comments": {file: "# nothing\n"},
		"everything": {file: `
floor: "0.25"
region: eu-de
zone: Europe/Berlin
windows:
  - {days: mon-fri, from: "18:00", until: "08:00"}
  - {days: [sat, sun], from: "00:00", until: "24:00"}
  - {from: "12:00", until: "13:30"}
min-window: 10m
tiers: [bronze, silver]
tenants: [` + tenant + `]
slots: 3
hand-back: 2s
`, want: Policy{Floor: 250_000, Region: "eu-de", Zone: berlin, Windows: []Weekly{
			{[7]bool{false, true, true, true, true, true, false}, 1080, 480}, {[7]bool{true, false, false, false, false, false, true}, 0, 1440},
			{all, 720, 810}}, MinWindow: 600_000, Tiers: []record.Tier{record.Bronze, record.Silver}, Tenants: []record.NodeID{id}, Slots: 3, HandBack: 2000}},
		"a number as floor":         {file: "floor: 0.25", want: Policy{Floor: 250_000}},
		"days over the end of week": {file: `windows: [{days: fri-mon, from: "00:00", until: "00:00"}]`, want: Policy{Windows: []Weekly{{[7]bool{true, true, false, false, false, true, true}, 0, 1440}}}},
		"the sample sells it all":   {file: Sample, want: Policy{Zone: time.UTC, HandBack: HandBack, Presence: Presence{Load: foreignLoad, Quiet: quietFor}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.file))
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("Parse = %+v, %v\nwant    %+v", got, err, tc.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"an unknown key":           {"floor: 1\nflor: 2\n", "policy: line 2: unknown key flor"},
		"an unknown key in window": {"windows:\n - from: \"18:00\"\n   untill: \"08:00\"\n", `line 3: unknown key "untill" in a window: want days, from, until`},
		"a key twice":              {"floor: 1\nfloor: 2\n", "line 2: mapping key \"floor\" already defined at line 1"},
		"a negative floor":         {"\nfloor: -1\n", `line 2: "-1" is not an amount`},
		"too fine a floor":         {"floor: 0.1234567\n", "line 1: "},
		"no zone":                  {"zone: Mars/Olympus\n", `line 1: "Mars/Olympus" is not a time zone`},
		"the machine's zone":       {"zone: Local\n", "want an IANA name"},
		"a path as zone":           {"zone: ../../etc/passwd\n", "is not a time zone"},
		"no day":                   {"windows: [{days: monday, from: \"18:00\", until: \"08:00\"}]\n", `line 1: "monday" are no days`},
		"an empty list of days":    {"windows: [{days: [], from: \"18:00\", until: \"08:00\"}]\n", "a window on no day"},
		"half a window":            {"windows:\n - {days: mon, from: \"18:00\"}\n", "line 2: a window needs from and until"},
		"no time of day":           {"windows: [{from: \"25:00\", until: \"08:00\"}]\n", `"25:00" is not a time of day`},
		"a short time of day":      {"windows: [{from: \"8:00\", until: \"09:00\"}]\n", `"8:00" is not a time of day`},
		"from the end of day":      {"windows: [{from: \"24:00\", until: \"08:00\"}]\n", "write that"},
		"no duration":              {"hand-back: soon\n", `line 1: "soon" is not a duration`},
		"a long duration":          {"min-window: 1000h\n", "up to a week"},
		"no tier":                  {"tiers: [bronze,\n  lead]\n", `line 2: "lead" is not a tier`},
		"no tenant":                {"tenants: [me]\n", `line 1: "me" is not a node id`},
		"many slots":               {"slots: 1025\n", "at most 1024"},
		"negative slots":           {"slots: -1\n", "line 1"},
		"half a slot":              {"slots: 1.5\n", "line 1"},
		"a list":                   {"- floor\n", "line 1"},
		"a second document":        {"floor: 1\n---\nfloor: 2\n", "a second document"},
		"no yaml":                  {"floor: [\n", "line "},
		"many windows":             {"windows:\n" + strings.Repeat(" - {from: \"01:00\", until: \"02:00\"}\n", 101), "101 windows, at most 100"},
		"many tenants":             {"tenants:\n" + strings.Repeat(" - "+tenant+"\n", 1001), "1001 tenants, at most 1000"},
		"a large file":             {strings.Repeat("#", maxFile+1), "at most 65536"},
		"a bomb": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ntenants: [*d,*d,*d,*d,*d,*d]\n", "line "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.file))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Parse: %v, want one line with %q", err, tc.want)
			}
		})
	}
}

// Every key stands in the sample with a comment, and every key there is one.
func TestSampleExplainsEveryKey(t *testing.T) {
	typ := reflect.TypeFor[file]()
	for i := range typ.NumField() {
		key := typ.Field(i).Tag.Get("yaml")
		if !strings.Contains(Sample, "\n# "+key+": ") || !strings.Contains(Sample, "\n"+key+": ") {
			t.Errorf("%s is not explained", key)
		}
	}
	_, example, _ := strings.Cut(Sample, "#   windows:")
	example, _, _ = strings.Cut(example, "\nwindows:")
	p, err := Parse([]byte("windows:" + strings.ReplaceAll(example, "\n#", "\n")))
	if err != nil || len(p.Windows) != 3 {
		t.Errorf("the example of windows: %+v, %v", p.Windows, err)
	}
}

func TestOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		file        string
		from, until string
		want        []string // "from until" in UTC
	}{
		"always": {from: "2026-07-01T10:00", until: "2026-07-02T10:00", want: []string{"2026-07-01T10:00 2026-07-02T10:00"}},
		"working hours": {file: `{zone: UTC, windows: [{days: mon-fri, from: "09:00", until: "17:00"}]}`, from: "2026-07-02T12:00", until: "2026-07-06T10:00",
			want: []string{"2026-07-02T12:00 2026-07-02T17:00", "2026-07-03T09:00 2026-07-03T17:00", "2026-07-06T09:00 2026-07-06T10:00"}},
		"over midnight, begun yesterday": {file: `{zone: Europe/Berlin, windows: [{days: mon-thu, from: "18:00", until: "08:00"}]}`,
			from: "2026-07-03T04:00", until: "2026-07-04T04:00", want: []string{"2026-07-03T04:00 2026-07-03T06:00"}},
		"days that touch are one window": {file: `{windows: [{days: [sat, sun], from: "00:00", until: "24:00"}]}`,
			from: "2026-07-03T00:00", until: "2026-07-08T00:00", want: []string{"2026-07-04T00:00 2026-07-06T00:00"}},
		"overlapping windows": {file: `{windows: [{days: sat, from: "08:00", until: "12:00"}, {days: sat, from: "10:00", until: "14:00"}]}`,
			from: "2026-07-03T00:00", until: "2026-07-08T00:00", want: []string{"2026-07-04T08:00 2026-07-04T14:00"}},
		"a rest too short to sell": {file: `{min-window: 30m, windows: [{from: "08:00", until: "09:00"}]}`,
			from: "2026-07-03T08:31", until: "2026-07-04T08:30", want: []string{"2026-07-04T08:00 2026-07-04T08:30"}},

		// Europe/Berlin: 2026-03-29 02:00 → 03:00 at 01:00 UTC; 2026-10-25 03:00 → 02:00 at 01:00 UTC.
		"Berlin, the night that is an hour short": {file: `{zone: Europe/Berlin, windows: [{days: sat, from: "22:00", until: "06:00"}]}`,
			from: "2026-03-28T12:00", until: "2026-03-30T00:00", want: []string{"2026-03-28T21:00 2026-03-29T04:00"}},
		"Berlin, the night that is an hour long": {file: `{zone: Europe/Berlin, windows: [{days: sat, from: "22:00", until: "06:00"}]}`,
			from: "2026-10-24T12:00", until: "2026-10-26T00:00", want: []string{"2026-10-24T20:00 2026-10-25T05:00"}},
		"Berlin, from a time that is left out": {file: `{zone: Europe/Berlin, windows: [{days: sun, from: "02:30", until: "05:00"}]}`,
			from: "2026-03-28T12:00", until: "2026-03-30T00:00", want: []string{"2026-03-29T01:00 2026-03-29T03:00"}},
		"Berlin, until a time that is left out": {file: `{zone: Europe/Berlin, windows: [{days: sun, from: "01:00", until: "02:30"}]}`,
			from: "2026-03-28T12:00", until: "2026-03-30T00:00", want: []string{"2026-03-29T00:00 2026-03-29T01:00"}},
		"Berlin, a window that is left out": {file: `{zone: Europe/Berlin, windows: [{days: sun, from: "02:10", until: "02:50"}]}`,
			from: "2026-03-28T12:00", until: "2026-03-30T00:00"},
		"Berlin, from the first of two equal times": {file: `{zone: Europe/Berlin, windows: [{days: sun, from: "02:30", until: "05:00"}]}`,
			from: "2026-10-24T12:00", until: "2026-10-26T00:00", want: []string{"2026-10-25T00:30 2026-10-25T04:00"}},
		"Berlin, until the first of two equal times": {file: `{zone: Europe/Berlin, windows: [{days: sun, from: "01:00", until: "02:30"}]}`,
			from: "2026-10-24T12:00", until: "2026-10-26T00:00", want: []string{"2026-10-24T23:00 2026-10-25T00:30"}},
		"Berlin, next spring": {file: `{zone: Europe/Berlin, windows: [{days: sun, from: "02:30", until: "03:30"}]}`,
			from: "2027-03-27T12:00", until: "2027-03-29T00:00", want: []string{"2027-03-28T01:00 2027-03-28T01:30"}},

		// America/New_York: 2026-03-08 02:00 → 03:00 at 07:00 UTC; 2026-11-01 02:00 → 01:00 at 06:00 UTC.
		"New York, spring": {file: `{zone: America/New_York, windows: [{days: sat, from: "20:00", until: "08:00"}]}`,
			from: "2026-03-07T12:00", until: "2026-03-09T12:00", want: []string{"2026-03-08T01:00 2026-03-08T12:00"}},
		"New York, autumn": {file: `{zone: America/New_York, windows: [{days: sun, from: "01:30", until: "03:00"}]}`,
			from: "2026-10-31T12:00", until: "2026-11-02T12:00", want: []string{"2026-11-01T05:30 2026-11-01T08:00"}},
		"New York, next autumn, until": {file: `{zone: America/New_York, windows: [{days: sun, from: "00:00", until: "01:30"}]}`,
			from: "2027-11-06T12:00", until: "2027-11-08T12:00", want: []string{"2027-11-07T04:00 2027-11-07T05:30"}},
		"New York, next spring, left out": {file: `{zone: America/New_York, windows: [{days: sun, from: "02:00", until: "03:00"}]}`,
			from: "2027-03-13T12:00", until: "2027-03-15T12:00"},
		"a zone far ahead": {file: `{zone: Pacific/Kiritimati, windows: [{days: mon, from: "00:00", until: "02:00"}]}`,
			from: "2026-07-04T00:00", until: "2026-07-07T00:00", want: []string{"2026-07-05T10:00 2026-07-05T12:00"}},
		"a zone far behind": {file: `{zone: Pacific/Pago_Pago, windows: [{days: sun, from: "22:00", until: "24:00"}]}`,
			from: "2026-07-04T00:00", until: "2026-07-07T12:00", want: []string{"2026-07-06T09:00 2026-07-06T11:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse([]byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range p.Open(at(t, tc.from), at(t, tc.until)) {
				got = append(got, w.From.Time().Format("2006-01-02T15:04")+" "+w.Until.Time().Format("2006-01-02T15:04"))
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("Open = %v\nwant   %v", got, tc.want)
			}
		})
	}
}

func at(t *testing.T, s string) record.Millis {
	t.Helper()
	x, err := time.Parse("2006-01-02T15:04", s)
	if err != nil {
		t.Fatal(err)
	}
	return record.At(x)
}

func TestOpenIsBounded(t *testing.T) {
	var file strings.Builder
	file.WriteString("windows:\n")
	for i := range maxWindows {
		fmt.Fprintf(&file, " - {from: \"%02d:%02d\", until: \"%02d:%02d\"}\n", i/5, i%5*10, i/5, i%5*10+5)
	}
	p, err := Parse([]byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Open(0, 1<<62); len(got) != maxOpen {
		t.Errorf("%d windows, want %d", len(got), maxOpen)
	}
	if got := (Policy{}).Open(5, 1<<62); len(got) != 1 || got[0].Until != 5+record.Span(horizon) {
		t.Errorf("Open = %v, want 35 days", got)
	}
	if got := p.Open(9, 9); got != nil {
		t.Errorf("Open of nothing = %v", got)
	}
}

func TestAdmit(t *testing.T) {
	id, err := record.ParseNodeID(tenant)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file string
		tier record.Tier
		at   string
		want string
	}{
		"anybody":            {tier: record.Gold, at: "2026-07-01T10:00"},
		"on the list":        {file: "tenants: [" + tenant + "]", tier: record.Bronze, at: "2026-07-01T10:00"},
		"not on the list":    {file: "tenants: [b" + tenant[1:] + "]", tier: record.Bronze, at: "2026-07-01T10:00", want: "not on its list"},
		"another tier":       {file: "tiers: [bronze]", tier: record.Silver, at: "2026-07-01T10:00", want: "does not sell tier silver"},
		"outside windows":    {file: `windows: [{from: "18:00", until: "08:00"}]`, tier: record.Bronze, at: "2026-07-01T08:00", want: "no window is open"},
		"inside a window":    {file: `windows: [{from: "18:00", until: "08:00"}]`, tier: record.Bronze, at: "2026-07-01T07:59"},
		"too short a rest":   {file: `{min-window: 5m, windows: [{from: "18:00", until: "08:00"}]}`, tier: record.Bronze, at: "2026-07-01T07:59", want: "no window is open"},
		"long enough a rest": {file: `{min-window: 5m, windows: [{from: "18:00", until: "08:00"}]}`, tier: record.Bronze, at: "2026-07-01T07:55"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse([]byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			err = p.Admit(id, record.Job{Tier: tc.tier}, at(t, tc.at))
			if (tc.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("Admit: %v, want %q", err, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(Sample))
	f.Add([]byte("windows: [{days: [mon, fri-sun], from: \"18:00\", until: \"08:00\"}]\nzone: Europe/Berlin\nfloor: 0.1\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("windows: [{days: {}, from: [], until: ~}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		const from = 1_800_000_000_000
		last := record.Millis(from)
		for _, w := range p.Open(from, from+7*86_400_000) {
			if w.From < last || w.Until <= w.From {
				t.Errorf("window %v after %v", w, last)
			}
			last = w.Until
		}
	})
}

func ExampleParse() {
	p, err := Parse([]byte(`{floor: 0.20, zone: Europe/Berlin, windows: [{days: mon-fri, from: "18:00", until: "08:00"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := record.At(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC))
	for _, w := range p.Open(noon, noon+24*3_600_000) {
		fmt.Println(p.Floor, w.From.Time().Format(time.DateTime), w.Until.Time().Format(time.DateTime))
	}
	// Output: 0.200000 2026-12-01 17:00:00 2026-12-02 07:00:00
}
