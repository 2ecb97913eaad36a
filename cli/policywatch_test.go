package cli

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"idlemesh/mesh/policy"
)

// TestPolicyWatch: a changed policy.yaml is taken, a bad one leaves the last good one and
// is complained of once.
func TestPolicyWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("floor: \"1\"\nregion: here\n")
	set := flag.NewFlagSet("run", flag.ContinueOnError)
	for _, name := range []string{"policy", "floor", "region"} {
		set.String(name, "", "")
	}
	set.Uint("slots", 0, "")
	if err := set.Parse([]string{"--policy", path, "--region", "there"}); err != nil {
		t.Fatal(err)
	}
	var sold []policy.Policy
	var log bytes.Buffer
	w := watchPolicy(cli.NewContext(nil, set, nil), slog.New(slog.NewTextHandler(&log, nil)), func(p policy.Policy) { sold = append(sold, p) })
	for _, step := range []struct {
		text  string // empty removes the file
		sold  int
		warns int
	}{
		{"floor: \"1\"\nregion: here\n", 0, 0}, {"floor: \"2\"\n", 1, 0}, {"flor: \"3\"\n", 1, 1}, {"flor: \"3\"\n", 1, 1}, {"", 1, 2},
		{"floor: \"2\"\n", 1, 2}, {"floor: \"4\"\n", 2, 2},
	} {
		if step.text == "" {
			os.Remove(path)
		} else {
			write(step.text)
		}
		w.look()
		if warns := strings.Count(log.String(), "the last good one stands"); len(sold) != step.sold || warns != step.warns {
			t.Fatalf("after %q: sold %d times, %d warnings", step.text, len(sold), warns)
		}
	}
	if p := sold[1]; p.Floor != 4_000_000 || p.Region != "there" {
		t.Errorf("sells %+v: the flags overrule the file", p)
	}
	if !strings.Contains(log.String(), "unknown key flor") {
		t.Errorf("the log does not say what is wrong: %s", log.String())
	}
}
