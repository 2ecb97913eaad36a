package record

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// ErrNotCanonical is returned for CBOR that is valid but not the one encoding.
var ErrNotCanonical = errors.New("not canonical CBOR")

var encMode, decMode = modes()

func modes() (cbor.EncMode, cbor.DecMode) {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, UTF8: cbor.UTF8RejectInvalid,
		MaxNestedLevels: 8, MaxArrayElements: 1 << 17, MaxMapPairs: 1 << 12,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}

// Encode returns the one canonical encoding of v: core deterministic CBOR
// (RFC 8949 section 4.2.1).
func Encode(v any) ([]byte, error) { return encMode.Marshal(v) }

// Decode fills v from b and refuses every encoding but the canonical one, as well
// as duplicate keys, unknown fields, tags, and more than 8 levels of nesting.
func Decode(b []byte, v any) error {
	if err := decMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if again, err := Encode(v); err != nil || !bytes.Equal(again, b) {
		return ErrNotCanonical
	}
	return nil
}
