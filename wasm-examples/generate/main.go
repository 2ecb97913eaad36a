//go:build wasip1

// Generate continues a text with a language model in the format of llama2.c.
//
// Inputs: model and tokenizer. Standard output is the prompt, what the model writes
// as it writes it, and a newline.
package main

import (
	"flag"
	"fmt"
	"os"

	"idlemesh/sandbox/guest"
	"idlemesh/wasm-examples/generate/llama"
)

func main() {
	prompt := flag.String("prompt", "", "text to continue")
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
	if err := run(*prompt, *steps, how); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(prompt string, steps int, how llama.Choice) error {
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
	wrote, err := llama.Generate(m, tok, prompt, steps, how, func(piece string, done int) error {
		if done%8 == 0 || done == steps {
			guest.Progress(uint64(done), uint64(steps), "tokens")
		}
		_, err := os.Stdout.WriteString(piece)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Println()
	guest.Progress(uint64(steps), uint64(steps), "tokens") // a text may end early
	guest.Metric("tokens", float64(wrote))
	return nil
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
