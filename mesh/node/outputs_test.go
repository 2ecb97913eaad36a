package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/client"
	"idlemesh/mesh/meshtest"
	"idlemesh/mesh/wire"
)

// stdout reads what a task has printed, as a client that has nothing of it yet.
func stdout(t *testing.T, c *client.Client, r record.Receipt) (string, error) {
	t.Helper()
	m, err := c.Manifest(t.Context(), r)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = c.Read(t.Context(), m.Stdout, 0, &b, nil)
	return b.String(), err
}

// has reports whether a stopped node has the blobs.
func has(t *testing.T, n *meshtest.Node, refs ...record.Ref) bool {
	t.Helper()
	s, err := blob.Open(filepath.Join(n.Config.Dir, "blobs"), nil, blob.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, ref := range refs {
		if !s.Has(ref) {
			return false
		}
	}
	return true
}

// TestTwoHolders: once a task is settled its outputs are at its provider and at the
// gateway. With one of them gone the tenant has them from the other.
func TestTwoHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0))
		c := m.Rich()
		job := submit(t, c, steps(1))
		settled := first(until(t, c, job, wire.Settled), wire.Settled)
		one := m.Sellers[0]
		one.Cut(true) // it dies at this moment
		r := settled.Receipt.Value
		if out, err := stdout(t, c, r); out != "done\n" || err != nil {
			t.Errorf("after the provider died: %q, %v", out, err)
		}
		manifest, err := c.Manifest(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		one.Stop()
		m.Gate.Cut(true)
		m.Gate.Stop()
		if !has(t, one, r.Outputs, manifest.Stdout.Ref) || !has(t, m.Gate, r.Outputs, manifest.Stdout.Ref) {
			t.Error("the outputs are not at both")
		}
		m.Gate.Cut(false)
		m.Gate.Start()
		if out, err := stdout(t, m.Client(m.Tenant), r); out != "done\n" || err != nil {
			t.Errorf("after the gateway's death: %q, %v", out, err)
		}
		m.Verify()
	})
}

// TestHandOverBeforeSettlement: a provider that cannot hand its outputs over is not
// paid, however long it tries.
func TestHandOverBeforeSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0))
		c := m.Rich()
		r := steps(5)
		r.Retries = 0
		job := submit(t, c, r)
		until(t, c, job, wire.Progress)
		time.Sleep(3500 * time.Millisecond)
		m.Sellers[0].Cut(true) // a second before it is done
		time.Sleep(3 * time.Second)
		if n := entries(t, c, job); n[record.TypeSettle] != 0 {
			t.Errorf("the log has %v", n)
		}
		m.Sellers[0].Cut(false)
		all := until(t, c, job, wire.Ended)
		settled := first(all, wire.Settled)
		if settled.Receipt == nil {
			t.Fatalf("ended %+v", first(all, wire.Ended))
		}
		if out, err := stdout(t, c, settled.Receipt.Value); out != "done\n" || err != nil {
			t.Errorf("stdout %q, %v", out, err)
		}
	})
}

// TestRetention: outputs stay for the time asked, also over restarts, and no longer.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0))
		c := m.Rich()
		says := strings.Repeat("a line of a file of its own\n", 2000)
		r := client.Request{Module: meshtest.Guest{Says: says}.Wasm(), MaxPrice: meshtest.Price, Retention: 90 * time.Minute}
		settled := first(until(t, c, submit(t, c, r), wire.Ended), wire.Settled)
		receipt := settled.Receipt.Value
		manifest, err := c.Manifest(t.Context(), receipt)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(45 * time.Minute)
		m.Gate.Stop()
		m.Gate.Start()
		time.Sleep(44 * time.Minute)
		if out, err := stdout(t, m.Client(m.Tenant), receipt); out != says || err != nil {
			t.Errorf("a minute before the end: %d bytes, %v", len(out), err)
		}
		time.Sleep(2 * time.Hour) // what a job brings is kept until it could have ended
		if out, err := stdout(t, m.Client(m.Tenant), receipt); err == nil {
			t.Errorf("hours after the end: %d bytes", len(out))
		}
		for _, n := range []*meshtest.Node{m.Gate, m.Sellers[0]} {
			n.Stop()
			if has(t, n, manifest.Stdout.Ref) {
				t.Error("outputs are kept for ever")
			}
		}
	})
}

