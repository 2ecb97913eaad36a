package tree

import (
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
)

// A Proof shows that a leaf stands at Index of the log under Head. Its text form is a
// C2SP tlog-proof whose extra data are the leaf's bytes, so that the entry itself is
// in the file. A parsed Proof says nothing until Check has verified it.
type Proof struct {
	Index uint64
	Leaf  []byte       // an encoded record.Leaf
	Path  []record.Ref // from the leaf's sibling up
	Head  Head
}

// A Proven is what a verified proof shows.
type Proven struct {
	Index uint64
	Time  record.Millis
	Entry record.Signed[record.Entry]
	Head  Head
}

const (
	proofMagic = "c2sp.org/tlog-proof@v1"
	maxProof   = 1 << 20 // bytes of text
	maxPath    = 63      // hashes: sizes are below 2^63
)

// MarshalText returns the tlog-proof.
func (p Proof) MarshalText() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nextra %s\nindex %d\n", proofMagic, base64.StdEncoding.EncodeToString(p.Leaf), p.Index)
	for _, h := range p.Path {
		fmt.Fprintf(&b, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	fmt.Fprintf(&b, "\n%s", p.Head.Note)
	return []byte(b.String()), nil
}

// UnmarshalText reads a tlog-proof strictly: only what MarshalText writes.
func (p *Proof) UnmarshalText(text []byte) error {
	if len(text) > maxProof {
		return fmt.Errorf("%w: text of %d bytes, at most %d", ErrProof, len(text), maxProof)
	}
	top, head, ok := strings.Cut(string(text), "\n\n")
	lines := strings.Split(top, "\n")
	if !ok || len(lines) < 3 || len(lines) > 3+maxPath || lines[0] != proofMagic {
		return fmt.Errorf("%w: not a tlog-proof of ours: want %q, extra, index, hashes, an empty line and a tree head", ErrProof, proofMagic)
	}
	got, err := parseProof(lines[1:])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	if got.Head, err = parseHead(head, ""); err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	*p = got
	return nil
}

func parseProof(lines []string) (p Proof, err error) {
	extra, ok := strings.CutPrefix(lines[0], "extra ")
	if p.Leaf, err = base64.StdEncoding.DecodeString(extra); !ok || err != nil ||
		base64.StdEncoding.EncodeToString(p.Leaf) != extra {
		return p, fmt.Errorf("%.24q: want extra and the leaf in base64", lines[0])
	}
	index, ok := strings.CutPrefix(lines[1], "index ")
	if !ok {
		return p, fmt.Errorf("%.24q: want index and a decimal", lines[1])
	}
	if p.Index, err = parseNumber(index); err != nil {
		return p, fmt.Errorf("index %w", err)
	}
	for _, line := range lines[2:] {
		h, err := parseHash(line)
		if err != nil {
			return p, fmt.Errorf("path %w", err)
		}
		p.Path = append(p.Path, h)
	}
	return p, nil
}

// Check verifies p with nothing at hand but the mesh file: that a quorum of its
// keepers signed the head, that the leaf stands in the log under it, and that its
// author signed the entry.
func Check(p Proof, mesh record.Signed[record.Mesh]) (Proven, error) {
	head, err := Open(p.Head.Note, mesh)
	if err != nil {
		return Proven{}, err
	}
	if p.Index >= head.Size {
		return Proven{}, fmt.Errorf("%w: index %d in a log of %d", ErrProof, p.Index, head.Size)
	}
	err = tlog.CheckRecord(hashes(p.Path), int64(head.Size), tlog.Hash(head.Root), int64(p.Index), tlog.RecordHash(p.Leaf))
	if err != nil {
		return Proven{}, fmt.Errorf("%w: its hashes do not lead to the tree head", ErrProof)
	}
	return open(p.Index, p.Leaf, head)
}

// open reads a leaf that has been proved.
func open(index uint64, raw []byte, head Head) (Proven, error) {
	var leaf record.Leaf
	if err := record.Decode(raw, &leaf); err != nil {
		return Proven{}, fmt.Errorf("%w: leaf: %w", ErrProof, err)
	}
	entry, err := record.Open[record.Entry](leaf.Entry)
	if err != nil {
		return Proven{}, fmt.Errorf("%w: entry: %w", ErrProof, err)
	}
	return Proven{Index: index, Time: leaf.Time, Entry: entry, Head: head}, nil
}

// CheckConsistency verifies that older is a prefix of newer. It does not look at
// their signatures: Open does.
func CheckConsistency(older, newer Head, path []record.Ref) error {
	if older.Size == 0 && len(path) == 0 || older.Size == newer.Size && older.Root == newer.Root && len(path) == 0 {
		return nil
	}
	if older.Size >= newer.Size || older.Size == 0 || len(path) > maxPath {
		return fmt.Errorf("%w: no path leads from size %d to %d", ErrProof, older.Size, newer.Size)
	}
	err := tlog.CheckTree(hashes(path), int64(newer.Size), tlog.Hash(newer.Root), int64(older.Size), tlog.Hash(older.Root))
	if err != nil {
		return fmt.Errorf("%w: size %d is not a prefix of size %d", ErrProof, older.Size, newer.Size)
	}
	return nil
}

func hashes(refs []record.Ref) []tlog.Hash {
	out := make([]tlog.Hash, len(refs))
	for i, r := range refs {
		out[i] = tlog.Hash(r)
	}
	return out
}
