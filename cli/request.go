package cli

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
)

// An option is one thing to ask of a job: a flag of submit and, by the same name, a
// key of job.yaml.
type option struct {
	name, usage string
	set         func(*draft, setting) error
	many        bool // may be given again
	keyed       bool // is KEY=VALUE
	alone       bool // is true or false; as a flag it needs no value
}

// A setting is an option's value and where it was read.
type setting struct {
	option string
	text   string
	where  string // for messages
	dir    string // that relative paths start from
}

// key is what a later setting must share to take this one's place.
func (s setting) key(o option) string {
	if o.keyed {
		k, _, _ := strings.Cut(s.text, "=")
		return k
	}
	return ""
}

// A draft becomes a request as settings are read.
type draft struct {
	client.Request
	module setting
	near   string // of a gateway, the start of its name
	stdin  bool   // is taken
}

// options are all of them, in the order of help. Zero values leave the choice to
// package client, except for retries.
var options = [...]option{
	{name: "input", usage: "give the module `NAME=PATH`, a file or folder, at /in/NAME (repeatable)", set: setInput, many: true, keyed: true},
	{name: "arg", usage: "pass the module argument `ARG`, before those after -- (repeatable)", set: setArg, many: true},
	{name: "env", usage: "set `NAME=VALUE` in its environment (repeatable)", set: setEnv, many: true, keyed: true},
	{name: "label", usage: "mark the job `KEY=VALUE`, to find it again (repeatable)", set: setLabel, many: true, keyed: true},
	{name: "shards", usage: "run `N` tasks, told apart by MESH_SHARD_INDEX", set: setShards},
	{name: "tier", usage: "ask for `TIER`: bronze (preemptible), silver or gold", set: setTier},
	{name: "max-price", usage: "pay at most `CREDITS` per GPU-hour of work (0.50)", set: amount(func(d *draft) *record.Amount { return &d.MaxPrice })},
	{name: "max-total", usage: "pay at most `CREDITS` for the whole job; held until it ends (an hour's work for each task)", set: amount(func(d *draft) *record.Amount { return &d.MaxTotal })},
	{name: "min-vram", usage: "want `SIZE` of GPU memory, such as 16GiB", set: bytesOf(func(d *draft) *uint64 { return &d.Needs.VRAM })},
	{name: "gpu", usage: "want the GPU `MODEL`", set: word(func(d *draft) *string { return &d.Needs.Model })},
	{name: "region", usage: "stay in `REGION`", set: word(func(d *draft) *string { return &d.Needs.Region })},
	{name: "near", usage: "be close to the gateway `NODE`; see --max-rtt", set: word(func(d *draft) *string { return &d.near })},
	{name: "max-rtt", usage: "want a round trip of at most `TIME`, such as 50ms, from that gateway", set: setRTT},
	{name: "min-reliability", usage: "want a node that keeps its word at least `SHARE` of the time, such as 0.9", set: setReliability},
	{name: "memory", usage: "give each task at most `SIZE` of memory (1GiB)", set: bytesOf(func(d *draft) *uint64 { return &d.Limits.Memory })},
	{name: "fuel", usage: "end a task whose own work takes more than `N` of fuel, about a nanosecond each; kernels aside (no limit)", set: setFuel},
	{name: "timeout", usage: "end a task that runs longer than `TIME` (1h)", set: setTimeout},
	{name: "retries", usage: "start a task `N` times more when its node is lost (3)", set: setRetries},
	{name: "transcript", usage: "keep what each task hears from outside, so that meshctl job replay can check it", set: setTranscript, alone: true},
	{name: "retention", usage: "keep outputs and logs for `TIME` after the end (168h)", set: setRetention},
}

func optionNamed(name string) (option, bool) {
	for _, o := range options {
		if o.name == name {
			return o, true
		}
	}
	return option{}, false
}

// merge returns the settings of a job file without those that flags replace, then
// the flags. A flag replaces the value of its key, or all that its option had.
func merge(file, flags []setting) []setting {
	var out []setting
	for _, s := range file {
		o, _ := optionNamed(s.option)
		replaced := false
		for _, f := range flags {
			replaced = replaced || f.option == s.option && f.key(o) == s.key(o)
		}
		if !replaced {
			out = append(out, s)
		}
	}
	return append(out, flags...)
}

// read makes a draft of settings.
func read(settings []setting) (*draft, error) {
	d := &draft{Request: client.Request{Retries: 3}}
	for _, s := range settings {
		if s.option == "module" {
			d.module = s
			continue
		}
		o, ok := optionNamed(s.option)
		if !ok {
			return nil, usage("meshctl submit --help", "%s: unknown option", s.where)
		}
		if err := o.set(d, s); err != nil {
			return nil, usage("meshctl submit --help", "%s: %v", s.where, err)
		}
	}
	return d, nil
}

func setArg(d *draft, s setting) error {
	d.Args = append(d.Args, s.text)
	return noNUL(s.text)
}

