package tree

import (
	"bytes"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"idlemesh/ledger/record"
)

// Forks returns the evidence that two signed heads of mesh are against its keepers: one
// for each that signed both, when they have one size and different roots. It is an
// ErrHead when they agree, or when no keeper signed both.
func Forks(a, b string, mesh record.Signed[record.Mesh]) ([]record.Evidence, error) {
	first, err := parseHead(a, Origin(mesh.Ref()))
	if err != nil {
		return nil, err
	}
	second, err := parseHead(b, Origin(mesh.Ref()))
	if err != nil {
		return nil, err
	}
	if first.Size != second.Size || first.Root == second.Root {
		return nil, fmt.Errorf("%w: size %d and %d, root %v and %v: want one size and two roots", ErrHead, first.Size, second.Size, first.Root, second.Root)
	}
	if bytes.Compare(first.Root[:], second.Root[:]) > 0 {
		first, second = second, first
	}
	var out []record.Evidence
	for _, k := range mesh.Value.Keepers {
		one, ok := signedBy(first, mesh, k.Key)
		two, both := signedBy(second, mesh, k.Key)
		if ok && both {
			out = append(out, record.Evidence{Keeper: k.Key, Mesh: mesh.Ref(), Size: first.Size, A: one, B: two})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no keeper of the mesh has signed both", ErrHead)
	}
	return out, nil
}

// signedBy returns a keeper's signature of a head, once it has been verified.
func signedBy(h Head, mesh record.Signed[record.Mesh], key record.PublicKey) (s record.HeadSign, ok bool) {
	k := catcher{keeper: keeper{Origin(mesh.Ref()), key}}
	if _, err := note.Open([]byte(h.Note), note.VerifierList(&k)); err != nil || k.sig == nil {
		return s, false
	}
	return record.HeadSign{Root: h.Root, Sign: k.sig}, true
}

// A catcher is a keeper's verifier that keeps the signature it verified.
type catcher struct {
	keeper
	sig []byte
}

func (c *catcher) Verify(msg, sig []byte) bool {
	ok := c.keeper.Verify(msg, sig)
	if ok {
		c.sig = bytes.Clone(sig)
	}
	return ok
}
