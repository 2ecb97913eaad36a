package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func testApp() *cli.App {
	return &cli.App{Name: "m", Flags: []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}}},
		Commands: []*cli.Command{
			{Name: "submit", Flags: []cli.Flag{&cli.StringFlag{Name: "shards"}, &cli.BoolFlag{Name: "wait"}, &cli.StringSliceFlag{Name: "env"}}},
			{Name: "job", Subcommands: []*cli.Command{{Name: "list"}, {Name: "logs", Flags: []cli.Flag{&cli.BoolFlag{Name: "follow"}}}}},
			{Name: "secret", Hidden: true},
		}}
}

func TestPermute(t *testing.T) {
	for in, want := range map[string]string{
		"submit a.wasm --shards 5 --wait":   "submit --shards=5 --wait -- a.wasm",
		"submit a.wasm -o json":             "-o=json submit -- a.wasm",
		"-o json submit a.wasm":             "-o=json submit -- a.wasm",
		"job -o json logs x --follow":       "-o=json job logs --follow -- x",
		"submit -- --shards 3":              "submit -- -- --shards 3",
		"submit a --shards=3 b":             "submit --shards=3 -- a b",
		"submit -":                          "submit -- -",
		"submit --env=A --env B -":          "submit --env=A --env=B -- -",
		"submit a --env -x --wait=false":    "submit --env=-x --wait=false -- a",
		"submit a --wait -- --wait -o json": "submit --wait -- a -- --wait -o json",
		"submit help":                       "submit -- help",
		"job list":                          "job list",
		"":                                  "",
	} {
		got, err := permute(testApp(), strings.Fields(in))
		if s := strings.Join(got.args, " "); err != nil || s != want || got.help {
			t.Errorf("%q: %q, %v; want %q", in, s, err, want)
		}
	}
}

func TestPermuteRefuses(t *testing.T) {
	for in, want := range map[string][2]string{
		"submit a --shrads 5":  {"submit: unknown flag --shrads", "m submit --shards"},
		"submit --zzzzzzz":     {"submit: unknown flag --zzzzzzz", "m submit --help"},
		"sumbit a":             {`unknown command "sumbit"`, "m submit"},
		"job lst":              {`job: unknown command "lst"`, "m job list"},
		"secrte":               {`unknown command "secrte"`, "m --help"}, // hidden ones are not offered
		"submit a --shards":    {"submit: --shards wants a value", "m submit --help"},
		"--follow job logs":    {"unknown flag --follow", "m --help"},
		"job list --follow=no": {"job list: unknown flag --follow", "m job list --help"},
	} {
		_, err := permute(testApp(), strings.Fields(in))
		r, ok := err.(*refusal)
		if !ok {
			t.Errorf("%q: %v; want a refusal", in, err)
			continue
		}
		if text := strings.TrimPrefix(r.text, "m "); text != want[0] || r.next != want[1] || r.status != 2 {
			t.Errorf("%q: %q, %q, %d; want %q", in, r.text, r.next, r.status, want)
		}
	}
}

func TestPermuteHelp(t *testing.T) {
	for in, want := range map[string]string{
		"--help": "m", "help": "m", "submit -h": "m submit", "help submit": "m submit", "job help logs": "m job logs",
		"job --help": "m job", "submit a --help --shards 3": "m submit",
	} {
		got, err := permute(testApp(), strings.Fields(in))
		if err != nil || !got.help || got.name != want {
			t.Errorf("%q: help %v of %q, %v; want that of %q", in, got.help, got.name, err, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for in, want := range map[[2]string]int{
		{"", ""}: 0, {"abc", ""}: 3, {"", "ab"}: 2, {"submit", "submit"}: 0, {"sumbit", "submit"}: 1,
		{"submi", "submit"}: 1, {"kitten", "sitting"}: 3, {"ledgre", "ledger"}: 1, {"a", "b"}: 1,
	} {
		if got := distance(in[0], in[1]); got != want {
			t.Errorf("distance(%q, %q) = %d, want %d", in[0], in[1], got, want)
		}
	}
}

// FuzzPermute holds that no argument is lost, invented or split.
func FuzzPermute(f *testing.F) {
	for _, s := range []string{"submit a --shards 5", "job logs --follow x -- y", "-o json", "--", "help -- -", "submit --env = --wait"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		in := strings.Fields(s)
		got, err := permute(testApp(), in)
		if err != nil || got.help {
			return
		}
		joined := strings.ReplaceAll(strings.Join(got.args, ""), "=", "")
		whole := strings.ReplaceAll(strings.Join(in, ""), "=", "")
		if n := len(joined) - len(whole); n != 0 && n != 2 { // the one `--` that is added
			t.Errorf("%q became %q", in, got.args)
		}
	})
}

// Every command that people type has help with examples, and the examples are lines
// that meshctl takes.
func TestHelp(t *testing.T) {
	app := terminal{strings.NewReader(""), io.Discard, io.Discard}.app()
	var walk func(name string, cmds []*cli.Command)
	walk = func(name string, cmds []*cli.Command) {
		for _, c := range cmds {
			full := name + " " + c.Name
			switch {
			case c.Hidden:
				continue
			case c.Usage == "":
				t.Errorf("%s: no usage", full)
			case len(c.Subcommands) > 0:
				walk(full, c.Subcommands)
				continue
			case !strings.Contains(c.Description, full):
				t.Errorf("%s: no example", full)
			}
			for line := range strings.Lines(c.Description) {
				checkExample(t, app, line)
			}
		}
	}
	walk("meshctl", app.Commands)
}

func checkExample(t *testing.T, app *cli.App, line string) {
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " #")
	for part := range strings.SplitSeq(strings.Trim(line, "\n"), " | ") {
		_, args, ok := strings.Cut(strings.TrimSuffix(part, ")"), "meshctl ")
		if !ok {
			continue
		}
		if _, err := permute(app, strings.Fields(args)); err != nil {
			t.Errorf("example %q: %v", line, err)
		}
	}
}
