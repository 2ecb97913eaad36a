package sandbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a/old", "b/mid", "a/new"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		size int64
		left []bool // old, mid, new
	}{
		{300, []bool{true, true, true}},
		{299, []bool{false, true, true}},
		{150, []bool{false, false, true}},
		{0, []bool{false, false, false}},
	} {
		if err := prune(dir, tc.size); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"a/old", "b/mid", "a/new"} {
			if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != tc.left[i] {
				t.Errorf("at most %d bytes: %s is there: %v", tc.size, name, err == nil)
			}
		}
	}
}

// TestTenantsCaches holds that no two tenants get one folder.
func TestTenantsCaches(t *testing.T) {
	c := Config{Dir: t.TempDir(), Cache: 1}
	seen := map[string]string{}
	for _, tenant := range []string{"alice", "bob", "../alice", "", "ALICE"} {
		dir, err := c.cacheFor(tenant)
		if err != nil || seen[dir] != "" || filepath.Dir(dir) != c.Dir {
			t.Errorf("%q: %s, %v, of %q too", tenant, dir, err, seen[dir])
		}
		seen[dir] = tenant
	}
}
