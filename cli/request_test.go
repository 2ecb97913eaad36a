package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"idlemesh/ledger/record"
)

// given makes settings of `name value` lines.
func given(dir string, lines ...string) []setting {
	var out []setting
	for _, l := range lines {
		name, text, _ := strings.Cut(l, " ")
		out = append(out, setting{option: name, text: text, where: "submit: --" + name, dir: dir})
	}
	return out
}

func TestRead(t *testing.T) {
	d, err := read(given(t.TempDir(), "module m.wasm", "arg a,b", "arg -x", "env A=1,2", "env B==", "env A=3", "label run=7", "shards 8", "tier gold",
		"max-price 0.40", "max-total 1.24", "min-vram 16GiB", "gpu RTX 4090", "region eu", "near abc", "max-rtt 50ms",
		"min-reliability 0.9", "memory 512MiB", "fuel 1000000", "timeout 90s", "retries 0", "retention 72h", "input here=."))
	if err != nil {
		t.Fatal(err)
	}
	needs := record.Needs{Region: "eu", Model: "RTX 4090", VRAM: 16 << 30, MaxRTT: 50, Reliability: 900_000}
	limits := record.Limits{Memory: 512 << 20, Wall: 90_000, Fuel: 1_000_000}
	switch {
	case !slices.Equal(d.Args, []string{"a,b", "-x"}), !maps.Equal(d.Env, map[string]string{"A": "3", "B": "="}),
		!maps.Equal(d.Labels, map[string]string{"run": "7"}), d.Shards != 8, d.Tier != record.Gold, d.MaxPrice != 400_000,
		d.MaxTotal != 1_240_000, d.Needs != needs, d.Limits != limits, d.Retries != 0, d.Retention != 72*time.Hour,
		d.module.text != "m.wasm", d.near != "abc", len(d.Inputs) != 1 || d.Inputs[0].Dir == nil || d.Inputs[0].Name != "here":
		t.Errorf("read: %+v", d)
	}
	if d, err := read(nil); err != nil || d.Retries != 3 {
		t.Errorf("defaults: %+v, %v", d, err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, line := range []string{
		"env A", "env =1", "env MESH_JOB=1", "env A=\x00", "label x", "shards 0", "shards -1", "shards 1.5", "shards 5000000000", "tier iron",
		"max-price 0", "max-price 0.0000001", "max-price -1", "max-price free", "max-total", "min-vram 16", "min-vram 0GiB", "min-vram 16XB",
		"min-vram 1e9", "min-vram 99999999999TiB", "min-vram ..GiB", "gpu", "max-rtt 50", "max-rtt 10us", "max-rtt -1s", "min-reliability 90",
		"min-reliability 0", "memory lots", "fuel 0", "fuel -1", "fuel 1e9", "timeout 0s", "retries many", "retention 1x", "retention 99999999d", "input x", "input x=", "input =y",
		"input x=missing", "input ../x=.", "input a/b=.", "input ..=.", "nothing 1",
	} {
		_, err := read(given(dir, line))
		if line == "min-vram 16" { // bytes
			if err != nil {
				t.Errorf("%q: %v", line, err)
			}
			continue
		}
		if err == nil || status(err) != 2 {
			t.Errorf("%q: %v, want a refusal", line, err)
		}
	}
	for _, lines := range [][]string{{"input x=.", "input x=."}, {"input x=-", "input y=-"}} {
		if _, err := read(given(dir, lines...)); err == nil {
			t.Errorf("%q: want a refusal", lines)
		}
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]uint64{"1": 1, "4096B": 4096, "1k": 1024, "1.5GiB": 3 << 29, "1.5GB": 1_500_000_000, "2T": 2 << 40, "0.5M": 1 << 19} {
		if got, err := parseSize(in); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]time.Duration{"7d": 168 * time.Hour, "1h30m": 90 * time.Minute, "1ms": time.Millisecond} {
		if got, err := parseTime(in); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestMerge(t *testing.T) {
	file := given("/f", "module a.wasm", "shards 2", "arg one", "arg two", "env A=1", "env B=2", "input m=x", "input n=y")
	flags := given("/w", "shards 3", "arg three", "env B=9", "input n=z", "input o=q")
	var got []string
	for _, s := range merge(file, flags) {
		got = append(got, s.option+" "+s.text)
	}
	want := []string{"module a.wasm", "env A=1", "input m=x", "shards 3", "arg three", "env B=9", "input n=z", "input o=q"}
	if !slices.Equal(got, want) {
		t.Errorf("merge: %q, want %q", got, want)
	}
}

func TestNear(t *testing.T) {
	var key record.PublicKey
	m := record.Mesh{Name: "home", Gateways: []record.Member{{Key: key}}}
	d := draft{near: key.ID().Short()}
	if err := d.resolveNear(m); err != nil || d.Needs.Near != key.ID() {
		t.Errorf("near: %v, %v", d.Needs.Near, err)
	}
	d = draft{near: "zzz"}
	if err := d.resolveNear(m); err == nil || !strings.Contains(err.Error(), key.ID().Short()) {
		t.Errorf("near nobody: %v, want the gateways there are", err)
	}
}
