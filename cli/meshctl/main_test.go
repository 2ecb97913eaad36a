package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary meshctl when it is called so: by a script, and by
// meshctl itself when it starts a worker.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"meshctl": main})
}

func TestScripts(t *testing.T) {
	// Scripts have a home of their own, which must not mean compiling Go's library again.
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	probe := buildProbe(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "setenv": setenv},
		Setup: func(e *testscript.Env) error {
			e.Setenv("IDLEMESH_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
			e.Setenv("BIN", filepath.SplitList(e.Getenv("PATH"))[0]) // with meshctl and nothing else
			return os.Link(probe, filepath.Join(e.WorkDir, "probe.wasm"))
		},
	})
}

// buildProbe compiles the module that scripts run.
func buildProbe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, err := os.ReadFile("testdata/probe.src")
	if err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(dir, "main.go")
	if err := os.WriteFile(main, source, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "probe.wasm")
	cmd := exec.Command("go", "build", "-o", out, main)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build probe: %v\n%s", err, b)
	}
	return out
}

// setenv sets a variable to what a file has.
func setenv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setenv NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// status runs a command that must end with the exit status named first.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%v: exit status %d, want %d", args[1:], got, want)
	}
}
