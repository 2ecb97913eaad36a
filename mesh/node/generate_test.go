package node_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/node"
)

// TestGenerate runs a language model as a job, its weights on the device, and holds
// its greedy output against what the reference program prints.
func TestGenerate(t *testing.T) {
	models := filepath.Join(os.Getenv("IDLEMESH_TESTDATA"), "models")
	if os.Getenv("IDLEMESH_TESTDATA") == "" {
		t.Skip("IDLEMESH_TESTDATA is not set: no model to run")
	}
	s := newSolo(t)
	s.start(t, node.Config{})
	defer s.stop()
	if _, err := s.Deposit(t.Context(), s.tenant.ID(), record.Credit, "test"); err != nil {
		t.Fatal(err)
	}
	wasm := example(t, "generate")
	for _, n := range []string{"greedy-0", "greedy-1"} {
		t.Run(n, func(t *testing.T) {
			prompt, want := read(t, models, n+".prompt"), read(t, models, n+".txt")
			in, err := s.Submit(t.Context(), client.Request{Module: wasm,
				Args:   []string{"-prompt", strings.TrimSuffix(prompt, "\n"), "-steps", "200", "-temperature", "0"},
				Inputs: []client.Input{file("model", models, "stories260K.bin"), file("tokenizer", models, "tok512.bin")}})
			if err != nil {
				t.Fatal(err)
			}
			_, settled := follow(t, s.Client, in.Job)
			m, err := s.Manifest(t.Context(), settled.Receipt.Value)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := s.Read(t.Context(), m.Stdout, 0, &out, nil); err != nil || out.String() != want {
				t.Errorf("printed %q, %v, %s\nwant %q", out.String(), err, m.Error, want)
			}
			u := settled.Receipt.Value.Usage
			if u.FLOP == 0 || u.Kernel == 0 || u.Work == 0 {
				t.Errorf("usage %+v, price %v", u, settled.Price)
			}
			t.Logf("usage %+v, price %v, metrics %v", u, settled.Price, m.Metrics)
		})
	}
}

func file(name string, path ...string) client.Input {
	return client.Input{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(filepath.Join(path...)) }}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
