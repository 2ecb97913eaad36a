package llama

import "slices"

// Generate continues prompt until steps tokens are written, prompt included, or the
// model ends its text. It calls emit with each piece of text, in order, and the
// number of tokens written so far, and returns how many the model wrote itself.
func Generate(m *Model, t *Tokenizer, prompt string, steps int, how Choice, emit func(piece string, done int) error) (int, error) {
	if steps <= 0 || steps > m.rows {
		steps = m.rows
	}
	tokens := t.Encode(prompt)
	given := tokens[1:]
	if end := slices.Index(given, bos); end >= 0 {
		given = given[:end]
	}
	given = given[:min(len(given), steps)]
	before := int32(bos)
	for i, token := range given {
		if err := emit(t.Decode(before, token), i+1); err != nil {
			return 0, err
		}
		before = token
	}
	if len(given) < len(tokens)-1 { // the prompt itself ends the text
		return 0, nil
	}
	wrote, feed := 0, tokens
	for done := len(given); done < steps; {
		token, err := m.Next(feed, how)
		if err != nil || token == bos {
			return wrote, err
		}
		done, wrote = done+1, wrote+1
		if err := emit(t.Decode(before, token), done); err != nil {
			return wrote, err
		}
		before, feed = token, []int32{token}
	}
	return wrote, nil
}
