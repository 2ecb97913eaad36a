package mesh

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"idlemesh/ledger/record"
)

func TestExplain(t *testing.T) {
	silent, cancel := context.WithTimeoutCause(t.Context(), 0, errSilent)
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		want string
		path bool
	}{
		"protocol":  {t.Context(), &quic.TransportError{ErrorCode: alertNoProtocol, Remote: true}, "does not speak idlemesh/1", false},
		"version":   {t.Context(), &quic.VersionNegotiationError{Theirs: []quic.Version{7}}, "other versions of QUIC", false},
		"handshake": {t.Context(), &quic.HandshakeTimeoutError{}, "no answer within 5s", true},
		"idle":      {t.Context(), &quic.IdleTimeoutError{}, "no answer within 5s", true},
		"too late":  {silent, context.DeadlineExceeded, "no answer within 5s", true},
		"socket":    {t.Context(), net.ErrWriteToConnected, "no path", true},
		"alert":     {t.Context(), &quic.TransportError{ErrorCode: 0x12a, Remote: true, ErrorMessage: "bad certificate"}, "bad certificate", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := explain(tc.ctx, peer{proto: Control}, tc.err)
			if !strings.Contains(err.Error(), tc.want) || errors.Is(err, ErrNoPath) != tc.path {
				t.Errorf("explain = %v; want %q, ErrNoPath %v", err, tc.want, tc.path)
			}
		})
	}
}

func TestSmallOrder(t *testing.T) {
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		key  string
		want bool
	}{
		"a key":     {hex.EncodeToString(pub), false},
		"identity":  {"01" + strings.Repeat("00", 31), true},
		"order 4":   {strings.Repeat("00", 32), true},
		"order 2":   {"ec" + strings.Repeat("ff", 30) + "7f", true},
		"order 8":   {"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", true},
		"no point":  {"02" + strings.Repeat("00", 31), true},
		"too short": {"01", true},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := hex.DecodeString(tc.key)
			if err != nil {
				t.Fatal(err)
			}
			if got := smallOrder(key); got != tc.want {
				t.Errorf("smallOrder = %v", got)
			}
		})
	}
}

func TestHandshakesProveTheirAddressWhenMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bucket
		for range 3 {
			for i := range 2 * easyRate {
				if got := b.busy(nil); got != (i >= easyRate) {
					t.Fatalf("handshake %d of a second: busy = %v", i, got)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

func TestAddressesAreBounded(t *testing.T) {
	e := &Endpoint{addrs: map[record.NodeID][]net.Addr{}}
	for i := range 100 {
		e.Learn(record.NodeID{}, &net.UDPAddr{Port: i})
		e.Learn(record.NodeID{}, &net.UDPAddr{Port: 5})
	}
	list := e.addrs[record.NodeID{}]
	if len(list) != maxAddrs || list[0].String() != ":5" || list[1].String() != ":99" {
		t.Errorf("addresses are %v", list)
	}
}
