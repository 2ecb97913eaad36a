package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"idlemesh/mesh/identity"
)

func TestOpenCreatesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "key")
	var (
		wg  sync.WaitGroup
		ids [16]string
	)
	for i := range ids {
		wg.Go(func() {
			k, err := identity.Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = k.ID().String()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("racing creators got %s and %s", id, ids[0])
		}
	}
	i, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && i.Mode() != 0o600 {
		t.Errorf("key file has mode %v, %v; want 0600", i.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("folder holds %v, want the key alone", left)
	}
}

func TestOpenRefuses(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"empty":             {nil, "not a key file"},
		"text":              {[]byte("hello"), "not a key file"},
		"another PEM block": {block("CERTIFICATE", der), "not a key file"},
		"damaged":           {block("PRIVATE KEY", der[:len(der)/2]), "damaged"},
		"another algorithm": {block("PRIVATE KEY", der), "want an Ed25519 key"},
		"two blocks":        {append(block("PRIVATE KEY", der), block("PRIVATE KEY", der)...), "not a key file"},
		"endless":           {make([]byte, 1<<20), "not a key file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, tc.file, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := identity.Open(path); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Open = %v; want %q and the path", err, tc.want)
			}
			if now, _ := os.ReadFile(path); len(now) != len(tc.file) {
				t.Error("Open changed the file")
			}
		})
	}
	if _, err := identity.Open(t.TempDir()); err == nil {
		t.Error("opened a folder")
	}
}

func TestOpenRefusesReadable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such mode bits")
	}
	path := filepath.Join(t.TempDir(), "key")
	if _, err := identity.Open(path); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(path)
		if !errors.Is(err, identity.ErrReadable) || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %v: Open = %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Open(path); err != nil {
		t.Errorf("mode 0400: Open = %v", err)
	}
}

func TestKeyNeverPrints(t *testing.T) {
	k, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	want := "key of " + k.ID().Short()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		if got := fmt.Sprintf(verb, k); got != want {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	if got := fmt.Sprint(identity.Key{}); got != "no key" {
		t.Errorf("the zero key prints %q", got)
	}
	if b, err := json.Marshal([]any{k}); err != nil || string(b) != "[{}]" {
		t.Errorf("json = %s, %v", b, err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "key", k)
	if !strings.Contains(log.String(), want) {
		t.Errorf("log = %s", log.String())
	}
}

func TestCertificate(t *testing.T) {
	k, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	a, err := k.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := k.Certificate()
	if a.Leaf != b.Leaf {
		t.Error("made twice")
	}
	if err := a.Leaf.VerifyHostname(k.ID().String()); err != nil {
		t.Error(err)
	}
	if one, again := k.Secret("a"), k.Secret("a"); one == k.Secret("b") || one != again {
		t.Error("a secret is not a function of its purpose")
	}
}
