package blob

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
)

func TestReadRequest(t *testing.T) {
	get := func(o ...offer) request { return request{version, opGet, o} }
	put := func(o ...offer) request { return request{version, opPut, o} }
	for name, tc := range map[string]struct {
		q    request
		want string
	}{
		"get":                  {get(offer{Size: -1}), ""},
		"put":                  {put(offer{}, offer{Size: 1 << 50}), ""},
		"another version":      {request{2, opGet, []offer{{}}}, "version 2"},
		"unknown":              {request{version, 3, []offer{{}}}, "unknown request 3"},
		"nothing":              {get(), "0 blobs"},
		"get of two":           {get(offer{}, offer{}), "2 blobs"},
		"put of too many":      {put(make([]offer, maxOffer+1)...), "the most is 4096"},
		"put of unknown size":  {put(offer{Size: -1}), "-1 bytes"},
		"get before the start": {get(offer{From: -1}), "group -1"},
		"get after the end":    {get(offer{Size: 5, From: 2}), "group 2"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := writeFrame(&b, tc.q); err != nil {
				t.Fatal(err)
			}
			_, err := readRequest(&b)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("readRequest = %v, want %q", err, tc.want)
			}
		})
	}
	if len(mustEncode(t, put(make([]offer, maxOffer)...))) > maxFrame {
		t.Error("the largest put does not fit a frame")
	}
	large := io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, maxFrame+1)), neverRead{t})
	if _, err := readRequest(large); err == nil {
		t.Error("read a frame that is too large")
	}
}

func mustEncode(t *testing.T, q request) []byte {
	t.Helper()
	for i := range q.Offers {
		q.Offers[i].Size = 1 << 50
	}
	b, err := record.Encode(q)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type neverRead struct{ t *testing.T }

func (r neverRead) Read([]byte) (int, error) {
	r.t.Error("went on reading")
	return 0, io.EOF
}

// offering opens the near end of a stream that the store serves.
func offering(t *testing.T, s *Store, q request) (net.Conn, answer) {
	t.Helper()
	near, far := net.Pipe()
	go s.Serve(context.Background(), record.NodeID{1}, far)
	if err := writeFrame(near, q); err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := readFrame(near, &a); err != nil {
		t.Fatal(err)
	}
	return near, a
}

// TestIntakesAreBounded has more peers begin a large push than there is memory for.
func TestIntakesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open("", nil, Config{May: func(record.NodeID, record.Ref, bool) bool { return true }, Stall: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var last net.Conn
		for i := range cap(s.intakes) + 1 {
			c, a := offering(t, s, request{version, opPut, []offer{{Ref: record.Ref{byte(i)}, Size: group}}})
			if a.Status != fine || a.Fates[0].Status != wanted {
				t.Fatalf("push %d: %+v", i, a)
			}
			defer c.Close()
			last = c
			synctest.Wait()
		}
		if n := len(s.intakes); n != cap(s.intakes) {
			t.Errorf("%d intakes, want %d", n, cap(s.intakes))
		}
		var a answer
		if err := readFrame(last, &a); err == nil && a.Status != refused {
			t.Errorf("the surplus peer is told %+v", a)
		}
		synctest.Wait()
		if s.used != 0 {
			t.Errorf("%d bytes counted after all have stalled", s.used)
		}
	})
}

func TestPushIsBounded(t *testing.T) {
	s, err := Open("", nil, Config{May: func(record.NodeID, record.Ref, bool) bool { return true }, Size: 2 << 20, MaxBlob: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, a := offering(t, s, request{version, opPut, []offer{{Size: 1<<20 + 1}}})
	c.Close()
	if err := a.Fates[0].Status.err(""); !errors.Is(err, ErrFull) {
		t.Errorf("a blob that is too large: %v", err)
	}
	var refs []record.Ref
	for i := range 4 { // two fit
		b := bytes.Repeat([]byte{byte(i)}, 900_000)
		ref := Sum(b)
		refs = append(refs, ref)
		if err := s.Pin(ref, 1); err != nil {
			t.Fatal(err)
		}
		c, _ := offering(t, s, request{version, opPut, []offer{{Ref: ref, Size: int64(len(b))}}})
		go c.Write(b)
		var a answer
		if err := readFrame(c, &a); err != nil || (a.Status.err("") != nil) != (i > 1) || i > 1 && !errors.Is(a.Status.err(""), ErrFull) {
			t.Errorf("push %d = %+v, %v", i, a, err)
		}
		c.Close()
	}
	for i, ref := range refs {
		if s.Has(ref) != (i < 2) {
			t.Errorf("blob %d is here = %v", i, s.Has(ref))
		}
	}
}
