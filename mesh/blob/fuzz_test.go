package blob_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
)

func FuzzServe(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x04\xa3\x01\x01\x02"), []byte{})
	f.Add([]byte("\xff\xff\xff\xff"), []byte{})
	s, err := blob.Open("", nil, blob.Config{May: allow, Size: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, head, tail []byte) {
		c := &script{Reader: io.MultiReader(bytes.NewReader(head), bytes.NewReader(tail))}
		s.Serve(context.Background(), record.NodeID{}, c)
		if !c.closed {
			t.Error("the stream is left open")
		}
	})
}

// FuzzFetch is answered by any bytes.
func FuzzFetch(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05\xa2\x01\x00\x02\x03abc"))
	f.Add([]byte("\x00\x00\x00\x09\xa2\x01\x00\x02\x1a\x00\x20\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := blob.Open("", scripted(b), blob.Config{Size: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Fetch(t.Context(), record.Ref{1}, -1, nil, record.NodeID{2}); err == nil || s.Has(record.Ref{1}) {
			t.Errorf("Fetch believes %x", b)
		}
	})
}

type scripted []byte

func (b scripted) Open(context.Context, record.NodeID, string) (io.ReadWriteCloser, error) {
	return &script{Reader: bytes.NewReader(b)}, nil
}

type script struct {
	io.Reader
	closed bool
}

func (s *script) Write(p []byte) (int, error) { return len(p), nil }
func (s *script) Close() error                { s.closed = true; return nil }
