package llama_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
	"idlemesh/wasm-examples/generate/llama"
)

var _ llama.Device = (*gpu.Session)(nil)

func session(t testing.TB) *gpu.Session {
	s := gpu.New(cpu.New(0), 0).Session(0, kernel.Reference{FLOPS: 1e12, Bandwidth: 1e12})
	t.Cleanup(func() { s.Close() })
	return s
}

func models(t testing.TB) string {
	dir := os.Getenv("IDLEMESH_TESTDATA")
	if dir == "" {
		t.Skip("IDLEMESH_TESTDATA does not name the folder with models/")
	}
	return filepath.Join(dir, "models")
}

func load(t testing.TB, dir string, steps int) (*llama.Model, *llama.Tokenizer) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "stories260K.bin"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.Load(session(t), bytes.NewReader(b), int64(len(b)), steps)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "tok512.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := llama.ReadTokenizer(f, m.Vocab)
	if err != nil {
		t.Fatal(err)
	}
	return m, tok
}

// TestGreedy holds the kernels and the model to what llama2.c's own program prints.
func TestGreedy(t *testing.T) {
	dir := models(t)
	for n := range 2 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			prompt, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("greedy-%d.prompt", n)))
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("greedy-%d.txt", n)))
			if err != nil {
				t.Fatal(err)
			}
			m, tok := load(t, dir, 200)
			var got strings.Builder
			wrote, err := llama.Generate(m, tok, strings.TrimSuffix(string(prompt), "\n"), 200, llama.Choice{}, func(piece string, _ int) error {
				got.WriteString(piece)
				return nil
			})
			got.WriteByte('\n')
			if err != nil || got.String() != string(want) {
				t.Errorf("wrote %d tokens, %v:\n%s\nwant:\n%s", wrote, err, got.String(), want)
			}
		})
	}
}

func TestSeedsRepeatAndDiffer(t *testing.T) {
	dir := models(t)
	write := func(seed uint64) string {
		m, tok := load(t, dir, 40)
		var got strings.Builder
		llama.Generate(m, tok, "Once", 40, llama.Choice{Temperature: 1, TopP: 0.9, Seed: seed}, func(piece string, _ int) error {
			got.WriteString(piece)
			return nil
		})
		return got.String()
	}
	if a, b, c := write(1), write(1), write(2); a != b || a == c {
		t.Errorf("seeds 1, 1, 2 wrote\n%q\n%q\n%q", a, b, c)
	}
}

// tiny is a model file of the smallest sizes with its own classifier.
func tiny(header ...int32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, header)
	weights := make([]float32, 4000)
	for i := range weights {
		weights[i] = float32(i%7) - 3
	}
	b, _ = binary.Append(b, binary.LittleEndian, weights)
	return b
}

func TestPromptsInBatchesOrOneByOne(t *testing.T) {
	file := tiny(8, 12, 2, 4, 2, -50, 64)
	prompt := []int32{1}
	for i := range int32(45) {
		prompt = append(prompt, (i*7+3)%50)
	}
	together, err := llama.Load(session(t), bytes.NewReader(file), int64(len(file)), 0)
	if err != nil {
		t.Fatal(err)
	}
	single, err := llama.Load(session(t), bytes.NewReader(file), int64(len(file)), 0)
	if err != nil {
		t.Fatal(err)
	}
	want, err := together.Next(prompt, llama.Choice{})
	if err != nil {
		t.Fatal(err)
	}
	var got int32
	for _, token := range prompt {
		if got, err = single.Next([]int32{token}, llama.Choice{}); err != nil {
			t.Fatal(err)
		}
	}
	if got != want {
		t.Errorf("one by one the next token is %d, in batches %d", got, want)
	}
	if _, err := single.Next(make([]int32, 19), llama.Choice{}); !errors.Is(err, llama.ErrFull) {
		t.Errorf("beyond the context: %v, want ErrFull", err)
	}
}

func TestBadFiles(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":         nil,
		"no weights":    tiny(8, 12, 2, 4, 2, 50, 64)[:28],
		"cut short":     tiny(8, 12, 2, 4, 2, 50, 64)[:2000],
		"negative":      tiny(-8, 12, 2, 4, 2, 50, 64),
		"huge":          tiny(1<<30, 12, 2, 4, 2, 50, 64),
		"huge in all":   tiny(1<<24, 1<<24, 1<<24, 4, 2, 1<<24, 1<<24),
		"heads":         tiny(8, 12, 2, 3, 2, 50, 64),
		"cache's heads": tiny(8, 12, 2, 4, 3, 50, 64),
	} {
		if _, err := llama.Load(session(t), bytes.NewReader(b), int64(len(b)), 0); !errors.Is(err, llama.ErrFormat) {
			t.Errorf("model %s: %v, want ErrFormat", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"empty": nil, "cut short": {1, 0, 0, 0, 9}, "negative": {1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}, "cut piece": {1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 'a'},
	} {
		if _, err := llama.ReadTokenizer(bytes.NewReader(b), 1); !errors.Is(err, llama.ErrFormat) {
			t.Errorf("tokenizer %s: %v, want ErrFormat", name, err)
		}
	}
}

// FuzzFiles reads a stranger's model and vocabulary.
func FuzzFiles(f *testing.F) {
	f.Add(tiny(8, 12, 2, 4, 2, 50, 64), "a prompt")
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'a'}, "\xff€")
	f.Fuzz(func(t *testing.T, b []byte, prompt string) {
		s := gpu.New(cpu.New(1<<20), 0).Session(0, kernel.Reference{})
		defer s.Close()
		if m, err := llama.Load(s, bytes.NewReader(b), int64(len(b)), 3); err == nil {
			m.Next([]int32{1}, llama.Choice{})
		}
		tok, err := llama.ReadTokenizer(bytes.NewReader(b), 40)
		if err != nil {
			return
		}
		for _, id := range tok.Encode(prompt[:min(len(prompt), 200)]) {
			tok.Decode(1, id)
		}
	})
}

func BenchmarkGenerate(b *testing.B) {
	dir := models(b)
	tokens := 0
	for b.Loop() {
		m, tok := load(b, dir, 200)
		n, err := llama.Generate(m, tok, "The dog", 200, llama.Choice{}, func(string, int) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		tokens += n
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}
