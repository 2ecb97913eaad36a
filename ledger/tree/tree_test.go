package tree_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

func newKey(b byte) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte{b})
	return ed25519.NewKeyFromSeed(seed[:])
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// mesh returns a mesh of three keepers, keys 1 to 3, two of whom must sign.
func mesh(name string) record.Signed[record.Mesh] {
	m := record.Mesh{Name: name, Quorum: 2}
	for i := range byte(3) {
		m.Keepers = append(m.Keepers, record.Member{Key: record.PublicKey(newKey(i + 1).Public().(ed25519.PublicKey))})
	}
	return must(record.Sign(newKey(1), m))
}

// A log is a tree in memory.
type log struct {
	hashes []tlog.Hash
	leaves [][]byte
}

func (l *log) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, n := range at {
		out[i] = l.hashes[n]
	}
	return out, nil
}

func newLog(n int) *log {
	l := &log{}
	for i := range n {
		e := must(record.Sign(newKey(9), record.Entry{
			V: 1, Kind: record.TypeCut, Seq: uint64(i), Idem: record.Ref{byte(i)}, Cut: &record.Cut{Lease: record.Ref{1}},
		}))
		leaf := must(record.Encode(record.Leaf{Time: record.Millis(i), Entry: e.Raw()}))
		l.leaves = append(l.leaves, leaf)
		l.hashes = append(l.hashes, must(tlog.StoredHashes(int64(i), leaf, l))...)
	}
	return l
}

func (l *log) head(m record.Signed[record.Mesh], size int, keepers ...byte) tree.Head {
	root := record.Ref(must(tlog.TreeHash(int64(size), l)))
	var heads []tree.Head
	for _, k := range keepers {
		heads = append(heads, must(tree.Sign(newKey(k), m.Ref(), uint64(size), root)))
	}
	return must(tree.Join(heads...))
}

func (l *log) proof(head tree.Head, index int) tree.Proof {
	p := tree.Proof{Index: uint64(index), Leaf: l.leaves[index], Head: head}
	for _, h := range must(tlog.ProveRecord(int64(head.Size), int64(index), l)) {
		p.Path = append(p.Path, record.Ref(h))
	}
	return p
}

func TestOpen(t *testing.T) {
	m, l := mesh("a"), newLog(5)
	good := l.head(m, 5, 1, 2)
	for name, tc := range map[string]struct {
		note string
		ok   bool
	}{
		"two of three":        {good.Note, true},
		"all three":           {l.head(m, 5, 3, 2, 1).Note, true},
		"with a stranger":     {l.head(m, 5, 1, 9, 3).Note, true},
		"one":                 {l.head(m, 5, 1).Note, false},
		"one twice":           {l.head(m, 5, 1, 1).Note, false},
		"one and a stranger":  {l.head(m, 5, 1, 9).Note, false},
		"of another mesh":     {l.head(mesh("b"), 5, 1, 2).Note, false},
		"another size":        {strings.Replace(good.Note, "\n5\n", "\n6\n", 1), false},
		"a leading zero":      {strings.Replace(good.Note, "\n5\n", "\n05\n", 1), false},
		"a negative size":     {strings.Replace(good.Note, "\n5\n", "\n-5\n", 1), false},
		"a size above 2^63":   {strings.Replace(good.Note, "\n5\n", "\n9223372036854775808\n", 1), false},
		"an extra line":       {strings.Replace(good.Note, "\n\n", "\nmore\n\n", 1), false},
		"no last newline":     {strings.TrimSuffix(good.Note, "\n"), false},
		"no signature":        {good.Note[:strings.Index(good.Note, "\n\n")+2], false},
		"empty":               {"", false},
		"longer than allowed": {good.Note + strings.Repeat("— x YWFhYWFhYWE=\n", 5000), false},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := tree.Open(tc.note, m)
			if tc.ok != (err == nil) || tc.ok && (h.Size != 5 || h.Root != good.Root) || err != nil && !errors.Is(err, tree.ErrHead) {
				t.Errorf("Open = %+v, %v", h, err)
			}
		})
	}
}

