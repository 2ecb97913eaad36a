package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"idlemesh/ledger/record"
)

// Meet connects with whoever answers at addr, a UDP address or a Host, and returns who
// that is: Open reaches him from then on. Nothing vouches for him, so whatever he sends
// must be checked against a hash or a signature that came another way.
func (e *Endpoint) Meet(ctx context.Context, addr net.Addr, proto string) (record.NodeID, error) {
	id, err := e.meet(ctx, addr, proto)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return record.NodeID{}, fmt.Errorf("meet %s: %w", addr, err)
	}
	return id, nil
}

func (e *Endpoint) meet(ctx context.Context, addr net.Addr, proto string) (record.NodeID, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTime, errSilent)
	defer cancel()
	list := []net.Addr{addr}
	if h, ok := addr.(Host); ok {
		var err error
		if list, err = lookUp(ctx, h); err != nil {
			return record.NodeID{}, fmt.Errorf("%w: %w", ErrNoPath, err)
		}
	}
	anyone := e.clientTLS(peer{proto: proto})
	anyone.VerifyConnection = func(s tls.ConnectionState) error {
		_, err := idOf(s.PeerCertificates)
		return err
	}
	var errs []error
	for _, a := range list {
		conn, err := e.tr.Dial(ctx, a, anyone, quicConfig())
		if err != nil {
			errs = append(errs, explain(ctx, peer{proto: proto}, err))
			continue
		}
		p, err := peerOf(conn)
		if err != nil {
			return record.NodeID{}, err
		}
		e.Learn(p.id, a)
		return p.id, e.adopt(p, conn)
	}
	return record.NodeID{}, errors.Join(errs...)
}
