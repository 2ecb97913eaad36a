package mesh_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"idlemesh/mesh"
)

func TestMeet(t *testing.T) {
	here, there := start(t, echoing), start(t, echoing)
	for name, addr := range map[string]net.Addr{"by address": there.Addr(), "by name": mesh.Host(there.Addr().String())} {
		t.Run(name, func(t *testing.T) {
			id, err := here.Meet(t.Context(), addr, mesh.Control)
			if err != nil || id != there.ID() {
				t.Fatalf("Meet = %s, %v; want %s", id.Short(), err, there.ID().Short())
			}
			echo(t, here, id)
		})
	}
	if _, err := here.Meet(t.Context(), there.Addr(), "gossip/1"); err == nil {
		t.Error("met in a protocol that nobody speaks there")
	}
	if _, err := here.Meet(t.Context(), mesh.Host("nowhere"), mesh.Control); !errors.Is(err, mesh.ErrNoPath) {
		t.Errorf("an address without port: %v", err)
	}
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := here.Meet(ctx, silent.LocalAddr(), mesh.Control); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
}
