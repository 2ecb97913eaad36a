package ledger_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger"
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
)

// TestBackup takes a copy while entries come, and checks that the copy is a ledger of
// its own: it verifies, proves and answers, and can be gone on with.
func TestBackup(t *testing.T) {
	w := newWorld()
	files := vfs.NewMem()
	l := w.open(t, files)
	apply(t, l, w.deposit(record.Credit))
	for range 20 {
		raws, _ := w.whole()
		apply(t, l, raws...)
	}
	head := l.Head()
	more, _ := w.whole()
	apply(t, l, more...)
	if err := l.Backup("copy", head); err != nil {
		t.Fatal(err)
	}
	if err := l.Backup("copy", head); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	later, _ := w.whole()
	apply(t, l, later...)
	r, err := ledger.OpenReadOnly("copy", w.mesh, w.config(files))
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := r.Verify(t.Context(), nil); err != nil || rep.Entries != 64 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
	for _, at := range []uint64{0, 30, 60} {
		p, err := r.Prove(at)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tree.Check(p, w.mesh); err != nil || got.Head.Size != 61 {
			t.Errorf("proof of %d: %+v, %v", at, got.Head, err)
		}
	}
	if _, err := r.Prove(62); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("proof of what the signed head does not have: %v", err)
	}
	if b, err := r.Balance(account.ID{Kind: account.Provider, Owner: public(w.provider).ID()}); err != nil || b.Free() != 21*6 {
		t.Errorf("balance %v, %v", b.Free(), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := ledger.Open("copy", w.mesh, w.keeper, w.config(files))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	apply(t, again, later...)
	if again.Head().Root != l.Head().Root {
		t.Error("the copy goes on to another root")
	}
}

// TestBackupRefuses hands over heads that the log does not lead to: nothing is left.
func TestBackupRefuses(t *testing.T) {
	w, other := newWorld(), newWorld()
	files := vfs.NewMem()
	l := w.open(t, files)
	apply(t, l, w.deposit(1))
	other.n = 99
	o := other.open(t, vfs.NewMem())
	apply(t, o, other.deposit(1), other.deposit(2))
	for name, head := range map[string]tree.Head{"another log's": o.Head(), "another root": {Size: 1, Root: record.Ref{1}}, "one to come": {Size: 9}} {
		if err := l.Backup("copy", head); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := files.Stat("copy"); err == nil {
			t.Errorf("%s: the copy is there", name)
		}
		if err := l.KeepHead(head); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	if err := l.Backup("copy", l.Head()); err != nil { // nothing above has broken the ledger
		t.Error(err)
	}
}

// TestKeepHead makes a copy entry by entry, as a mirror does.
func TestKeepHead(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	apply(t, l, w.deposit(5), w.deposit(6), w.deposit(7))
	files := vfs.NewMem()
	m, err := ledger.Open("mirror", w.mesh, newKey(77), w.config(files))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows(t, l, ledger.Query{}) {
		apply(t, m, row.Entry)
	}
	if err := m.KeepHead(l.Head()); err != nil {
		t.Fatal(err)
	}
	if err := m.KeepHead(m.Head()); !errors.Is(err, tree.ErrHead) {
		t.Errorf("a head that no keeper has signed: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ledger.OpenReadOnly("mirror", w.mesh, w.config(files))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := r.Prove(1)
	if err == nil {
		_, err = tree.Check(p, w.mesh)
	}
	if err != nil {
		t.Errorf("proof of a mirror: %v", err)
	}
}

func TestRebuild(t *testing.T) {
	w := newWorld()
	files := vfs.NewMem()
	w.fill(t, files, 300)
	l, err := ledger.OpenReadOnly("mesh", w.mesh, w.config(files))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := l.Rebuild(t.Context(), "again", nil)
	if err != nil || rep.Entries != 901 || rep.Keys < 901*10 {
		t.Errorf("Rebuild = %+v, %v", rep, err)
	}
	head := l.Head()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := ledger.Open("again", w.mesh, w.keeper, w.config(files))
	if err != nil {
		t.Fatal(err)
	}
	if again.Head().Root != head.Root {
		t.Error("what was rebuilt has another root")
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRebuildFinds changes keys behind the ledger's back. What is rebuilt does without
// them, and is a ledger that verifies.
func TestRebuildFinds(t *testing.T) {
	w := newWorld()
	files := vfs.NewMem()
	w.fill(t, files, 3)
	for _, prefix := range []string{"t/", "h/", "k/", "c/", "j/", "n/", "d/", "s/b/", "s/l/"} {
		for how, change := range map[string]func(db *pebble.DB, k, v []byte) error{
			"missing": func(db *pebble.DB, k, v []byte) error { return db.Delete(k, pebble.Sync) },
			"extra": func(db *pebble.DB, k, v []byte) error {
				k[len(k)/2+1] ^= 1
				return db.Set(k, v, pebble.Sync)
			},
		} {
			copied := cloneFS(t, files)
			tamper(t, copied, prefix, change)
			l, err := ledger.OpenReadOnly("mesh", w.mesh, w.config(copied))
			if err != nil {
				continue // seen at once
			}
			if _, err := l.Rebuild(t.Context(), "again", nil); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("%s %s: %v", prefix, how, err)
			}
			l.Close()
		}
	}
}

// TestTiles checks a log through its tiles and bundles alone, by tlog's own reader.
func TestTiles(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	var batch []record.Raw
	for range 700 {
		batch = append(batch, w.deposit(1))
	}
	apply(t, l, batch...)
	head := l.Head()
	reader := tlog.TileHashReader(tlog.Tree{N: int64(head.Size), Hash: tlog.Hash(head.Root)}, tileReader{l})
	for _, at := range []int64{0, 255, 256, 511, 699} {
		bundle, err := l.Bundle(uint64(at/256), min(256, 700-int(at/256*256)))
		if err != nil {
			t.Fatal(err)
		}
		var leaf []byte
		for range at%256 + 1 {
			n := int(bundle[0])<<8 | int(bundle[1])
			leaf, bundle = bundle[2:2+n], bundle[2+n:]
		}
		path, err := tlog.ProveRecord(int64(head.Size), at, reader)
		if err == nil {
			err = tlog.CheckRecord(path, int64(head.Size), tlog.Hash(head.Root), at, tlog.RecordHash(leaf))
		}
		if err != nil {
			t.Errorf("entry %d: %v", at, err)
		}
	}
	for _, older := range []uint64{0, 1, 256, 300, 699, 700} {
		old := must(l.HeadAt(older))
		path := must(l.Consistency(older, 700))
		if err := tree.CheckConsistency(old, head, path); err != nil {
			t.Errorf("%d to 700: %v", older, err)
		}
	}
	for what, err := range map[string]error{
		"a tile to come":  second(l.Tile(0, 2, 256)),
		"no hash":         second(l.Tile(0, 0, 0)),
		"too many":        second(l.Tile(0, 0, 257)),
		"a level too low": second(l.Tile(-1, 0, 1)),
		"the top":         second(l.Tile(7, 0, 256)),
		"beyond the top":  second(l.Tile(8, 0, 1)),
		"far away":        second(l.Tile(0, 1<<60, 1)),
		"no such bundle":  second(l.Bundle(1<<60, 256)),
		"half a bundle":   second(l.Bundle(2, 256)),
		"backwards":       second(l.Consistency(5, 4)),
		"sizes to come":   second(l.Consistency(5, 701)),
	} {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	apply(t, l, w.deposit(1)) // none of that has broken the ledger
}

func second[T any](_ T, err error) error { return err }

type tileReader struct{ *ledger.Ledger }

func (tileReader) Height() int { return 8 }

func (r tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		var err error
		if out[i], err = r.Tile(t.L, uint64(t.N), t.W); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
	}
	return out, nil
}

func (tileReader) SaveTiles([]tlog.Tile, [][]byte) {}
