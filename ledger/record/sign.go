package record

import (
	"crypto"
	stded25519 "crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// A Type separates records under one signature scheme: the signature covers it,
// so a Bid can never be taken for a Voucher. It is the COSE header "typ"
// (RFC 9596).
type Type string

// A Record is any of this package's signed nouns.
type Record interface{ Type() Type }

// A Signed is a record together with the exact bytes that were signed. A Signed
// obtained from Sign, Open or CBOR decoding has been verified: there is no way to
// hold an unchecked one.
type Signed[T Record] struct {
	Value T
	Key   PublicKey // the signer's
	raw   Raw
}

// A Raw is a signed record not yet checked.
type Raw []byte

// ErrSignature is returned for bytes that no key has signed.
var ErrSignature = errors.New("signature does not verify")

// zip215 is the one verification rule: cofactored, as ZIP 215 defines it, so that
// single and batch verifiers never disagree; small-order keys are refused.
var zip215 = &ed25519.Options{Verify: &ed25519.VerifyOptions{
	AllowSmallOrderR: true, AllowNonCanonicalA: true, AllowNonCanonicalR: true,
}}

// Sign returns v signed by key, which holds an Ed25519 private key.
func Sign[T Record](key crypto.Signer, v T) (Signed[T], error) {
	pub, ok := key.Public().(stded25519.PublicKey)
	if !ok {
		return Signed[T]{}, fmt.Errorf("sign: want an Ed25519 key, have %T", key.Public())
	}
	payload, err := Encode(v)
	if err != nil {
		return Signed[T]{}, fmt.Errorf("sign: %w", err)
	}
	head, err := Encode(protected{Alg: algEd25519, Key: pub, Type: v.Type()})
	if err != nil {
		return Signed[T]{}, fmt.Errorf("sign: %w", err)
	}
	e := envelope{Protected: head, Payload: payload}
	if e.Signature, err = key.Sign(rand.Reader, e.message(), crypto.Hash(0)); err != nil {
		return Signed[T]{}, fmt.Errorf("sign: %w", err)
	}
	raw := e.raw()
	seen.add(raw)
	return Signed[T]{Value: v, Key: PublicKey(pub), raw: raw}, nil
}

// Open decodes raw strictly and verifies it.
func Open[T Record](raw Raw) (Signed[T], error) {
	l, err := unverified[T](raw)
	if err != nil {
		return Signed[T]{}, err
	}
	if !seen.has(raw) {
		if !l.key.Verify(l.msg, l.sig) {
			return Signed[T]{}, ErrSignature
		}
		seen.add(raw)
	}
	return signed(l, l.value), nil
}

// unverified decodes raw strictly and leaves its signature to be verified.
func unverified[T Record](raw Raw) (l loose[T], err error) {
	e, key, ok := openEnvelope(raw, l.value.Type())
	if !ok {
		if e, key, err = reject(raw, l.value.Type()); err != nil {
			return l, err
		}
	}
	if len(key) != ed25519.PublicKeySize || len(e.Signature) != ed25519.SignatureSize {
		return l, ErrSignature
	}
	if err := Decode(e.Payload, &l.value); err != nil {
		return l, err
	}
	l.key, l.sig, l.raw, l.msg = PublicKey(key), e.Signature, raw, e.message()
	return l, nil
}

// By names the signer.
func (s Signed[T]) By() NodeID { return s.Key.ID() }

// Ref names the signed bytes.
func (s Signed[T]) Ref() Ref { return sha256.Sum256(s.raw) }

// Raw returns the signed bytes, which the caller must not change.
func (s Signed[T]) Raw() Raw { return s.raw }

// MarshalCBOR embeds the signed bytes as a byte string.
func (s Signed[T]) MarshalCBOR() ([]byte, error) { return appendBytes(nil, s.raw), nil }

// UnmarshalCBOR verifies what it decodes.
func (s *Signed[T]) UnmarshalCBOR(b []byte) error {
	raw, err := embedded(b)
	if err != nil {
		return err
	}
	opened, err := Open[T](raw)
	*s = opened
	return err
}

// embedded returns the bytes of a record inside another.
func embedded(b []byte) (Raw, error) {
	raw, rest, ok := cutBytes(b)
	if !ok || len(rest) > 0 {
		return nil, fmt.Errorf("%w: a signed record is a byte string", ErrNotCanonical)
	}
	return raw, nil
}

// Verify reports whether k made sig over msg, by the one rule that every signature
// here is verified by.
func (k PublicKey) Verify(msg, sig []byte) bool {
	return len(sig) == ed25519.SignatureSize && ed25519.VerifyWithOptions(k[:], msg, sig, zip215)
}
