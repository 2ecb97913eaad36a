package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"idlemesh/ledger/record"
)

func TestSeatIsForOne(t *testing.T) {
	base := filepath.Join(t.TempDir(), "embedded")
	s, err := takeSeat(base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeSeat(base); !errors.Is(err, errTaken) {
		t.Fatalf("taken twice: %v", err)
	}
	if _, ok := findHolder(base); ok {
		t.Error("a holder that has not said where it is was found")
	}
	if pid := lockPID(base); pid != os.Getpid() {
		t.Errorf("the lock is process %d's, want %d", pid, os.Getpid())
	}
	want := holder{Addr: "127.0.0.1:1", Node: record.NodeID{1}, PID: os.Getpid(), Background: true}
	if err := s.announce(want); err != nil {
		t.Fatal(err)
	}
	if h, ok := findHolder(base); !ok || h != want {
		t.Errorf("found %+v, %v; want %+v", h, ok, want)
	}
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	if _, ok := findHolder(base); ok {
		t.Error("a holder that left was found")
	}
	if s, err = takeSeat(base); err != nil {
		t.Fatalf("after it was left: %v", err)
	}
	if err := s.leave(); err != nil {
		t.Error(err)
	}
}

func TestStaleAnnouncement(t *testing.T) {
	whole := `{"addr":"127.0.0.1:1","node":"` + record.NodeID{1}.String() + `","pid":%d}`
	for name, tc := range map[string]struct {
		addr, lock string
		want       bool
	}{
		"of the process that has the lock": {fmt.Sprintf(whole, 77), "77", true},
		"of an earlier process":            {fmt.Sprintf(whole, 76), "77", false},
		"of nobody":                        {fmt.Sprintf(whole, 0), "", false},
		"lock without a number":            {fmt.Sprintf(whole, 77), "x", false},
		"cut":                              {`{"addr":"127.0`, "77", false},
		"not JSON":                         {"hello", "77", false},
		"no node id":                       {`{"addr":"127.0.0.1:1","node":"x","pid":77}`, "77", false},
		"endless":                          {string(make([]byte, 2<<20)), "77", false},
	} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "embedded")
			for ext, text := range map[string]string{".addr": tc.addr, ".lock": tc.lock} {
				if err := os.WriteFile(base+ext, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, ok := findHolder(base); ok != tc.want {
				t.Errorf("found = %v, want %v", ok, tc.want)
			}
			s, err := takeSeat(base) // whoever left the files is gone
			if err != nil {
				t.Fatal(err)
			}
			defer s.leave()
			if _, err := os.Lstat(base + ".addr"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the announcement stays: %v", err)
			}
		})
	}
}

func TestCachesAreApart(t *testing.T) {
	home := t.TempDir()
	a, slot, err := openCache(home)
	if err != nil {
		t.Fatal(err)
	}
	b, other, err := openCache(home)
	if err != nil || a == b {
		t.Fatalf("two commands use %s and %s, %v", a, b, err)
	}
	other.Close()
	slot.Close()
	again, slot, err := openCache(home)
	if err != nil || again != a {
		t.Errorf("the next command uses %s, %v; want %s", again, err, a)
	}
	slot.Close()
}
