package llama

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const (
	mostPrompts   = 1 << 12
	longestPrompt = 1 << 16 // bytes
)

// ReadPrompts reads one prompt a line, at most 4,096 of at most 65,535 bytes. Empty lines are left out.
func ReadPrompts(r io.Reader) ([]string, error) {
	var prompts []string
	s := bufio.NewScanner(r)
	s.Buffer(nil, longestPrompt)
	line := 0
	for s.Scan() {
		line++
		if s.Text() == "" {
			continue
		}
		if len(prompts) == mostPrompts {
			return nil, fmt.Errorf("prompts: line %d: more than %d: split the file over several jobs", line, mostPrompts)
		}
		prompts = append(prompts, s.Text())
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("prompts: line %d has %d bytes or more: shorten it", line+1, longestPrompt)
	}
	if s.Err() != nil {
		return nil, fmt.Errorf("prompts: %w", s.Err())
	}
	return prompts, nil
}

// Forget makes the model begin a new text; its weights stay where they are.
func (m *Model) Forget() { m.pos, m.cmds = 0, m.cmds[:0] }
