// Package tree is the arithmetic of the Merkle log: tree heads, inclusion and
// consistency proofs and the keepers' signatures, in the C2SP text forms.
//
// It needs no disk and no Pebble, so a tenant's client and an auditor with a file
// check proofs with the same code that makes them. The tree is that of RFC 6962 over
// SHA-256; a leaf is an encoded record.Leaf.
package tree

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"idlemesh/ledger/record"
)

// A Head is a tree head: size and root of the log at one moment. (The word
// checkpoint always means a job's.)
type Head struct {
	Size uint64
	Root record.Ref
	// Note is the signed form, a C2SP tlog-checkpoint: the lines origin, size and
	// root, then a signature a keeper. Empty for a head that nobody has signed.
	Note string
}

var (
	// ErrHead is returned for a tree head that is malformed, of another mesh, or
	// without a quorum of its keepers.
	ErrHead = errors.New("tree head does not verify")
	// ErrProof is returned for a proof that does not lead from its leaf to its head.
	ErrProof = errors.New("proof does not verify")
)

// maxNote bounds a signed head: 255 signatures and some of witnesses.
const maxNote = 64 << 10

// Origin is the first line of every tree head of a mesh, and the name of all its
// keepers' keys: together they are the log. Their keys tell them apart.
func Origin(mesh record.Ref) string { return "idlemesh/" + mesh.String() }

// Sign returns the head signed by one keeper.
func Sign(key crypto.Signer, mesh record.Ref, size uint64, root record.Ref) (Head, error) {
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Head{}, fmt.Errorf("sign tree head: want an Ed25519 key, have %T", key.Public())
	}
	text := string(record.HeadText(mesh, size, root))
	msg, err := note.Sign(&note.Note{Text: text}, signer{keeper{Origin(mesh), record.PublicKey(pub)}, key})
	if err != nil {
		return Head{}, fmt.Errorf("sign tree head: %w", err)
	}
	return Head{Size: size, Root: root, Note: string(msg)}, nil
}

// Join returns the heads' common head with the signatures of all. They must agree.
func Join(heads ...Head) (Head, error) {
	if len(heads) == 0 {
		return Head{}, fmt.Errorf("%w: none given", ErrHead)
	}
	all := heads[0]
	body, _, _ := strings.Cut(all.Note, "\n\n")
	for _, h := range heads[1:] {
		text, signs, ok := strings.Cut(h.Note, "\n\n")
		if !ok || text != body {
			return Head{}, fmt.Errorf("%w: size %d with root %v, and size %d with root %v", ErrHead, all.Size, all.Root, h.Size, h.Root)
		}
		for line := range strings.Lines(signs) {
			if !strings.Contains(all.Note, line) {
				all.Note += line
			}
		}
	}
	return all, nil
}

// Open parses a signed head strictly and verifies that a quorum of mesh's keepers
// signed it. Signatures of others, such as witnesses, are ignored.
func Open(text string, mesh record.Signed[record.Mesh]) (Head, error) {
	h, err := parseHead(text, Origin(mesh.Ref()))
	if err != nil {
		return Head{}, err
	}
	var known []note.Verifier
	for _, k := range mesh.Value.Keepers {
		known = append(known, keeper{Origin(mesh.Ref()), k.Key})
	}
	n, err := note.Open([]byte(text), note.VerifierList(known...))
	if err != nil {
		return Head{}, fmt.Errorf("%w: %w", ErrHead, err)
	}
	signed := map[uint32]bool{}
	for _, s := range n.Sigs {
		signed[s.Hash] = true
	}
	if quorum := max(int(mesh.Value.Quorum), 1); len(signed) < quorum {
		return Head{}, fmt.Errorf("%w: signed by %d of the mesh's keepers, %d must", ErrHead, len(signed), quorum)
	}
	return h, nil
}

// parseHead reads a note's three lines. An empty origin stands for any of ours.
func parseHead(text, origin string) (Head, error) {
	body, signs, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(body, "\n")
	if !ok || !canonical(signs) || len(text) > maxNote || len(lines) != 3 {
		return Head{}, fmt.Errorf("%w: want three lines, an empty one and signatures", ErrHead)
	}
	if origin != "" && lines[0] != origin || !strings.HasPrefix(lines[0], "idlemesh/") {
		return Head{}, fmt.Errorf("%w: of %q, want %q", ErrHead, lines[0], origin)
	}
	size, err := parseNumber(lines[1])
	if err != nil {
		return Head{}, fmt.Errorf("%w: size %w", ErrHead, err)
	}
	root, err := parseHash(lines[2])
	if err != nil {
		return Head{}, fmt.Errorf("%w: root %w", ErrHead, err)
	}
	return Head{Size: size, Root: root, Note: text}, nil
}

// canonical reports whether each signature is written in the one way that base64 has.
func canonical(signs string) bool {
	for line := range strings.Lines(signs) {
		line = strings.TrimSuffix(line, "\n")
		sig := line[strings.LastIndexByte(line, ' ')+1:]
		b, err := base64.StdEncoding.DecodeString(sig)
		if err != nil || base64.StdEncoding.EncodeToString(b) != sig {
			return false
		}
	}
	return true
}

// parseNumber reads a decimal below 2^63 without leading zeros.
func parseNumber(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > math.MaxInt64 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%.24q: want a decimal", s)
	}
	return n, nil
}

func parseHash(s string) (r record.Ref, err error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != len(r) || base64.StdEncoding.EncodeToString(b) != s {
		return r, fmt.Errorf("%.48q: want a hash in base64", s)
	}
	return record.Ref(b), nil
}

// A keeper verifies one keeper's signatures, by the rule of package record.
type keeper struct {
	name string
	key  record.PublicKey
}

const algEd25519 = 1 // of signed notes

func (k keeper) Name() string { return k.name }

func (k keeper) KeyHash() uint32 {
	h := sha256.New()
	h.Write([]byte(k.name + "\n"))
	h.Write([]byte{algEd25519})
	h.Write(k.key[:])
	return binary.BigEndian.Uint32(h.Sum(nil))
}

func (k keeper) Verify(msg, sig []byte) bool { return k.key.Verify(msg, sig) }

type signer struct {
	keeper
	secret crypto.Signer
}

func (s signer) Sign(msg []byte) ([]byte, error) {
	return s.secret.Sign(rand.Reader, bytes.Clone(msg), crypto.Hash(0))
}
