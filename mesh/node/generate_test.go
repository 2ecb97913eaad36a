package node_test

import (
	"bytes"
	"fmt"
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
	var prompts, wants [2]string
	for i := range prompts {
		prompts[i] = strings.TrimSuffix(read(t, models, fmt.Sprintf("greedy-%d.prompt", i)), "\n")
		wants[i] = read(t, models, fmt.Sprintf("greedy-%d.txt", i))
	}
	flags := []string{"-steps", "200", "-temperature", "0"}
	inputs := []client.Input{file("model", models, "stories260K.bin"), file("tokenizer", models, "tok512.bin")}
	lines := client.Input{Name: "prompts", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(prompts[1] + "\n\n" + prompts[0] + "\n")), nil
	}}
	for name, tc := range map[string]struct {
		args   []string
		inputs []client.Input
		want   string
	}{
		"greedy-0": {args: []string{"-prompt", prompts[0]}, want: wants[0]},
		"several":  {args: []string{"-prompt", prompts[0]}, inputs: []client.Input{lines}, want: wants[0] + wants[1] + wants[0]},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := s.Submit(t.Context(), client.Request{Module: wasm,
				Args: append(tc.args, flags...), Inputs: append(tc.inputs, inputs...)})
			if err != nil {
				t.Fatal(err)
			}
			_, settled := follow(t, s.Client, in.Job)
			m, err := s.Manifest(t.Context(), settled.Receipt.Value)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := s.Read(t.Context(), m.Stdout, 0, &out, nil); err != nil || out.String() != tc.want {
				t.Errorf("printed %q, %v, %s\nwant %q", out.String(), err, m.Error, tc.want)
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
