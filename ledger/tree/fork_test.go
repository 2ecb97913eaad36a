package tree

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"idlemesh/ledger/record"
)

func TestForks(t *testing.T) {
	var keys [3]ed25519.PrivateKey
	var m record.Mesh
	for i := range keys {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i + 1)
		keys[i] = ed25519.NewKeyFromSeed(seed)
		m.Keepers = append(m.Keepers, record.Member{Key: record.PublicKey(keys[i].Public().(ed25519.PublicKey))})
	}
	mesh, err := record.Sign(keys[0], m)
	if err != nil {
		t.Fatal(err)
	}
	head := func(size uint64, root byte, mesh record.Ref, by ...int) string {
		var heads []Head
		for _, k := range by {
			h, err := Sign(keys[k], mesh, size, record.Ref{root})
			if err != nil {
				t.Fatal(err)
			}
			heads = append(heads, h)
		}
		all, err := Join(heads...)
		if err != nil {
			t.Fatal(err)
		}
		return all.Note
	}
	for name, tc := range map[string]struct {
		a, b string
		want int // keepers convicted
	}{
		"two roots":           {head(5, 2, mesh.Ref(), 0, 1), head(5, 1, mesh.Ref(), 1, 2), 1},
		"all of them":         {head(5, 1, mesh.Ref(), 0, 1, 2), head(5, 2, mesh.Ref(), 0, 1, 2), 3},
		"one root":            {head(5, 1, mesh.Ref(), 0), head(5, 1, mesh.Ref(), 0), 0},
		"two sizes":           {head(5, 1, mesh.Ref(), 0), head(6, 2, mesh.Ref(), 0), 0},
		"nobody signed both":  {head(5, 1, mesh.Ref(), 0), head(5, 2, mesh.Ref(), 1), 0},
		"of another mesh":     {head(5, 1, record.Ref{1}, 0), head(5, 2, record.Ref{1}, 0), 0},
		"a forged signature":  {head(5, 1, mesh.Ref(), 0), strings.Replace(head(5, 2, mesh.Ref(), 0), "AgAA", "AwAA", 1), 0},
		"no head at all":      {"x", head(5, 2, mesh.Ref(), 0), 0},
		"no head, the second": {head(5, 2, mesh.Ref(), 0), "", 0},
	} {
		got, err := Forks(tc.a, tc.b, mesh)
		if len(got) != tc.want || (err == nil) != (tc.want > 0) || err != nil && !errors.Is(err, ErrHead) {
			t.Errorf("%s: %d convicted, %v; want %d", name, len(got), err, tc.want)
		}
		for _, e := range got {
			if !e.Keeper.Verify(record.HeadText(e.Mesh, e.Size, e.A.Root), e.A.Sign) || !e.Keeper.Verify(record.HeadText(e.Mesh, e.Size, e.B.Root), e.B.Sign) {
				t.Errorf("%s: the evidence does not prove itself", name)
			}
		}
	}
}
