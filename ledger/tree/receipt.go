package tree

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
)

// A receipt is a COSE Receipt (RFC 9942) of inclusion in a tree of RFC 9162: a
// COSE_Sign1 by a keeper whose payload, the root of the tree, is left out. The leaf
// travels in the unprotected header, under a private label.
type receipt struct {
	_           struct{} `cbor:",toarray"`
	Protected   []byte
	Unprotected struct {
		Proofs struct {
			Inclusion [][]byte `cbor:"-1,keyasint"`
		} `cbor:"396,keyasint"`
		Leaf []byte `cbor:"-65537,keyasint"`
	}
	Payload   []byte // nil
	Signature []byte
}

type receiptHeader struct {
	Alg    int    `cbor:"1,keyasint"`
	Key    []byte `cbor:"4,keyasint"` // kid: the keeper's whole public key
	Claims struct {
		Issuer string `cbor:"1,keyasint"` // Origin of the mesh
	} `cbor:"15,keyasint"`
	Structure int `cbor:"395,keyasint"` // 1: RFC9162_SHA256
}

type inclusion struct {
	_     struct{} `cbor:",toarray"`
	Size  uint64
	Index uint64
	Path  []record.Ref
}

type receiptSigned struct {
	_         struct{} `cbor:",toarray"`
	Context   string
	Protected []byte
	External  []byte
	Root      []byte
}

const (
	coseSign1   = 0xd2 // CBOR tag 18
	coseEd25519 = -19
	rfc9162     = 1
)

// ErrAlone is returned for a COSE Receipt of a mesh whose heads several keepers must sign.
var ErrAlone = errors.New("a COSE Receipt has one signature, the mesh's keepers must give more")

// SignReceipt returns a proof as a COSE Receipt, signed by one keeper of the mesh, who
// must know that his log has the proof's head.
func SignReceipt(key crypto.Signer, mesh record.Signed[record.Mesh], p Proof) ([]byte, error) {
	if mesh.Value.Quorum > 1 {
		return nil, fmt.Errorf("sign receipt: %w: %d", ErrAlone, mesh.Value.Quorum)
	}
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("sign receipt: want an Ed25519 key, have %T", key.Public())
	}
	h := receiptHeader{Alg: coseEd25519, Key: pub, Structure: rfc9162}
	h.Claims.Issuer = Origin(mesh.Ref())
	var r receipt
	var err error
	if r.Protected, err = record.Encode(h); err != nil {
		return nil, fmt.Errorf("sign receipt: %w", err)
	}
	proof, err := record.Encode(inclusion{Size: p.Head.Size, Index: p.Index, Path: append([]record.Ref{}, p.Path...)})
	if err != nil {
		return nil, fmt.Errorf("sign receipt: %w", err)
	}
	r.Unprotected.Proofs.Inclusion, r.Unprotected.Leaf = [][]byte{proof}, p.Leaf
	msg, err := record.Encode(receiptSigned{Context: "Signature1", Protected: r.Protected, External: []byte{}, Root: p.Head.Root[:]})
	if err != nil {
		return nil, fmt.Errorf("sign receipt: %w", err)
	}
	if r.Signature, err = key.Sign(rand.Reader, msg, crypto.Hash(0)); err != nil {
		return nil, fmt.Errorf("sign receipt: %w", err)
	}
	b, err := record.Encode(r)
	if err != nil {
		return nil, fmt.Errorf("sign receipt: %w", err)
	}
	return append([]byte{coseSign1}, b...), nil
}

// IsReceipt reports whether b looks like a COSE Receipt rather than a tlog-proof.
func IsReceipt(b []byte) bool { return len(b) > 0 && b[0] == coseSign1 }

// CheckReceipt verifies a COSE Receipt with nothing at hand but the mesh file, as Check
// does a proof. A receipt has one keeper's signature, so it counts in a mesh whose quorum
// is one.
func CheckReceipt(b []byte, mesh record.Signed[record.Mesh]) (Proven, error) {
	var (
		r     receipt
		h     receiptHeader
		proof inclusion
	)
	if len(b) > maxProof || !IsReceipt(b) {
		return Proven{}, fmt.Errorf("%w: not a COSE Receipt of ours", ErrProof)
	}
	if err := record.Decode(b[1:], &r); err != nil {
		return Proven{}, fmt.Errorf("%w: receipt: %w", ErrProof, err)
	}
	if len(r.Unprotected.Proofs.Inclusion) != 1 || r.Payload != nil {
		return Proven{}, fmt.Errorf("%w: receipt: want one inclusion proof and no payload", ErrProof)
	}
	if err := record.Decode(r.Protected, &h); err != nil {
		return Proven{}, fmt.Errorf("%w: receipt header: %w", ErrProof, err)
	}
	if err := record.Decode(r.Unprotected.Proofs.Inclusion[0], &proof); err != nil {
		return Proven{}, fmt.Errorf("%w: inclusion: %w", ErrProof, err)
	}
	head, err := receiptHead(r, h, proof, mesh)
	if err != nil {
		return Proven{}, err
	}
	return open(proof.Index, r.Unprotected.Leaf, head)
}

// receiptHead computes the root that the receipt's proof leads to and verifies that a
// keeper of the mesh has signed it.
func receiptHead(r receipt, h receiptHeader, proof inclusion, mesh record.Signed[record.Mesh]) (Head, error) {
	if h.Alg != coseEd25519 || h.Structure != rfc9162 || h.Claims.Issuer != Origin(mesh.Ref()) {
		return Head{}, fmt.Errorf("%w: a receipt of %q, want %q", ErrHead, h.Claims.Issuer, Origin(mesh.Ref()))
	}
	if mesh.Value.Quorum > 1 {
		return Head{}, fmt.Errorf("%w: %w: %d", ErrHead, ErrAlone, mesh.Value.Quorum)
	}
	root, ok := climb(proof, r.Unprotected.Leaf)
	if !ok {
		return Head{}, fmt.Errorf("%w: %d hashes do not lead from entry %d to a tree of %d", ErrProof, len(proof.Path), proof.Index, proof.Size)
	}
	msg, err := record.Encode(receiptSigned{Context: "Signature1", Protected: r.Protected, External: []byte{}, Root: root[:]})
	if err != nil {
		return Head{}, err
	}
	for _, k := range mesh.Value.Keepers {
		if bytes.Equal(k.Key[:], h.Key) && k.Key.Verify(msg, r.Signature) {
			return Head{Size: proof.Size, Root: root}, nil
		}
	}
	return Head{}, fmt.Errorf("%w: no keeper of the mesh has signed the root that the receipt leads to", ErrHead)
}

// climb computes the root from a leaf and its path (RFC 9162, section 2.1.3.2).
func climb(p inclusion, leaf []byte) (record.Ref, bool) {
	if p.Index >= p.Size || p.Size > 1<<63-1 || len(p.Path) > maxPath {
		return record.Ref{}, false
	}
	at, last, h := p.Index, p.Size-1, tlog.RecordHash(leaf)
	for _, sibling := range p.Path {
		if last == 0 {
			return record.Ref{}, false
		}
		if at&1 == 1 || at == last {
			h = tlog.NodeHash(tlog.Hash(sibling), h)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			h = tlog.NodeHash(h, tlog.Hash(sibling))
		}
		at, last = at>>1, last>>1
	}
	return record.Ref(h), last == 0
}
