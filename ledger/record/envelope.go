package record

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// envelope is a COSE_Sign1 (RFC 9052 section 4.2) behind its tag: the unprotected
// header is always empty.
type envelope struct {
	_           struct{} `cbor:",toarray"`
	Protected   []byte
	Unprotected map[int64]cbor.RawMessage
	Payload     []byte
	Signature   []byte
}

type protected struct {
	Alg  int    `cbor:"1,keyasint"`
	Key  []byte `cbor:"4,keyasint"` // kid: the whole public key
	Type Type   `cbor:"16,keyasint"`
}

const (
	algEd25519 = -19  // RFC 9864
	tagSign1   = 0xd2 // CBOR tag 18
)

// message is what is signed: the Sig_structure of RFC 9052 section 4.4, an array of
// context, protected header, external data (none) and payload.
func (e envelope) message() []byte {
	m := make([]byte, 0, 32+len(e.Protected)+len(e.Payload))
	m = append(m, 0x84, 0x6a)
	m = append(m, "Signature1"...)
	m = appendBytes(m, e.Protected)
	m = append(m, 0x40)
	return appendBytes(m, e.Payload)
}

// raw is the whole record, tag first.
func (e envelope) raw() Raw {
	b := append(make([]byte, 0, 96+len(e.Protected)+len(e.Payload)), tagSign1, 0x84)
	b = append(appendBytes(b, e.Protected), 0xa0)
	return appendBytes(appendBytes(b, e.Payload), e.Signature)
}

// openEnvelope takes apart what Sign writes for a record of that type, without copying.
// Records hold records, so this is done for each of them, and by hand: envelopes have
// one encoding, of which all but keys and lengths is fixed.
func openEnvelope(raw Raw, typ Type) (e envelope, key []byte, ok bool) {
	rest, ok := bytes.CutPrefix(raw, []byte{tagSign1, 0x84})
	if !ok {
		return e, nil, false
	}
	if e.Protected, rest, ok = cutBytes(rest); !ok {
		return e, nil, false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte{0xa0}); !ok {
		return e, nil, false
	}
	if e.Payload, rest, ok = cutBytes(rest); !ok {
		return e, nil, false
	}
	if e.Signature, rest, ok = cutBytes(rest); !ok || len(rest) > 0 {
		return e, nil, false
	}
	const before, size = "\xa3\x01\x32\x04\x58\x20", 32 // {1: -19, 4: 32 bytes, 16: type}
	head, ok := bytes.CutPrefix(e.Protected, []byte(before))
	if !ok || len(head) < size || len(typ) > 23 {
		return e, nil, false
	}
	after := append([]byte{0x10, 0x60 | byte(len(typ))}, typ...)
	return e, head[:size], bytes.Equal(head[size:], after)
}

// reject says what is wrong with an envelope that openEnvelope does not take, if
// anything is.
func reject(raw Raw, typ Type) (e envelope, key []byte, err error) {
	var head protected
	if len(raw) == 0 || raw[0] != tagSign1 {
		return e, nil, fmt.Errorf("%w: not a COSE_Sign1", ErrSignature)
	}
	if err := Decode(raw[1:], &e); err != nil {
		return e, nil, err
	}
	if err := Decode(e.Protected, &head); err != nil {
		return e, nil, err
	}
	switch {
	case head.Type != typ:
		return e, nil, fmt.Errorf("%w: a %s where a %s is wanted", ErrSignature, head.Type, typ)
	case head.Alg != algEd25519 || len(e.Unprotected) != 0:
		return e, nil, ErrSignature
	}
	return e, head.Key, nil
}

// appendBytes appends a CBOR byte string.
func appendBytes(to, b []byte) []byte {
	const major = 2 << 5
	switch n := len(b); {
	case n < 24:
		to = append(to, major|byte(n))
	case n < 1<<8:
		to = append(to, major|24, byte(n))
	case n < 1<<16:
		to = binary.BigEndian.AppendUint16(append(to, major|25), uint16(n))
	default:
		to = binary.BigEndian.AppendUint32(append(to, major|26), uint32(n))
	}
	return append(to, b...)
}

// cutBytes takes a CBOR byte string with the shortest form of its length off b.
func cutBytes(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0]>>5 != 2 {
		return nil, nil, false
	}
	var n, head uint64
	switch low := b[0] & 31; {
	case low < 24:
		n, head = uint64(low), 1
	case low == 24 && len(b) > 1 && b[1] >= 24:
		n, head = uint64(b[1]), 2
	case low == 25 && len(b) > 2 && b[1] > 0:
		n, head = uint64(binary.BigEndian.Uint16(b[1:])), 3
	case low == 26 && len(b) > 4 && b[1]|b[2] > 0:
		n, head = uint64(binary.BigEndian.Uint32(b[1:])), 5
	default:
		return nil, nil, false
	}
	if uint64(len(b)) < head+n {
		return nil, nil, false
	}
	return b[head : head+n : head+n], b[head+n:], true
}
