package frame_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/sandbox/frame"
)

// rw joins what is read and what is written.
type rw struct {
	io.Reader
	io.Writer
}

func (rw) Close() error { return nil }

func conn(in []byte, out io.Writer) *frame.Conn { return frame.NewConn(rw{bytes.NewReader(in), out}) }

func raw(t byte, n uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, n)
	return append(append(b, t, 0, 0, 0, 7), body...)
}

func TestRoundTrip(t *testing.T) {
	big := bytes.Repeat([]byte("x"), frame.Chunk)
	for name, tc := range map[string]struct {
		typ  frame.Type
		body any
		into any
	}{
		"setup":  {frame.TypeSetup, frame.Setup{Device: "cpu", Memory: 5}, &frame.Setup{}},
		"hello":  {frame.TypeHello, frame.Hello{Device: []byte{1}, Layers: []string{"seccomp"}, Version: "v"}, &frame.Hello{}},
		"bind":   {frame.TypeBind, frame.Bind{Dir: "/d"}, &frame.Bind{}},
		"read":   {frame.TypeRead, frame.Read{ID: 1, Blob: "b", Offset: 2, N: 3}, &frame.Read{}},
		"data":   {frame.TypeData, frame.Data{ID: 1, Bytes: big}, &frame.Data{}},
		"write":  {frame.TypeWrite, frame.Write{Name: "out/x", Bytes: big, End: true}, &frame.Write{}},
		"credit": {frame.TypeCredit, frame.Credit{N: 9}, &frame.Credit{}},
	} {
		t.Run(name, func(t *testing.T) {
			var wire bytes.Buffer
			if err := conn(nil, &wire).Send(tc.typ, 7, tc.body); err != nil {
				t.Fatal(err)
			}
			f, err := conn(wire.Bytes(), nil).Receive()
			if err != nil || f.Type != tc.typ || f.Run != 7 {
				t.Fatalf("Receive = %v, %v", f.Type, err)
			}
			if err := f.Into(tc.into); err != nil {
				t.Fatal(err)
			}
			if got := reflect.ValueOf(tc.into).Elem().Interface(); !reflect.DeepEqual(got, tc.body) {
				t.Errorf("got %+v, want %+v", got, tc.body)
			}
		})
	}
}

func TestReceiveRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		in  []byte
		err error
	}{
		"nothing":              {nil, io.EOF},
		"half a head":          {[]byte{0, 0}, io.ErrUnexpectedEOF},
		"no body":              {raw(byte(frame.TypeBind), 5, nil), io.ErrUnexpectedEOF},
		"half a body":          {raw(byte(frame.TypeStart), 5<<20, make([]byte, 1<<20)), io.ErrUnexpectedEOF},
		"type zero":            {raw(0, 0, nil), frame.ErrFrame},
		"unknown type":         {raw(200, 0, nil), frame.ErrFrame},
		"more than 16 MiB":     {raw(byte(frame.TypeStart), frame.Max+1, nil), frame.ErrFrame},
		"4 GiB":                {raw(byte(frame.TypeWrite), 1<<32-1, nil), frame.ErrFrame},
		"a large small frame":  {raw(byte(frame.TypeCredit), 64, nil), frame.ErrFrame},
		"a long cancel":        {raw(byte(frame.TypeCancel), 17, nil), frame.ErrFrame},
		"a write over a chunk": {raw(byte(frame.TypeWrite), frame.Chunk+8<<10+1, nil), frame.ErrFrame},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := conn(tc.in, nil).Receive(); !errors.Is(err, tc.err) {
				t.Errorf("Receive = %v, want %v", err, tc.err)
			}
		})
	}
}

func TestIntoRefuses(t *testing.T) {
	for name, body := range map[string][]byte{
		"empty":             {},
		"unknown field":     {0xa1, 0x09, 0x01},
		"a field twice":     {0xa2, 0x01, 0x01, 0x01, 0x02},
		"indefinite length": {0xbf, 0x01, 0x01, 0xff},
		"bytes after it":    {0xa1, 0x01, 0x01, 0x00},
		"a tag":             {0xc1, 0xa1, 0x01, 0x01},
		"another type":      {0xa1, 0x01, 0x61, 'x'},
		"too large":         {0xa1, 0x01, 0x1b, 1, 0, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var c frame.Credit
			if err := (frame.Frame{Type: frame.TypeCredit, Body: body}).Into(&c); !errors.Is(err, frame.ErrFrame) {
				t.Errorf("Into = %v", err)
			}
		})
	}
	bad := frame.Frame{Type: frame.TypeWrite, Body: []byte{0xa1, 0x01, 0x61, 0xff}}
	if err := bad.Into(&frame.Write{}); !errors.Is(err, frame.ErrFrame) {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
}

func TestSendRefusesTooLarge(t *testing.T) {
	err := conn(nil, io.Discard).Send(frame.TypeBind, 0, frame.Bind{Dir: strings.Repeat("x", 9<<10)})
	if err == nil {
		t.Error("a frame went out that no peer takes")
	}
}

func FuzzReceive(f *testing.F) {
	hello, err := cbor.Marshal(frame.Hello{Version: "v"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw(byte(frame.TypeHello), uint32(len(hello)), hello))
	f.Add(raw(byte(frame.TypeWrite), 9, []byte("\xa1\x01\x61x")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := conn(in, nil)
		for {
			fr, err := c.Receive()
			if err != nil {
				return
			}
			bodies := []any{&frame.Setup{}, &frame.Hello{}, &frame.Bind{}, &frame.Read{}, &frame.Data{}, &frame.Write{}, &frame.Credit{}}
			for _, b := range bodies {
				if err := fr.Into(b); err != nil && !errors.Is(err, frame.ErrFrame) {
					t.Errorf("error of another kind: %v", err)
				}
			}
		}
	})
}

func Example() {
	a, b := net.Pipe()
	agent, worker := frame.NewConn(a), frame.NewConn(b)
	defer agent.Close()
	go agent.Send(frame.TypeRead, 1, frame.Read{Blob: "model", N: 4096})
	f, err := worker.Receive()
	if err != nil {
		fmt.Println(err)
		return
	}
	var r frame.Read
	if err := f.Into(&r); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Run, r.Blob, r.N)
	// Output: 1 model 4096
}