func setEnv(d *draft, s setting) error {
	k, v, err := pair(s.text)
	if err == nil && strings.HasPrefix(k, "MESH_") {
		err = fmt.Errorf("%q: names that start with MESH_ are the node's", k)
	}
	if err == nil {
		put(&d.Env, k, v)
	}
	return err
}

func setLabel(d *draft, s setting) error {
	k, v, err := pair(s.text)
	if err == nil {
		put(&d.Labels, k, v)
	}
	return err
}

func put(m *map[string]string, k, v string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[k] = v
}

func pair(s string) (k, v string, err error) {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" {
		return "", "", fmt.Errorf("%q: want NAME=VALUE", s)
	}
	return k, v, noNUL(s)
}

func noNUL(s string) error {
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%q: has a zero byte", s)
	}
	return nil
}

func setShards(d *draft, s setting) error {
	n, err := count(s.text)
	if err == nil && n == 0 {
		err = fmt.Errorf("%q: want at least 1", s.text)
	}
	d.Shards = n
	return err
}

func setTranscript(d *draft, s setting) (err error) {
	if d.Record, err = strconv.ParseBool(s.text); err != nil {
		return fmt.Errorf("%q: want true or false", s.text)
	}
	return nil
}

func setRetries(d *draft, s setting) (err error) {
	d.Retries, err = count(s.text)
	return err
}

func count(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q: want a whole number", s)
	}
	return uint32(n), nil
}

func setTier(d *draft, s setting) (err error) {
	d.Tier, err = record.ParseTier(s.text)
	return err
}

func amount(at func(*draft) *record.Amount) func(*draft, setting) error {
	return func(d *draft, s setting) error {
		a, err := record.ParseAmount(s.text)
		if err == nil && a == 0 {
			err = fmt.Errorf("%q: want more than nothing", s.text)
		}
		*at(d) = a
		return err
	}
}

func bytesOf(at func(*draft) *uint64) func(*draft, setting) error {
	return func(d *draft, s setting) (err error) {
		*at(d), err = parseSize(s.text)
		return err
	}
}

func word(at func(*draft) *string) func(*draft, setting) error {
	return func(d *draft, s setting) error {
		if s.text == "" {
			return errors.New("want a word")
		}
		*at(d) = s.text
		return noNUL(s.text)
	}
}

func setRTT(d *draft, s setting) error {
	t, err := parseTime(s.text)
	d.Needs.MaxRTT = record.Span(t)
	return err
}

func setTimeout(d *draft, s setting) error {
	t, err := parseTime(s.text)
	d.Limits.Wall = uint64(t.Milliseconds())
	return err
}

func setFuel(d *draft, s setting) error {
	n, err := strconv.ParseUint(s.text, 10, 63)
	if err != nil || n == 0 {
		return fmt.Errorf("%q: want a whole number above 0, such as 60000000000 for about a minute", s.text)
	}
	d.Limits.Fuel = n
	return nil
}

func setRetention(d *draft, s setting) (err error) {
	d.Retention, err = parseTime(s.text)
	return err
}

func setReliability(d *draft, s setting) error {
	a, err := record.ParseAmount(s.text)
	if err != nil || a > record.Credit || a == 0 {
		return fmt.Errorf("%q: want a share above 0 and at most 1, such as 0.9", s.text)
	}
	d.Needs.Reliability = uint32(a)
	return nil
}

// parseTime reads a span of at least a millisecond: Go's durations, and days.
func parseTime(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	unit := s
	if n, err := strconv.ParseUint(days, 10, 16); ok && err == nil {
		unit = fmt.Sprintf("%dh", n*24)
	}
	d, err := time.ParseDuration(unit)
	if err != nil || d < time.Millisecond {
		return 0, fmt.Errorf("%q: want a time of at least 1ms, such as 90s, 50ms, 72h or 7d", s)
	}
	return d, nil
}

var units = map[string]int64{"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "KB": 1e3, "M": 1 << 20, "MIB": 1 << 20, "MB": 1e6,
	"G": 1 << 30, "GIB": 1 << 30, "GB": 1e9, "T": 1 << 40, "TIB": 1 << 40, "TB": 1e12}

// parseSize reads bytes, such as 16GiB, 1.5GB, 512M (that is MiB) or 4096.
func parseSize(s string) (uint64, error) {
	bad := fmt.Errorf("%q: want a size above 0, such as 16GiB, 512MiB or 4096", s)
	number := strings.TrimRight(s, "kKmMgGtTiIbB")
	unit, ok := units[strings.ToUpper(s[len(number):])]
	if !ok || number == "" || len(number) > 20 || strings.Trim(number, "0123456789.") != "" {
		return 0, bad
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, bad
	}
	n := new(big.Int).Quo(r.Mul(r, new(big.Rat).SetInt64(unit)).Num(), r.Denom())
	if !n.IsInt64() || n.Sign() == 0 {
		return 0, bad
	}
	return n.Uint64(), nil
}
