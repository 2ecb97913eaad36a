package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"idlemesh/ledger/record"
)

// version is the protocol's, the first byte of every stream's first frame: a peer that
// speaks another gets an error that says so.
const version = 1

// maxFrame bounds a frame in bytes.
const maxFrame = 4 << 20

// writeFrame writes head, then a length and the canonical CBOR of v, in one call.
func writeFrame(w io.Writer, head []byte, v any) error {
	b, err := record.Encode(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return fmt.Errorf("message of %d bytes: at most %d", len(b), maxFrame)
	}
	out := make([]byte, 0, len(head)+4+len(b))
	out = binary.BigEndian.AppendUint32(append(out, head...), uint32(len(b)))
	_, err = w.Write(append(out, b...))
	return err
}

func readFrame(r io.Reader, v any) error {
	n, err := readLength(r)
	if err != nil {
		return err
	}
	return readBody(r, n, v)
}

func readLength(r io.Reader) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return 0, fmt.Errorf("message of %d bytes: at most %d", n, maxFrame)
	}
	return int(n), nil
}

func readBody(r io.Reader, n int, v any) error {
	b, err := readAll(r, n)
	if err != nil {
		return err
	}
	return record.Decode(b, v)
}

// readAll reads n bytes and never holds more than twice what has come.
func readAll(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, 4096))
	for len(b) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(2*cap(b), n)), b...)
		}
		m, err := r.Read(b[len(b):min(cap(b), n)])
		b = b[:len(b)+m]
		if err == io.EOF && len(b) < n {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
	}
	return b, nil
}
