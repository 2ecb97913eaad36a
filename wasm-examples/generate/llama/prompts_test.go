package llama_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"idlemesh/wasm-examples/generate/llama"
)

func TestReadPrompts(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string
		err  string
	}{
		"nothing":              {},
		"lines":                {file: "One\n two \nthree", want: []string{"One", " two ", "three"}},
		"empty lines":          {file: "\n\nOne\r\n\r\ntwo\n\n", want: []string{"One", "two"}},
		"the longest line":     {file: strings.Repeat("x", 1<<16-1), want: []string{strings.Repeat("x", 1<<16-1)}},
		"a line too long":      {file: "a\n\n" + strings.Repeat("x", 1<<16+1), err: "line 3 has"},
		"as many as there are": {file: strings.Repeat("x\n", 1<<12), want: slices.Repeat([]string{"x"}, 1<<12)},
		"one too many":         {file: strings.Repeat("x\n", 1<<12+1), err: "line 4097: more than 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := llama.ReadPrompts(strings.NewReader(tc.file))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("ReadPrompts = %v, want %q", err, tc.err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("ReadPrompts read %d prompts, want %d", len(got), len(tc.want))
			}
		})
	}
}

func FuzzReadPrompts(f *testing.F) {
	f.Add([]byte("One\n\ntwo\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		prompts, err := llama.ReadPrompts(bytes.NewReader(b))
		if err != nil && prompts != nil {
			t.Error("prompts beside an error")
		}
		for _, p := range prompts {
			if p == "" || strings.Contains(p, "\n") || !bytes.Contains(b, []byte(p)) {
				t.Errorf("prompt %q is not a line of the file", p)
			}
		}
	})
}

// TestForget: what a model writes does not depend on the text before.
func TestForget(t *testing.T) {
	file := tiny(8, 12, 2, 4, 2, -50, 64)
	m, err := llama.Load(session(t), bytes.NewReader(file), int64(len(file)), 20)
	if err != nil {
		t.Fatal(err)
	}
	write := func(first int32) (ids []int32) {
		t.Helper()
		for id := first; len(ids) < 19; ids = append(ids, id) {
			if id, err = m.Next([]int32{id}, llama.Choice{Temperature: 1, Seed: 5}); err != nil {
				t.Fatal(err)
			}
		}
		return ids
	}
	alone := write(1)
	m.Forget()
	other := write(9)
	if _, err := m.Next([]int32{1, 2}, llama.Choice{}); err != llama.ErrFull {
		t.Fatalf("Next = %v past the cache, want ErrFull", err)
	}
	m.Forget()
	if again := write(1); !slices.Equal(again, alone) || slices.Equal(other, alone) {
		t.Errorf("wrote %v, after another text %v\nthe other %v", alone, again, other)
	}
}
