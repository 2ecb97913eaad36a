package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
)

func newUser(t *testing.T) user {
	t.Helper()
	home := t.TempDir()
	key, err := identity.Open(keyFile(home))
	if err != nil {
		t.Fatal(err)
	}
	return user{home: home, key: key, sells: true, patience: 20 * time.Second}
}

// whoAnswers is a useFunc that notes the gateway and its user's credits.
func (u user) whoAnswers(into *record.NodeID, free *record.Amount) useFunc {
	return func(ctx context.Context, cl *client.Client) error {
		s, err := cl.Status(ctx, record.NodeID{})
		if err != nil {
			return err
		}
		b, err := cl.Balance(ctx, u.key.ID())
		*into, *free = s.ID, b.Free
		return err
	}
}

func TestEmbeddedStaysTheSame(t *testing.T) {
	u := newUser(t)
	var ids [2]record.NodeID
	for i := range ids {
		var free record.Amount
		if err := u.embedded(t.Context(), u.whoAnswers(&ids[i], &free)); err != nil {
			t.Fatal(err)
		}
		if free != welcome {
			t.Errorf("start %d: %v credits, want %v", i+1, free, welcome)
		}
		if _, ok := findHolder(embeddedBase(u.home)); ok {
			t.Error("the node is announced after its end")
		}
	}
	if ids[0] != ids[1] || ids[0] == (record.NodeID{}) {
		t.Errorf("nodes are %s and %s", ids[0].Short(), ids[1].Short())
	}
}

// TestSecondJoinsAndInherits lets a second command in while the first holds the node,
// and ends the first: the second goes on with the same node.
func TestSecondJoinsAndInherits(t *testing.T) {
	u := newUser(t)
	holding, leave, left := make(chan record.NodeID), make(chan bool), make(chan error, 1)
	go func() {
		left <- u.embedded(t.Context(), func(ctx context.Context, cl *client.Client) error {
			holding <- cl.Gateway()
			<-leave
			return nil
		})
	}()
	var first record.NodeID
	select {
	case first = <-holding:
	case err := <-left:
		t.Fatal(err)
	}
	err := u.embedded(t.Context(), func(ctx context.Context, cl *client.Client) error {
		if cl.Gateway() != first {
			t.Errorf("the second uses %s, want %s", cl.Gateway().Short(), first.Short())
		}
		before, _ := findHolder(embeddedBase(u.home))
		close(leave)
		if err := <-left; err != nil {
			return err
		}
		for {
			short, cancel := context.WithTimeout(ctx, time.Second)
			s, err := cl.Status(short, record.NodeID{})
			cancel()
			if h, ok := findHolder(embeddedBase(u.home)); err == nil && ok && s.ID == first && h == before {
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := takeSeat(embeddedBase(u.home))
	if err != nil {
		t.Fatalf("the heir still has the seat: %v", err)
	}
	if err := s.leave(); err != nil {
		t.Error(err)
	}
}

func TestHolderThatDoesNotAnswer(t *testing.T) {
	for name, announced := range map[string]bool{"it never said where it is": false, "it is silent": true} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			u.patience = 300 * time.Millisecond
			s, err := takeSeat(embeddedBase(u.home))
			if err != nil {
				t.Fatal(err)
			}
			defer s.leave()
			if announced {
				quiet, err := net.ListenPacket("udp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer quiet.Close()
				key, err := identity.Open(nodeKeyFile(u.home))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := u.solo(key, u.key); err != nil {
					t.Fatal(err)
				}
				if err := s.announce(holder{Addr: quiet.LocalAddr().String(), Node: key.ID()}); err != nil {
					t.Fatal(err)
				}
			}
			err = u.embedded(t.Context(), func(context.Context, *client.Client) error {
				t.Error("used")
				return nil
			})
			if status(err) != 1 || !strings.Contains(err.Error(), "which does not answer") {
				t.Errorf("status %d, %v", status(err), err)
			}
		})
	}
}

// TestKilledHolder leaves what a killed process leaves: an announcement, and a lock that
// nobody has.
func TestKilledHolder(t *testing.T) {
	u := newUser(t)
	base := embeddedBase(u.home)
	for ext, text := range map[string]string{".addr": `{"addr":"127.0.0.1:9","node":"` + record.NodeID{1}.String() + `","pid":1}`, ".lock": "1"} {
		if err := os.WriteFile(base+ext, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var id record.NodeID
	var free record.Amount
	if err := u.embedded(t.Context(), u.whoAnswers(&id, &free)); err != nil || free != welcome {
		t.Errorf("%v credits, %v", free, err)
	}
}

func TestEmbeddedRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(t *testing.T, u user)
		status int
		want   string
	}{
		"node key open to others": {func(t *testing.T, u user) {
			if runtime.GOOS == "windows" {
				t.Skip("Windows has no such bits")
			}
			if _, err := identity.Open(nodeKeyFile(u.home)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(nodeKeyFile(u.home), 0o644); err != nil {
				t.Fatal(err)
			}
		}, 4, "chmod 600"},
		"mesh file damaged": {func(t *testing.T, u user) {
			if err := os.WriteFile(embeddedFile(u.home), []byte("no mesh"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 7, "embedded.cbor"},
		"mesh file of another node": {func(t *testing.T, u user) {
			if _, err := u.solo(u.key, u.key); err != nil {
				t.Fatal(err)
			}
		}, 2, "do not belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			tc.spoil(t, u)
			err := u.embedded(t.Context(), func(context.Context, *client.Client) error { return nil })
			if status(err) != tc.status || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("status %d, %v; want %d, %q", status(err), err, tc.status, tc.want)
			}
			s, err := takeSeat(embeddedBase(u.home))
			if err != nil {
				t.Fatalf("the seat is lost: %v", err)
			}
			s.leave()
		})
	}
}

func TestInterruptedUse(t *testing.T) {
	u := newUser(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := u.embedded(ctx, func(ctx context.Context, cl *client.Client) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if _, err := os.Lstat(filepath.Join(u.home, "embedded.addr")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the node is still announced: %v", err)
	}
}

func TestNoGateway(t *testing.T) {
	u := newUser(t)
	u.patience = 200 * time.Millisecond
	quiet, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	far := []record.Member{{Key: u.key.PublicKey(), Addr: quiet.LocalAddr().String()}}
	if err := initMesh(u.home, "far", far, 0, false, u.key, u.key.PublicKey()); err != nil {
		t.Fatal(err)
	}
	m, ok, err := joinedMesh(u.home)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	err = u.joined(t.Context(), m, func(context.Context, *client.Client) error { return nil })
	var out bytes.Buffer
	terminal{err: &out}.complain(err)
	if status(err) != 1 || !strings.Contains(out.String(), "no gateway reachable of mesh far") || !strings.Contains(out.String(), "try: meshctl doctor") {
		t.Errorf("status %d, %s", status(err), out.String())
	}
}