// TestNoteReaders opens a head with the reader of the Go checksum database.
func TestNoteReaders(t *testing.T) {
	m, l := mesh("a"), newLog(3)
	h := l.head(m, 3, 2)
	vkey := must(note.NewEd25519VerifierKey(tree.Origin(m.Ref()), newKey(2).Public().(ed25519.PublicKey)))
	n, err := note.Open([]byte(h.Note), note.VerifierList(must(note.NewVerifier(vkey))))
	if want := fmt.Sprintf("idlemesh/%v\n3\n%v\n", m.Ref(), tlog.Hash(h.Root)); err != nil || n.Text != want {
		t.Errorf("Open = %+v, %v; want %q", n, err, want)
	}
}

func TestJoinRefusesOthers(t *testing.T) {
	m, l := mesh("a"), newLog(3)
	if h, err := tree.Join(l.head(m, 3, 1), l.head(m, 2, 2)); !errors.Is(err, tree.ErrHead) {
		t.Errorf("Join of two sizes = %+v, %v", h, err)
	}
	if _, err := tree.Join(); !errors.Is(err, tree.ErrHead) {
		t.Errorf("Join of none: %v", err)
	}
}

func TestProof(t *testing.T) {
	m, l := mesh("a"), newLog(70)
	for _, size := range []int{1, 2, 3, 7, 8, 64, 70} {
		head := l.head(m, size, 1, 3)
		for index := range size {
			text := must(l.proof(head, index).MarshalText())
			var p tree.Proof
			if err := p.UnmarshalText(text); err != nil {
				t.Fatal(err)
			}
			got, err := tree.Check(p, m)
			if err != nil || got.Index != uint64(index) || got.Time != record.Millis(index) || got.Entry.Value.Seq != uint64(index) {
				t.Fatalf("entry %d of %d: %+v, %v", index, size, got, err)
			}
		}
	}
}

// TestProofBytes changes every byte of a proof: none may still verify.
func TestProofBytes(t *testing.T) {
	m, l := mesh("a"), newLog(9)
	text := must(l.proof(l.head(m, 9, 1, 2), 4).MarshalText())
	for i := range text {
		for _, to := range []byte{text[i] ^ 1, '\n', ' '} {
			if text[i] == to {
				continue
			}
			bad := bytes.Clone(text)
			bad[i] = to
			var p tree.Proof
			if err := p.UnmarshalText(bad); err != nil {
				continue
			}
			if got, err := tree.Check(p, m); err == nil {
				t.Errorf("byte %d, %q to %q: %+v", i, text[i], to, got)
			}
		}
	}
}