// TestSealed looks for what a job says in all that is public, and in the files of the
// nodes that it passed.
func TestSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0), seller(20, 0))
		c := m.Rich()
		secret := func(what string) string { return "zebra-" + what + "-quagga" }
		guest := meshtest.Guest{Steps: 2, Pause: time.Second, Says: secret("output")}
		r := client.Request{Name: secret("name"), Module: guest.Wasm(), Args: []string{secret("arg")}, Env: map[string]string{secret("env"): secret("value")},
			Labels: map[string]string{secret("label"): secret("label-value")}, MaxPrice: meshtest.Price,
			Inputs: []client.Input{bytesInput(secret("input"), []byte(secret("content"))), {Name: secret("folder"), Dir: os.DirFS(secretFolder(t, secret("file")))}}}
		job := submit(t, c, r)
		settled := first(until(t, c, job, wire.Ended), wire.Settled)
		if out, err := stdout(t, c, settled.Receipt.Value); out != secret("output") || err != nil {
			t.Fatalf("stdout %q, %v", out, err)
		}
		var public bytes.Buffer
		for row, err := range c.Query(t.Context(), wire.QueryRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			public.Write(row.Entry)
		}
		for node, err := range c.Nodes(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			public.WriteString(node.Offer.Region + node.Offer.Device.Model)
		}
		stranger := m.Client(meshtest.NewKey(t))
		leaves(t, stranger, &public)
		sealed(t, "the log", public.Bytes(), r.Module)
		for _, what := range []string{string(r.Module), secret("name"), secret("arg"), secret("value"), secret("content"), secret("file"), secret("output")} {
			if h := sha256.Sum256([]byte(what)); bytes.Contains(public.Bytes(), h[:]) {
				t.Errorf("the log has the hash of %.60q: by it a guess is confirmed", what)
			}
		}
		for _, n := range []*meshtest.Node{m.Gate, m.Sellers[0]} {
			n.Stop()
			err := fs.WalkDir(os.DirFS(n.Config.Dir), ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || strings.HasPrefix(path, "workers") {
					return err // a worker's machine code is the provider's to see
				}
				b, err := fs.ReadFile(os.DirFS(n.Config.Dir), path)
				sealed(t, path, b, r.Module)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func secretFolder(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// leaves appends the log as it is followed.
func leaves(t *testing.T, c *client.Client, into *bytes.Buffer) {
	t.Helper()
	head, err := c.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for row, err := range c.Query(ctx, wire.QueryRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		into.Write(row.Entry)
		if row.Index+1 == head.Size {
			return
		}
	}
	t.Errorf("a stranger does not see the whole log")
}

// sealed checks that b shows nothing of what TestSealed hides, nor of the module.
func sealed(t *testing.T, where string, b, module []byte) {
	t.Helper()
	for _, word := range []string{"zebra", "quagga", "mesh_job_v1"} {
		if bytes.Contains(b, []byte(word)) {
			t.Errorf("%s shows %q", where, word)
		}
	}
	if bytes.Contains(b, module[:64]) {
		t.Errorf("%s shows the module", where)
	}
}

// TestReceiptOutlivesProvider: a provider that dies when its work is done, before its
// gateway was told, tells it after its restart and is paid, once.
func TestReceiptOutlivesProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshtest.New(t, seller(10, 0))
		c, one := m.Rich(), m.Sellers[0]
		r := steps(5)
		r.Retries = 0
		job := submit(t, c, r)
		until(t, c, job, wire.Progress)
		m.Gate.Cut(true)
		m.Gate.Stop()
		time.Sleep(10 * time.Second) // the run ends meanwhile
		one.Cut(true)
		one.Stop()
		one.Cut(false)
		m.Gate.Cut(false)
		m.Gate.Start()
		one.Start()
		c = m.Client(m.Tenant)
		all := until(t, c, job, wire.Ended)
		settled := first(all, wire.Settled)
		if settled.Attempt != 1 || settled.Price == 0 {
			t.Fatalf("settled %+v, ended %+v", settled, first(all, wire.Ended))
		}
		if out, err := stdout(t, c, settled.Receipt.Value); out != "done\n" || err != nil {
			t.Errorf("stdout %q, %v", out, err)
		}
		if n := entries(t, c, job); n[record.TypeLease] != 1 || n[record.TypeSettle] != 1 || n[record.TypeCut] != 0 {
			t.Errorf("the log has %v", n)
		}
		money(t, m, c, settled.Price, map[*meshtest.Node]record.Amount{one: settled.Price})
		m.Verify()
	})
}
