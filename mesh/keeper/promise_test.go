package keeper

import (
	"crypto/ed25519"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/wire"
)

// TestPromise: who appends gets the keeper's word for what was taken and for nothing
// else, and the proof that he gets later is as promised.
func TestPromise(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	pub := record.PublicKey(key.Public().(ed25519.PublicKey))
	mesh, err := record.Sign(key, record.Mesh{Name: "m", Keepers: []record.Member{{Key: pub}}, Quorum: 1, Mint: pub, Params: record.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open("l", mesh, key, ledger.Config{FS: vfs.NewMem(), MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := New(l, Config{ID: pub.ID(), Key: key, Mesh: mesh.Ref()})
	deposit := func(seq uint64, idem byte) record.Raw {
		s, err := record.Sign(key, record.Entry{V: 1, Kind: record.TypeDeposit, Seq: seq, Idem: record.Ref{idem},
			Deposit: &record.Deposit{To: pub.ID(), Amount: 1, External: string(rune('a' + idem))}})
		if err != nil {
			t.Fatal(err)
		}
		return s.Raw()
	}
	raws := []record.Raw{deposit(0, 1), deposit(7, 2), deposit(1, 1), deposit(1, 3)} // taken, out of order, known, taken
	rep, err := k.append(t.Context(), wire.Caller{}, wire.AppendRequest{Entries: raws})
	if err != nil {
		t.Fatal(err)
	}
	p, err := tree.OpenPromise(rep.Promise, mesh)
	if err != nil || len(p.Value.Entries) != 2 || p.Value.Size != 2 {
		t.Fatalf("promise %+v, %v, of %+v", p.Value, err, rep.Results)
	}
	for i := range uint64(2) {
		proof, err := k.cfg.Quorum.Prove(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		x, err := tree.Check(proof, mesh)
		if err != nil || x.Entry.Ref() != p.Value.Entries[i].Entry {
			t.Errorf("entry %d is not what was promised: %v", i, err)
		}
		if err := p.Value.Breach(x); err != nil {
			t.Error(err)
		}
	}
	rep, err = k.append(t.Context(), wire.Caller{}, wire.AppendRequest{Entries: raws[:2]})
	if err != nil || rep.Promise != nil {
		t.Errorf("a promise for nothing: %v", err)
	}
}
