package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// A bank is a mesh that has only a mint and a keeper, with some deposits.
type bank struct {
	mesh   record.Signed[record.Mesh]
	ledger *ledger.Ledger
	rows   []wire.Row
}

func newBank(t *testing.T, deposits int) bank {
	t.Helper()
	keeper, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	member := record.Member{Key: keeper.PublicKey(), Addr: "127.0.0.1:1"}
	b := bank{}
	b.mesh, err = record.Sign(keeper, record.Mesh{Name: "bank", Keepers: []record.Member{member}, Quorum: 1, Mint: keeper.PublicKey(),
		Gateways: []record.Member{member}, Params: record.DefaultParams()})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	b.ledger, err = ledger.Open(t.TempDir(), b.mesh, keeper, ledger.Config{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.ledger.Close() })
	for i := range deposits {
		e, err := record.Sign(keeper, record.Entry{V: 1, Kind: record.TypeDeposit, Seq: uint64(i), Idem: record.Ref{1, byte(i)},
			Deposit: &record.Deposit{To: record.NodeID{1}, Amount: 5, External: fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Duration(i%2) * time.Second) // two entries at each time
		out, err := b.ledger.Apply([]record.Raw{e.Raw()})
		if err != nil || out[0].Err != nil {
			t.Fatal(err, out)
		}
		b.rows = append(b.rows, wire.Row{Index: uint64(i), Time: record.At(now), Entry: e.Raw()})
	}
	return b
}

func TestVerifyFile(t *testing.T) {
	b, other := newBank(t, 5), newBank(t, 1)
	dir := t.TempDir()
	proof, err := b.ledger.Prove(3)
	if err != nil {
		t.Fatal(err)
	}
	text, err := proof.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, content []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good, mesh := file("proof.tlog", text), file("mesh.cbor", b.mesh.Raw())
	for name, tc := range map[string]struct {
		args []string
		want int
		says string
	}{
		"holds":           {[]string{good, "--mesh", mesh}, 0, "ok: entry 3 is in the log"},
		"on stdin":        {[]string{"-", "--mesh", mesh}, 0, "ok"},
		"as JSON":         {[]string{good, "--mesh", mesh, "-o", "json"}, 0, `"ok": true`},
		"no mesh file":    {[]string{good}, 2, "this home has no mesh file"},
		"mesh is missing": {[]string{good, "--mesh", filepath.Join(dir, "x")}, 2, "no such file"},
		"mesh is damaged": {[]string{good, "--mesh", good}, 7, "mesh file"},
		"another mesh":    {[]string{good, "--mesh", file("other.cbor", other.mesh.Raw())}, 7, "tree head does not verify"},
		"another index":   {[]string{file("i", bytes.Replace(text, []byte("index 3"), []byte("index 2"), 1)), "--mesh", mesh}, 7, "entry 2"},
		"cut":             {[]string{file("cut", text[:len(text)-9]), "--mesh", mesh}, 7, "verify"},
		"empty":           {[]string{file("empty", nil), "--mesh", mesh}, 7, "proof"},
		"too large":       {[]string{file("large", make([]byte, 2<<20)), "--mesh", mesh}, 2, "more than"},
		"no file":         {[]string{filepath.Join(dir, "none"), "--mesh", mesh}, 2, "no such file"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"meshctl", "--home", filepath.Join(dir, "home"), "ledger", "verify"}, tc.args...)
		got := Run(t.Context(), args, bytes.NewReader(text), &out, &errs)
		if said := out.String() + errs.String(); got != tc.want || !strings.Contains(said, tc.says) || got != 0 && out.Len() > 0 {
			t.Errorf("%s: status %d, %s; want %d, %q", name, got, said, tc.want, tc.says)
		}
	}
	var out, errs bytes.Buffer
	if got := Run(t.Context(), []string{"meshctl", "ledger", "verify", "-", "--mesh", mesh, "-o", "json"}, bytes.NewReader(text[1:]), &out, &errs); got != 7 || !strings.Contains(out.String(), `"ok": false`) {
		t.Errorf("as JSON: status %d, %s; want 7 and ok: false", got, out.String())
	}
	for at := range text { // whatever byte is changed
		bad := bytes.Clone(text)
		bad[at] ^= 1
		var out, errs bytes.Buffer
		if got := Run(t.Context(), []string{"meshctl", "ledger", "verify", "-", "--mesh", mesh}, bytes.NewReader(bad), &out, &errs); got != 7 {
			t.Fatalf("byte %d of %d changed: status %d, want 7\n%s%s", at, len(text), got, out.String(), errs.String())
		}
	}
}

func TestVerifyFileJSON(t *testing.T) {
	b := newBank(t, 2)
	dir := t.TempDir()
	proof, err := b.ledger.Prove(1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := proof.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(meshFile(dir), b.mesh.Raw(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if got := Run(t.Context(), []string{"meshctl", "--home", dir, "ledger", "verify", "-", "-o", "json"}, bytes.NewReader(text), &out, &errs); got != 0 {
		t.Fatalf("status %d: %s", got, errs.String())
	}
	var v struct {
		OK      bool
		Entries uint64
		Head    struct{ Size uint64 }
		Entry   struct {
			Kind     string
			Amount   uint64 `json:"amount_ucr"`
			External string
		}
	}
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || !v.OK || v.Entries != 1 || v.Head.Size != 2 || v.Entry.Kind != "deposit" || v.Entry.Amount != 5 || v.Entry.External != "1" {
		t.Errorf("%+v, %v\n%s", v, err, out.String())
	}
}

func TestReplay(t *testing.T) {
	b := newBank(t, 7)
	head := b.ledger.Head()
	replayed := func(rows []wire.Row) (*replay, error) {
		r, err := newReplay(b.mesh)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.close)
		for _, row := range rows {
			if err := r.add(row); err != nil {
				return r, err
			}
		}
		return r, r.flush()
	}
	r, err := replayed(b.rows)
	if got := r.ledger.Head(); err != nil || got.Root != head.Root || got.Size != head.Size {
		t.Errorf("replay: %d %v, %v; want %d %v", got.Size, got.Root, err, head.Size, head.Root)
	}
	for name, change := range map[string]func([]wire.Row) []wire.Row{
		"an entry is left out": func(r []wire.Row) []wire.Row { return append(r[:2], r[3:]...) },
		"one is changed": func(r []wire.Row) []wire.Row {
			r[4].Entry = bytes.Clone(r[4].Entry)
			r[4].Entry[len(r[4].Entry)-1] ^= 1
			return r
		},
		"one comes twice":      func(r []wire.Row) []wire.Row { r[4].Entry = r[3].Entry; return r },
		"two are swapped":      func(r []wire.Row) []wire.Row { r[2].Entry, r[3].Entry = r[3].Entry, r[2].Entry; return r },
		"a time goes back":     func(r []wire.Row) []wire.Row { r[5].Time = 1; return r },
		"one is another's log": func(r []wire.Row) []wire.Row { r[0].Entry = newBank(t, 1).rows[0].Entry; return r },
	} {
		if _, err := replayed(change(append([]wire.Row{}, b.rows...))); status(err) != 7 || !strings.Contains(err.Error(), "entry ") {
			t.Errorf("%s: %v, want an entry named and status 7", name, err)
		}
	}
	moved := append([]wire.Row{}, b.rows...)
	moved[6].Time++
	if r, err := replayed(moved); err != nil || r.ledger.Head().Root == head.Root {
		t.Errorf("another time gives the same root (%v)", err)
	}
}
