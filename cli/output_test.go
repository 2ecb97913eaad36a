package cli

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
)

type fruit struct {
	Name string        `json:"name"`
	Cost record.Amount `json:"cost_ucr"`
	Code string        `json:"code"`
	Tags []string      `json:"tags"`
}

var fruits = []column[fruit]{
	{head: "name", cell: func(f fruit) string { return f.Name }},
	{head: "cost", cell: func(f fruit) string { return credits(f.Cost) }},
	{head: "code", cell: func(f fruit) string { return f.Code }, wide: true},
}

func inFormat(t *testing.T, format string) *cli.Context {
	t.Helper()
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.String("output", format, "")
	return cli.NewContext(cli.NewApp(), set, nil)
}

func TestList(t *testing.T) {
	rows := []fruit{{"fig", 1_500_000, "007", []string{}}, {"\x1b[31mplum", 0, "", []string{"a"}}}
	for name, tc := range map[string]struct {
		format string
		rows   []fruit
		want   string
	}{
		"table":      {"table", rows, "NAME      COST\nfig       1.500\n[31mplum  0.000\n"},
		"wide":       {"wide", rows[:1], "NAME  COST   CODE\nfig   1.500  007\n"},
		"names":      {"name", rows, "fig\n[31mplum\n"},
		"no names":   {"name", nil, ""},
		"json":       {"json", rows[:1], "[\n  {\n    \"name\": \"fig\",\n    \"cost_ucr\": 1500000,\n    \"code\": \"007\",\n    \"tags\": []\n  }\n]\n"},
		"no json":    {"json", nil, "[]\n"},
		"yaml":       {"yaml", rows[:1], "- name: fig\n  cost_ucr: 1500000\n  code: \"007\"\n  tags: []\n"},
		"no yaml":    {"yaml", nil, "[]\n"},
		"empty cell": {"wide", []fruit{{Name: "fig"}}, "NAME  COST   CODE\nfig   0.000  -\n"},
	} {
		var b bytes.Buffer
		if err := list(terminal{out: &b}, inFormat(t, tc.format), tc.rows, fruits); err != nil || b.String() != tc.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, b.String(), tc.want)
		}
	}
}

func TestShow(t *testing.T) {
	for format, want := range map[string]string{
		"table": "name  fig\ncost  0.000001\n",
		"wide":  "name  fig\ncost  0.000001\ncode  <&>\n",
		"json":  "{\n  \"name\": \"fig\",\n  \"cost_ucr\": 1,\n  \"code\": \"<&>\",\n  \"tags\": null\n}\n",
		"name":  "fig\n",
	} {
		var b bytes.Buffer
		if err := show(terminal{out: &b}, inFormat(t, format), fruit{Name: "fig", Cost: 1, Code: "<&>"}, fruits); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", format, err, b.String(), want)
		}
	}
}

func TestForPeople(t *testing.T) {
	for got, want := range map[string]string{
		size(0): "0 B", size(999): "999 B", size(1000): "1.0 kB", size(2_100_000): "2.1 MB", size(123_456_789): "123 MB", size(1 << 63): "9.2 EB",
		span(7): "7 ms", span(1450): "1.4 s", span(61_000): "1 min 1 s", span(2_700_000): "45 min 0 s", span(7_260_000): "2 h 1 min",
		credits(400_000): "0.400", credits(1_240_000): "1.240", credits(1): "0.000001", credits(123_450): "0.12345",
		stamp(0).String(): "", stamp(1_764_500_000_001).String(): "2025-11-30T10:53:20.001Z",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for in, want := range map[string]string{
		"":              "completion",
		"key ":          "new\nshow\n",
		"comp":          "completion\n",
		"-o ":           "table\nwide\njson\nyaml\nname\n",
		"version --out": "--output\n",
		"completion z":  "zsh\n",
		"key show -- ":  "",
	} {
		var b bytes.Buffer
		if status := Run(t.Context(), append([]string{"meshctl", completeName}, strings.Split(in, " ")...), nil, &b, &b); status != 0 || !strings.Contains(b.String(), want) || want == "" && b.Len() > 0 {
			t.Errorf("%q: status %d, %q; want %q", in, status, b.String(), want)
		}
	}
}
