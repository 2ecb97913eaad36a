package cli

import (
	"bytes"
	"context"
	"math"
	"testing"

	"idlemesh/ledger/record"
)

type piece struct {
	at   uint64
	text string
}

func TestSpout(t *testing.T) {
	for name, tc := range map[string]struct {
		live  []piece
		whole string
		want  string
		same  bool
	}{
		"live, then complete":    {[]piece{{0, "ab"}, {2, "cd"}}, "abcdef", "abcdef", true},
		"all live":               {[]piece{{0, "abcdef"}}, "abcdef", "abcdef", true},
		"nothing live":           {nil, "abcdef", "abcdef", true},
		"nothing at all":         {nil, "", "", true},
		"twice the same":         {[]piece{{0, "ab"}, {0, "ab"}, {1, "bcd"}}, "abcd", "abcd", true},
		"a piece is lost":        {[]piece{{0, "ab"}, {4, "ef"}, {6, "gh"}}, "abcdefgh", "abcdefgh", true},
		"lost, then again":       {[]piece{{0, "ab"}, {4, "ef"}, {0, "abcdef"}}, "abcdef", "abcdef", true},
		"an attempt that starts": {[]piece{{0, "abcd"}, {0, "a"}, {1, "b"}}, "abcdef", "abcdef", true},
		"another text":           {[]piece{{0, "abcd"}}, "abXXef", "abcd", false},
		"a shorter text":         {[]piece{{0, "abcd"}}, "ab", "abcd", false},
		"no text":                {[]piece{{0, "abcd"}}, "", "abcd", false},
		"an offset too large":    {[]piece{{math.MaxUint64, "ab"}}, "ab", "ab", true},
	} {
		var b bytes.Buffer
		s := newSpout(&b)
		for _, p := range tc.live {
			if err := s.take(p.at, []byte(p.text)); err != nil {
				t.Fatal(err)
			}
		}
		read := func(_ context.Context, _ record.Blob, w *tail) error {
			for i := range len(tc.whole) { // in the smallest pieces
				if _, err := w.Write([]byte{tc.whole[i]}); err != nil {
					return err
				}
			}
			return nil
		}
		same, err := s.finish(t.Context(), record.Blob{Size: uint64(len(tc.whole))}, read)
		if err != nil || same != tc.same || b.String() != tc.want {
			t.Errorf("%s: %q, %v, %v; want %q, %v", name, b.String(), same, err, tc.want, tc.same)
		}
	}
}
