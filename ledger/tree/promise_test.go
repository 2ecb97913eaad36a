package tree_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

func TestPromise(t *testing.T) {
	keeper, stranger := newKey(1), newKey(2)
	sign := func(by ed25519.PrivateKey, v record.Entry) record.Signed[record.Entry] {
		return must(record.Sign(by, v))
	}
	mesh := must(record.Sign(keeper, record.Mesh{Name: "m", Keepers: []record.Member{{Key: record.PublicKey(keeper.Public().(ed25519.PublicKey))}}, Quorum: 1}))
	mine := sign(stranger, record.Entry{V: 1, Kind: record.TypeTransfer, Seq: 1, Idem: record.Ref{1}, Transfer: &record.Transfer{Amount: 1}})
	other := sign(stranger, record.Entry{V: 1, Kind: record.TypeTransfer, Seq: 1, Idem: record.Ref{2}, Transfer: &record.Transfer{Amount: 2}})
	p := tree.Promise{Mesh: mesh.Ref(), Entries: []tree.Promised{{Entry: mine.Ref(), Index: 4}}, Size: 6, Deadline: 1000}

	short := p
	short.Size = 4
	far := p
	far.Mesh = record.Ref{1}
	for name, tc := range map[string]struct {
		by   ed25519.PrivateKey
		p    tree.Promise
		good bool
	}{
		"a keeper's":          {keeper, p, true},
		"a stranger's":        {stranger, p, false},
		"of another mesh":     {keeper, far, false},
		"beyond its own size": {keeper, short, false},
	} {
		s := must(record.Sign(tc.by, tc.p))
		if _, err := tree.OpenPromise(s.Raw(), mesh); (err == nil) != tc.good || err != nil && !errors.Is(err, tree.ErrPromise) {
			t.Errorf("%s: %v", name, err)
		}
		bad := append(record.Raw(nil), s.Raw()...)
		bad[len(bad)-1] ^= 1
		if _, err := tree.OpenPromise(bad, mesh); !errors.Is(err, tree.ErrPromise) {
			t.Errorf("%s, changed: %v", name, err)
		}
	}
	for name, tc := range map[string]struct {
		proven tree.Proven
		kept   bool
	}{
		"it stands there":                  {tree.Proven{Index: 4, Entry: mine, Head: tree.Head{Size: 6}}, true},
		"another stands there":             {tree.Proven{Index: 4, Entry: other, Head: tree.Head{Size: 9}}, false},
		"another stands elsewhere":         {tree.Proven{Index: 5, Entry: other, Head: tree.Head{Size: 9}}, true},
		"another stands in a shorter log":  {tree.Proven{Index: 4, Entry: other, Head: tree.Head{Size: 5}, Time: 900}, true},
		"the log is short after that time": {tree.Proven{Index: 3, Entry: other, Head: tree.Head{Size: 5}, Time: 1001}, false},
		"the log is short until that time": {tree.Proven{Index: 3, Entry: other, Head: tree.Head{Size: 5}, Time: 1000}, true},
	} {
		if err := p.Breach(tc.proven); (err == nil) != tc.kept || err != nil && !errors.Is(err, tree.ErrBreach) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
