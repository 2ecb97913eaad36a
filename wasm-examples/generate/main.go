//go:build wasip1

// Generate continues texts with a language model in the format of llama2.c.
//
// Inputs: model, tokenizer and, where there is one, prompts: one a line. Standard output
// is, for each prompt, the prompt, what the model writes as it writes it, and a newline.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"

	"idlemesh/sandbox/guest"
	"idlemesh/wasm-examples/generate/llama"
)

func main() {
	var prompts []string
	flag.Func("prompt", "text to continue; more of them make more texts, before those of the input prompts", func(s string) error {
		prompts = append(prompts, s)
		return nil
	})
	steps := flag.Int("steps", 256, "tokens to write, prompt included; 0 means the model's whole context")
	temperature := flag.Float64("temperature", 1, "0 takes the likeliest token, 1 draws by the model's odds")
	seed := flag.Uint64("seed", 1, "equal seeds write equal texts")
	flag.Parse()
	if flag.NArg() > 0 || *steps < 0 || *temperature < 0 {
		fmt.Fprintln(os.Stderr, "generate: takes flags only, and none below 0")
		flag.Usage()
		os.Exit(2)
	}
	how := llama.Choice{Temperature: float32(*temperature), TopP: 0.9, Seed: *seed}
	if err := run(prompts, *steps, how); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(prompts []string, steps int, how llama.Choice) error {
	more, err := readPrompts("/in/prompts")
	if err != nil {
		return err
	}
	if prompts = append(prompts, more...); len(prompts) == 0 {
		prompts = []string{""}
	}
	guest.Progress(0, 0, "loading the model")
	m, err := loadModel("/in/model", steps)
	if err != nil {
		return err
	}
	tok, err := loadTokenizer("/in/tokenizer", m.Vocab)
	if err != nil {
		return err
	}
	if steps == 0 || steps > m.Context {
		steps = m.Context
	}
	wrote := 0
	for i, p := range prompts {
		n, err := write(m, tok, p, steps, how, func(done int) {
			guest.Progress(uint64(i*steps+done), uint64(len(prompts)*steps), "tokens")
		})
		if err != nil {
			return err
		}
		wrote += n
	}
	guest.Metric("tokens", float64(wrote))
	return nil
}

// write prints one text, and returns how many of its tokens are the model's.
func write(m *llama.Model, tok *llama.Tokenizer, prompt string, steps int, how llama.Choice, progress func(done int)) (int, error) {
	m.Forget()
	wrote, err := llama.Generate(m, tok, prompt, steps, how, func(piece string, done int) error {
		if done%8 == 0 || done == steps {
			progress(done)
		}
		_, err := os.Stdout.WriteString(piece)
		return err
	})
	if err != nil {
		return wrote, err
	}
	fmt.Println()
	progress(steps) // a text may end early
	return wrote, nil
}

func readPrompts(path string) ([]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return llama.ReadPrompts(f)
}

func loadModel(path string, steps int) (*llama.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: submit it with --input model=FILE", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return llama.LoadInput(guest.Device{}, path, f, st.Size(), steps)
}

func loadTokenizer(path string, vocab int) (*llama.Tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: submit it with --input tokenizer=FILE", err)
	}
	defer f.Close()
	return llama.ReadTokenizer(f, vocab)
}
