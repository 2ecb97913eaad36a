package node

import (
	"context"
	"path/filepath"
	"time"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/mesh/gateway"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/keeper"
	"idlemesh/mesh/policy"
	"idlemesh/mesh/provider"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

func (n *Node) keep() error {
	if !n.cfg.Keeper {
		return nil
	}
	c := n.cfg.Ledger
	if c.Now == nil {
		c.Now = n.cfg.Now
	}
	if c.Log == nil {
		c.Log = n.cfg.Log
	}
	l, err := ledger.Open(filepath.Join(n.cfg.Dir, "ledger"), n.mesh, n.key, c)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, l.Close)
	k := keeper.Config{ID: n.ID(), Open: n.end, Key: n.key, Mesh: n.mesh.Ref()}
	if len(n.mesh.Value.Keepers) > 1 {
		if err := n.share(l, c); err != nil {
			return err
		}
		k.Quorum = n.quorum
	}
	n.keeping = keeper.New(l, k)
	n.keeping.Register(&n.mux)
	return nil
}

func (n *Node) admit() (err error) {
	if !n.cfg.Gateway {
		return nil
	}
	n.gate, err = gateway.New(gateway.Config{Key: n.key, Mesh: n.mesh.Value, Open: n.end, Author: n.author, Blobs: n.blobs,
		RTT: n.end.RTT, Patience: n.cfg.Patience, Quota: n.cfg.Quota, Now: n.cfg.Now, Log: n.cfg.Log})
	if err != nil {
		return err
	}
	n.gate.Register(&n.mux)
	n.mux.Owner = n.gate.Owner
	n.runs = append(n.runs, n.gate.Run)
	return nil
}

func (n *Node) sell() (err error) {
	if !n.cfg.Provider {
		return nil
	}
	w := n.cfg.Workers
	if w.Dir == "" {
		w.Dir = filepath.Join(n.cfg.Dir, "workers")
	}
	if w.Log == nil {
		w.Log = n.cfg.Log
	}
	n.pool = sandbox.NewPool(w)
	n.seller, err = provider.New(provider.Config{Key: n.key, Mesh: n.mesh.Value, File: n.mesh, Dir: filepath.Join(n.cfg.Dir, "leases"), Open: n.end, Blobs: n.blobs, Pool: n.pool,
		Bench: filepath.Join(n.cfg.Dir, BenchFile), Gauge: n.cfg.Gauge, Policy: n.cfg.Policy, Sensor: n.cfg.Sensor, Now: n.cfg.Now, Log: n.cfg.Log})
	if err != nil {
		return err
	}
	n.closers = append(n.closers, n.seller.Close)
	n.seller.Register(&n.mux)
	n.runs = append(n.runs, n.pool.Run, n.seller.Run)
	return nil
}

// Sell changes what the node sells from now on; without the provider's role it does
// nothing.
func (n *Node) Sell(p policy.Policy) {
	if n.seller != nil {
		n.seller.Sell(p)
	}
}

func (n *Node) status(context.Context, wire.Caller, wire.StatusRequest) (wire.StatusReply, error) {
	s := wire.StatusReply{ID: n.ID(), Version: n.cfg.Version, Mesh: n.mesh.Ref(), Name: n.mesh.Value.Name, Addr: n.Addr().String(), Since: n.since}
	if n.gate != nil {
		s.Roles, s.Jobs = append(s.Roles, "gateway"), uint32(n.gate.Busy())
	}
	if n.seller != nil {
		s.Roles, s.Offer = append(s.Roles, "provider"), n.seller.Offer()
	}
	if n.keeping != nil {
		s.Roles, s.Entries = append(s.Roles, "keeper"), n.keeping.Size()
		s.Ledger = max(record.At(n.cfg.Now()), n.keeping.Time())
	}
	return s, nil
}

// Idle reports since when the node has had nothing to do: no job that it supervises,
// no lease that it runs, nobody who asks.
func (n *Node) Idle() (since time.Time, idle bool) {
	busy := n.gate != nil && n.gate.Busy() > 0
	if n.seller != nil {
		o := n.seller.Offer()
		busy = busy || o == nil || o.Leases > 0
	}
	if busy {
		n.touch()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.busy, !busy
}

// Solo returns the mesh file of a mesh of one node, the embedded one, whose credits
// come from mint.
func Solo(key identity.Key, mint record.PublicKey, now time.Time) (record.Signed[record.Mesh], error) {
	me := []record.Member{{Key: key.PublicKey()}}
	p := record.DefaultParams()
	p.AllowSimulated = true
	return record.Sign(key, record.Mesh{Name: "embedded", Keepers: me, Quorum: 1, Mint: mint, Gateways: me, Params: p, Created: record.At(now)})
}