func TestProofRefused(t *testing.T) {
	m, l := mesh("a"), newLog(9)
	head := l.head(m, 9, 1, 2)
	for name, change := range map[string]func(p *tree.Proof){
		"another index":    func(p *tree.Proof) { p.Index = 5 },
		"beyond the log":   func(p *tree.Proof) { p.Index = 9 },
		"another leaf":     func(p *tree.Proof) { p.Leaf = l.leaves[5] },
		"no path":          func(p *tree.Proof) { p.Path = nil },
		"a longer path":    func(p *tree.Proof) { p.Path = append(p.Path, record.Ref{}) },
		"an older head":    func(p *tree.Proof) { p.Head = l.head(m, 8, 1, 2) },
		"an unsigned head": func(p *tree.Proof) { p.Head.Note = "" },
	} {
		p := l.proof(head, 4)
		change(&p)
		if got, err := tree.Check(p, m); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var p tree.Proof
	for name, text := range map[string]string{
		"too long":      "c2sp.org/tlog-proof@v1\nextra " + strings.Repeat("A", 1<<20),
		"too many":      "c2sp.org/tlog-proof@v1\nextra AA==\nindex 0\n" + strings.Repeat("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", 64) + "\n" + head.Note,
		"no extra":      "c2sp.org/tlog-proof@v1\nindex 0\n\n" + head.Note,
		"other magic":   "c2sp.org/tlog-proof@v2\nextra AA==\nindex 0\n\n" + head.Note,
		"loose base64":  "c2sp.org/tlog-proof@v1\nextra AB==\nindex 0\n\n" + head.Note,
		"short hash":    "c2sp.org/tlog-proof@v1\nextra AA==\nindex 0\nAAAA\n\n" + head.Note,
		"signed index":  "c2sp.org/tlog-proof@v1\nextra AA==\nindex +1\n\n" + head.Note,
		"another log":   "c2sp.org/tlog-proof@v1\nextra AA==\nindex 0\n\n" + strings.Replace(head.Note, "idlemesh/", "example.com/", 1),
		"nothing there": "",
	} {
		if err := p.UnmarshalText([]byte(text)); !errors.Is(err, tree.ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConsistency(t *testing.T) {
	m, l := mesh("a"), newLog(20)
	fork := newLog(20)
	fork.leaves[3][5] ^= 1
	*fork = log{leaves: fork.leaves}
	for i, leaf := range fork.leaves {
		fork.hashes = append(fork.hashes, must(tlog.StoredHashes(int64(i), leaf, fork))...)
	}
	for older := 1; older <= 20; older++ {
		for newer := older; newer <= 20; newer++ {
			var path []record.Ref
			for _, h := range must(tlog.ProveTree(int64(newer), int64(older), l)) {
				path = append(path, record.Ref(h))
			}
			a, b, other := l.head(m, older, 1), l.head(m, newer, 1), fork.head(m, older, 1)
			if err := tree.CheckConsistency(a, b, path); err != nil {
				t.Errorf("%d to %d: %v", older, newer, err)
			}
			if older > 3 && !errors.Is(tree.CheckConsistency(other, b, path), tree.ErrProof) {
				t.Errorf("%d to %d: a fork is consistent", older, newer)
			}
			if older < newer && !errors.Is(tree.CheckConsistency(b, a, path), tree.ErrProof) {
				t.Errorf("%d to %d: backwards", older, newer)
			}
		}
	}
	if err := tree.CheckConsistency(tree.Head{}, l.head(m, 3, 1), nil); err != nil {
		t.Errorf("from nothing: %v", err)
	}
}

func FuzzProof(f *testing.F) {
	m, l := mesh("a"), newLog(9)
	f.Add(must(l.proof(l.head(m, 9, 1, 2), 4).MarshalText()))
	f.Add(must(l.proof(l.head(m, 1, 1), 0).MarshalText()))
	f.Fuzz(func(t *testing.T, text []byte) {
		var p tree.Proof
		if p.UnmarshalText(text) != nil {
			return
		}
		if again := must(p.MarshalText()); !bytes.Equal(again, text) {
			t.Fatalf("%q is written as %q", text, again)
		}
		if got, err := tree.Check(p, m); err == nil && !bytes.Equal(l.leaves[got.Index], p.Leaf) {
			t.Fatalf("proved a leaf that is not there: %+v", got)
		}
	})
}

func FuzzOpen(f *testing.F) {
	m, l := mesh("a"), newLog(5)
	root := l.head(m, 5, 1).Root
	f.Add(l.head(m, 5, 1, 2).Note)
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := tree.Open(text, m); err == nil && (h.Size != 5 || h.Root != root) {
			t.Fatalf("opened a head that was never signed: %+v", h)
		}
	})
}

func ExampleCheck() {
	m, l := mesh("a"), newLog(9)
	file := must(l.proof(l.head(m, 9, 1, 2), 4).MarshalText())
	var p tree.Proof
	if err := p.UnmarshalText(file); err != nil {
		fmt.Println(err)
		return
	}
	got, err := tree.Check(p, m)
	fmt.Println(got.Index, got.Entry.Value.Kind, got.Head.Size, err)
	// Output: 4 lease-cut 9 <nil>
}
