package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestParseJobFile(t *testing.T) {
	got, err := parseJobFile("job.yaml", "/jobs", []byte(`# a job
module: m.wasm
input: {model: data/m.bin, tok: /abs/t}
arg: [one, "two words", -3]
env:
  A: "007"
  B: a=b
label: ["run=7", x=y]
shards: 4
max-price: 0.40
gpu: null-ish
`))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range got {
		lines = append(lines, s.option+" "+s.absolute())
	}
	want := []string{"module /jobs/m.wasm", "input model=/jobs/data/m.bin", "input tok=/abs/t", "arg one", "arg two words", "arg -3",
		"env A=007", "env B=a=b", "label run=7", "label x=y", "shards 4", "max-price 0.40", "gpu null-ish"}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q\nwant %q", lines, want)
	}
	if got[7].where != "submit: job.yaml:7: env" {
		t.Errorf("where: %q", got[7].where)
	}
}

func TestParseJobFileRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"shards: 1\nshrads: 2":          `job.yaml:2: unknown key "shrads": did you mean shards?`,
		"zzzzzzzz: 2":                   `job.yaml:1: unknown key "zzzzzzzz"`,
		"output-dir: x":                 `job.yaml:1: unknown key "output-dir"`,
		"\n\nshards: [1]":               "job.yaml:3: shards: want a plain value",
		"shards:":                       "job.yaml:1: shards: want a plain value",
		"env: {A: {B: c}}":              "job.yaml:1: env: want a plain value",
		"arg: {a: b}":                   "job.yaml:1: arg: want a plain value",
		"env: {a=b: c}":                 `job.yaml:1: env: "a=b": a name has no =`,
		"env: x":                        `job.yaml:1: env: "x": want NAME=VALUE`,
		"shards: 1\nshards: 2":          "job.yaml:2: shards is given twice",
		"- a":                           "job.yaml:1: want keys and values",
		"shards: 1\n---\nshards: 2":     "want one YAML document",
		"shards: [":                     "line 1",
		"arg: &a [x]\nenv: *a":          "job.yaml:2: env: want a plain value",
		"? {a: b}\n: c":                 "unknown key",
		"a: &a [*a]":                    "",
		strings.Repeat("[", 20_000):     "",
		"shards: !!binary gIGC\nx: 1\n": "",
	} {
		_, err := parseJobFile("job.yaml", "/jobs", []byte(in))
		if err == nil || status(err) != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", in, err, want)
		}
	}
	if got, err := parseJobFile("job.yaml", "/", nil); len(got) != 0 || err != nil {
		t.Errorf("an empty file: %v, %v", got, err)
	}
}

func TestWriteJobFile(t *testing.T) {
	in := given("/w", "module m.wasm", "input a=x", "input b=-", "arg 1", "arg ", "arg - x: y", "env A=1=2", "shards 3", "max-price 0.40", "gpu yes", "region 1\n2")
	var b bytes.Buffer
	if err := writeJobFile(&b, in); err != nil {
		t.Fatal(err)
	}
	out, err := parseJobFile("job.yaml", "/elsewhere", b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	var got, want []string
	for i := range in {
		want = append(want, in[i].option+" "+in[i].absolute())
	}
	for i := range out {
		got = append(got, out[i].option+" "+out[i].absolute())
	}
	if !slices.Equal(got, want) {
		t.Errorf("came back as %q\nwant %q\n%s", got, want, b.String())
	}
}

func FuzzParseJobFile(f *testing.F) {
	f.Add([]byte("module: m.wasm\ninput: {a: b}\narg: [c]\nshards: 4\n"))
	f.Add([]byte("env: {A: &x 1, B: *x}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := parseJobFile("job.yaml", "/jobs", in)
		if err != nil {
			if status(err) != 2 {
				t.Errorf("%v is not a refusal", err)
			}
			return
		}
		var b bytes.Buffer
		if err := writeJobFile(&b, got); err != nil {
			t.Fatal(err)
		}
		again, err := parseJobFile("job.yaml", "/", b.Bytes())
		if err != nil || len(again) != len(got) {
			t.Errorf("%d settings became %d, %v\n%s", len(got), len(again), err, b.String())
		}
	})
}
