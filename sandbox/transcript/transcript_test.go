package transcript_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"idlemesh/sandbox/transcript"
)

var (
	header = transcript.Header{Ran: "engine 1", Module: [32]byte{1, 2}, Spec: []byte("spec"), Device: []byte{0xa0}}
	events = []transcript.Event{
		{Op: transcript.Input, Fuel: 300, Asked: [16]byte{9}, Data: []byte("some bytes")},
		{Op: transcript.Alloc, Fuel: 1 << 62, Value: 7},
		{Op: transcript.Alloc, Fuel: 1<<64 - 1, Err: "no room"},
		{Op: transcript.End, Data: []byte{1}},
	}
)

func written(t testing.TB, h transcript.Header, events []transcript.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := transcript.NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(r io.Reader) (h transcript.Header, events []transcript.Event, err error) {
	t, h, err := transcript.NewReader(r)
	if err != nil {
		return h, nil, err
	}
	for {
		e, err := t.Next()
		if err == io.EOF {
			return h, events, nil
		}
		if err != nil {
			return h, events, err
		}
		events = append(events, e)
	}
}

func TestRoundTrip(t *testing.T) {
	b := written(t, header, events)
	h, got, err := read(bytes.NewReader(b))
	if err != nil || !reflect.DeepEqual(h, header) {
		t.Fatalf("header %+v, %v", h, err)
	}
	for i := range got {
		if len(got[i].Data) == 0 {
			got[i].Data = nil
		}
	}
	if !reflect.DeepEqual(got, events) {
		t.Errorf("events %+v", got)
	}
}

// TestShort cuts a transcript anywhere: what is left is refused, or has fewer events.
func TestShort(t *testing.T) {
	b := written(t, header, events)
	for n := range b {
		_, got, err := read(bytes.NewReader(b[:n]))
		if err != nil && !errors.Is(err, transcript.ErrFormat) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if err == nil && len(got) >= len(events) {
			t.Errorf("%d of %d bytes have all events", n, len(b))
		}
	}
}

func TestRefused(t *testing.T) {
	good := written(t, header, nil)
	for name, tail := range map[string]string{
		"kind 0":          "\x00",
		"kind 99":         "\x63",
		"number too long": "\x01\x80\x00",
		"number too big":  "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		"reason too long": "\x01\x00" + strings.Repeat("a", 16) + "\x00\x81\x20",
		"huge data":       "\x01\x00" + strings.Repeat("a", 16) + "\x00\x00\xff\xff\xff\x7f",
	} {
		if _, _, err := read(strings.NewReader(string(good) + tail)); !errors.Is(err, transcript.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []string{"", "idlemesh", "idlemesh transcript 1\n\xff\xff\xff\xff\x7f", "idlemesh transcript 1\n\x01\xff"} {
		if _, _, err := read(strings.NewReader(s)); !errors.Is(err, transcript.ErrFormat) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestFull(t *testing.T) {
	w, err := transcript.NewWriter(io.Discard, header)
	if err != nil {
		t.Fatal(err)
	}
	e := transcript.Event{Op: transcript.Read, Data: make([]byte, 100<<20)}
	for range 2 {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(e); !errors.Is(err, transcript.ErrFull) {
		t.Errorf("300 MiB: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	b := written(f, header, events)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, events, err := read(bytes.NewReader(b))
		if err != nil {
			return
		}
		again := written(t, h, events)
		_, same, err := read(bytes.NewReader(again))
		if err != nil || !reflect.DeepEqual(same, events) {
			t.Fatalf("written again it reads as %+v, %v", same, err)
		}
		if i := bytes.IndexByte(b, '\n'); !bytes.HasSuffix(b[i:], again[len(again)-tail(events):]) {
			t.Fatal("events have two encodings")
		}
	})
}

// tail is how many bytes events take.
func tail(events []transcript.Event) int {
	var n int
	var b bytes.Buffer
	w, _ := transcript.NewWriter(&b, header)
	_ = w.Flush()
	n = b.Len()
	for _, e := range events {
		_ = w.Write(e)
	}
	_ = w.Flush()
	return b.Len() - n
}
