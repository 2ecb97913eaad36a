package cli

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/node"
)

func TestRoles(t *testing.T) {
	both, none := record.PublicKey{1}, record.PublicKey{2}
	m := record.Mesh{Name: "m", Gateways: []record.Member{{Key: both}}, Keepers: []record.Member{{Key: both}}}
	for name, tc := range map[string]struct {
		key  record.PublicKey
		ask  node.Config
		want string
		code int
	}{
		"named, no flag":     {both, node.Config{}, "gkp", 0},
		"not named, no flag": {none, node.Config{}, "p", 0},
		"named, one role":    {both, node.Config{Keeper: true}, "k", 0},
		"foreign gateway":    {none, node.Config{Gateway: true, Provider: true}, "", 4},
		"foreign keeper":     {none, node.Config{Keeper: true}, "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.ask
			err := roles(&c, tc.key.ID(), m)
			got := ""
			for role, has := range map[string]bool{"g": c.Gateway, "k": c.Keeper, "p": c.Provider} {
				if has && err == nil {
					got += role
				}
			}
			if got = string(sortedBytes(got)); got != tc.want || status(err) != tc.code {
				t.Errorf("roles %q, %v; want %q, status %d", got, err, tc.want, tc.code)
			}
		})
	}
}

func sortedBytes(s string) string { return strings.Join(sorted(strings.Split(s, "")), "") }

func TestListen(t *testing.T) {
	gate, other := record.PublicKey{1}, record.PublicKey{2}
	for addr, want := range map[string]string{
		"127.0.0.1:7117":        "127.0.0.1:7117",
		"[::1]:7117":            "[::1]:7117",
		"192.0.2.7:7117":        ":7117",
		"mesh.example.org:7117": ":7117",
		"":                      ":0",
		"nonsense":              ":0",
	} {
		m := record.Mesh{Gateways: []record.Member{{Key: gate, Addr: addr}}}
		if got := listen(gate.ID(), m); got != want {
			t.Errorf("gateway at %q listens on %q, want %q", addr, got, want)
		}
		if got := listen(other.ID(), m); got != ":0" {
			t.Errorf("a provider listens on %q", got)
		}
	}
	for a, want := range map[*net.UDPAddr]string{
		{IP: net.IPv4(127, 0, 0, 1), Port: 5}: "127.0.0.1:5",
		{IP: net.IPv6unspecified, Port: 5}:    "localhost:5",
	} {
		if got := loopback(a); got != want {
			t.Errorf("loopback(%v) = %s, want %s", a, got, want)
		}
	}
}

func TestParseJoin(t *testing.T) {
	id := record.Ref{7}
	for s, good := range map[string]bool{
		"192.0.2.7:7117#" + id.String():  true,
		"[2001:db8::1]:1#" + id.String(): true,
		"192.0.2.7#" + id.String():       false,
		"192.0.2.7:7117":                 false,
		"192.0.2.7:7117#" + "abc":        false,
		"#" + id.String():                false,
		"":                               false,
	} {
		addr, got, err := parseJoin(s)
		if good != (err == nil) || good && (got != id || addr+"#"+id.String() != s) || !good && status(err) != 2 {
			t.Errorf("parseJoin(%q) = %q, %v, %v", s, addr, got, err)
		}
	}
}

func TestEventLog(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(newEventLog(&b)).With("job", "j-1")
	l.Debug("lease begun", "rate", record.Credit)
	l.Warn("strange\x1b[2J", "said", "a\nb")
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], "lease begun  job j-1  rate 1.000000") ||
		!strings.Contains(lines[1], "warn: strange [2J  job j-1  said a; b") || strings.Contains(b.String(), "\x1b") {
		t.Errorf("log is %q", lines)
	}
}

func TestPrefixed(t *testing.T) {
	var b bytes.Buffer
	p := &prefixed{name: "n", to: &lines{w: &b}}
	for _, s := range []string{"one\ntw", "o\n", "thr"} {
		if _, err := p.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != "n | one\nn | two\n" || p.lastLine() != "thr" {
		t.Errorf("wrote %q, last %q", b.String(), p.lastLine())
	}
	for range 100 {
		if _, err := p.Write(bytes.Repeat([]byte("x"), maxLine)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.part) > 2*maxLine {
		t.Errorf("%d bytes of a line without end are kept", len(p.part))
	}
}
