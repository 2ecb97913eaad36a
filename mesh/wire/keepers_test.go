package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// keepers answer each in a way of its own.
type keepers struct {
	asked []record.NodeID
	heads map[record.NodeID]func(context.Context) (wire.HeadReply, error)
}

func (k *keepers) Open(ctx context.Context, to record.NodeID, _ string) (io.ReadWriteCloser, error) {
	k.asked = append(k.asked, to)
	f, ok := k.heads[to]
	if !ok {
		return nil, errors.New("no path to peer")
	}
	m := &wire.Mux{Roles: func(record.NodeID) wire.Role { return wire.Anyone }}
	wire.Handle(m, wire.Head, func(ctx context.Context, _ wire.Caller, _ wire.HeadRequest) (wire.HeadReply, error) { return f(ctx) })
	here, there := net.Pipe()
	go m.Serve(context.WithoutCancel(ctx), record.NodeID{}, there)
	return here, nil
}

func silent(ctx context.Context) (wire.HeadReply, error) {
	<-ctx.Done()
	return wire.HeadReply{}, ctx.Err()
}

func slow(context.Context) (wire.HeadReply, error) {
	time.Sleep(4 * time.Second)
	return wire.HeadReply{Size: 7}, nil
}

func busy(context.Context) (wire.HeadReply, error) {
	return wire.HeadReply{}, wire.Refuse(wire.Unavailable, "busy")
}

func bad(context.Context) (wire.HeadReply, error) {
	return wire.HeadReply{}, wire.Refuse(wire.Invalid, "bad")
}

func fine(context.Context) (wire.HeadReply, error) { return wire.HeadReply{Size: 7}, nil }

// TestKeepers: a question goes on to another keeper when one cannot answer, and is asked
// of the one that could from then on; a verdict is a verdict.
func TestKeepers(t *testing.T) {
	type head = func(context.Context) (wire.HeadReply, error)
	for name, tc := range map[string]struct {
		heads []head // nil is one that cannot be reached
		me    int    // the caller's own, or -1
		want  uint64
		code  wire.Code
		asked int
		wait  time.Duration // at most
	}{
		"the first answers":      {[]head{fine, bad, bad}, -1, 7, 0, 1, 0},
		"its own first":          {[]head{bad, bad, fine}, 2, 7, 0, 1, 0},
		"two cannot":             {[]head{nil, busy, fine}, -1, 7, 0, 3, 0},
		"one is silent":          {[]head{silent, fine, bad}, -1, 7, 0, 2, 2 * time.Second},
		"only a slow one can":    {[]head{busy, slow, nil}, -1, 7, 0, 4, 6 * time.Second},
		"a verdict ends it":      {[]head{bad, fine, fine}, -1, 0, wire.Invalid, 1, 0},
		"none can":               {[]head{busy, nil, busy}, -1, 0, wire.Unavailable, 3, 0},
		"one alone has its time": {[]head{silent}, -1, 0, wire.Unavailable, 1, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, m, me := &keepers{heads: map[record.NodeID]head{}}, record.Mesh{}, record.NodeID{}
				for i, h := range tc.heads {
					key := record.PublicKey{byte(i + 1)}
					m.Keepers = append(m.Keepers, record.Member{Key: key})
					if h != nil {
						k.heads[key.ID()] = h
					}
					if i == tc.me {
						me = key.ID()
					}
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, wire.Refuse(wire.Unavailable, "late"))
				defer cancel()
				all, from := wire.KeepersOf(m, k, me), time.Now()
				rep, err := wire.Ask(ctx, all, wire.Head, wire.HeadRequest{})
				if rep.Size != tc.want || (err == nil) != (tc.want > 0) || err != nil && !wire.Is(err, tc.code) || len(k.asked) != tc.asked {
					t.Errorf("%+v, %v after asking %d", rep, err, len(k.asked))
				}
				if d := time.Since(from); d > tc.wait {
					t.Errorf("it took %v", d)
				}
				if tc.want > 0 && tc.asked < 4 {
					k.asked = nil
					if _, err := wire.Ask(ctx, all, wire.Head, wire.HeadRequest{}); err != nil || len(k.asked) != 1 {
						t.Errorf("the second time %d were asked, %v", len(k.asked), err)
					}
				}
			})
		})
	}
}
