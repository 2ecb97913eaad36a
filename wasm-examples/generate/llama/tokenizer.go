package llama

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// bos begins every text, and a model that writes it has ended one.
const bos = 1

// A Tokenizer turns text into tokens and back.
type Tokenizer struct {
	pieces []string
	scores []float32
	ids    map[string]int32
}

// ReadTokenizer reads a vocabulary of n pieces.
func ReadTokenizer(r io.Reader, n int) (*Tokenizer, error) {
	br := bufio.NewReader(r)
	var longest int32
	if err := binary.Read(br, binary.LittleEndian, &longest); err != nil {
		return nil, fmt.Errorf("tokenizer: %w: %v", ErrFormat, err)
	}
	t := &Tokenizer{ids: map[string]int32{}}
	var head [8]byte
	for i := range n {
		if _, err := io.ReadFull(br, head[:]); err != nil {
			return nil, fmt.Errorf("tokenizer: %w: it ends at piece %d of the model's %d: %v", ErrFormat, i, n, err)
		}
		var score float32
		var size int32
		binary.Decode(head[:], binary.LittleEndian, &score)
		binary.Decode(head[4:], binary.LittleEndian, &size)
		if size < 0 || size > 1<<16 {
			return nil, fmt.Errorf("tokenizer: %w: piece %d has %d bytes", ErrFormat, i, size)
		}
		piece := make([]byte, size)
		if _, err := io.ReadFull(br, piece); err != nil {
			return nil, fmt.Errorf("tokenizer: %w: piece %d: %v", ErrFormat, i, err)
		}
		t.add(string(piece), score)
	}
	return t, nil
}

func (t *Tokenizer) add(piece string, score float32) {
	if _, ok := t.ids[piece]; !ok {
		t.ids[piece] = int32(len(t.pieces))
	}
	t.pieces = append(t.pieces, piece)
	t.scores = append(t.scores, score)
}

// Encode returns the tokens of text after the one that begins every text.
func (t *Tokenizer) Encode(text string) []int32 {
	tokens := []int32{bos}
	if text == "" {
		return tokens
	}
	if id, ok := t.ids[" "]; ok {
		tokens = append(tokens, id)
	}
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		if id, ok := t.ids[text[:n]]; ok {
			tokens = append(tokens, id)
		} else {
			for _, b := range []byte(text[:n]) {
				tokens = append(tokens, min(int32(b)+3, int32(len(t.pieces)-1))) // single bytes stand behind three control pieces
			}
		}
		text = text[n:]
	}
	for t.merge(&tokens) {
	}
	return tokens
}

// merge joins the neighbours whose joint piece scores best, the first of equals.
func (t *Tokenizer) merge(tokens *[]int32) bool {
	best, at, into := float32(-1e10), -1, int32(0)
	s := *tokens
	for i := range len(s) - 1 {
		id, ok := t.ids[t.pieces[s[i]]+t.pieces[s[i+1]]]
		if ok && t.scores[id] > best {
			best, at, into = t.scores[id], i, id
		}
	}
	if at < 0 {
		return false
	}
	s[at] = into
	*tokens = append(s[:at+1], s[at+2:]...)
	return true
}

// Decode returns the text of a token that follows another. Control bytes are left
// out.
func (t *Tokenizer) Decode(before, token int32) string {
	if token < 0 || int(token) >= len(t.pieces) {
		return ""
	}
	piece := t.pieces[token]
	if before == bos && len(piece) > 0 && piece[0] == ' ' {
		piece = piece[1:]
	}
	if len(piece) == 6 && piece[:3] == "<0x" && piece[5] == '>' {
		if b, err := strconv.ParseUint(piece[3:5], 16, 8); err == nil {
			piece = string([]byte{byte(b)})
		}
	}
	if len(piece) == 1 && !printable(piece[0]) {
		return ""
	}
	return piece
}

func printable(b byte) bool { return b >= ' ' && b <= '~' || b >= '\t' && b <= '\r' }
