package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestNodeScripts runs the scripts that start nodes.
func TestNodeScripts(t *testing.T) {
	probe := buildProbe(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/node",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"until": until, "crash": crash, "name": name, "public": public, "status": status},
		Setup: func(e *testscript.Env) error {
			e.Setenv("IDLEMESH_HOME", filepath.Join(e.WorkDir, "home"))
			// Below the ports that the system gives to others.
			port := 20_000 + rand.IntN(10_000)
			for i, name := range []string{"ADDR", "ADDR2", "ADDR3"} {
				e.Setenv(name, fmt.Sprintf("127.0.0.1:%d", port+i))
			}
			return os.Link(probe, filepath.Join(e.WorkDir, "probe.wasm"))
		},
	})
}

// until runs a command again and again until what it prints matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND [ARG…]")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out, words bytes.Buffer
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out.Reset()
		words.Reset()
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Env = append(os.Environ(), "IDLEMESH_HOME="+ts.Getenv("IDLEMESH_HOME"))
		cmd.Dir, cmd.Stdout, cmd.Stderr = ts.Getenv("WORK"), &out, &words
		if err = cmd.Run(); want.Match(out.Bytes()) {
			return
		}
	}
	ts.Fatalf("%v never printed %q, but %q, %v: %s", args[1:], args[0], &out, err, &words)
}

// crash kills the process that announced itself in a file.
func crash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: crash FILE")
	}
	var h struct{ PID int }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &h))
	p, err := os.FindProcess(h.PID)
	ts.Check(err)
	ts.Check(p.Kill())
}

// public writes the public key that a JSON file has to another file.
func public(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: public FILE JSON")
	}
	var k struct {
		Key string `json:"public_key"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &k))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(k.Key), 0o600))
}

// name sets a variable to what a file has.
func name(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: name VARIABLE FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
