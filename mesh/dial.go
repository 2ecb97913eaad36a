package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// A dial is one that others wait for.
type dial struct {
	done chan struct{}
	conn *quic.Conn
	err  error
}

// head is how long an address has before the next is tried beside it.
const head = 250 * time.Millisecond

var errSilent = fmt.Errorf("no answer within %v", handshakeTime)

// conn returns a live connection with the peer. Callers that need one at the same
// time share one dial.
func (e *Endpoint) conn(ctx context.Context, p peer) (*quic.Conn, error) {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, ErrClosed
		}
		if conn := e.liveLocked(p); conn != nil {
			e.mu.Unlock()
			return conn, nil
		}
		d := e.dials[p]
		if d == nil {
			d = &dial{done: make(chan struct{})}
			e.dials[p] = d
			addrs := e.addrs[p.id]
			e.mu.Unlock()
			d.conn, d.err = e.dial(ctx, p, addrs)
			e.mu.Lock()
			delete(e.dials, p)
			e.mu.Unlock()
			close(d.done)
			return d.conn, d.err
		}
		e.mu.Unlock()
		select {
		case <-d.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		// Whoever dialled may have given up for reasons of his own.
		if d.err == nil || !errors.Is(d.err, context.Canceled) && !errors.Is(d.err, context.DeadlineExceeded) {
			return d.conn, d.err
		}
	}
}

func (e *Endpoint) dial(ctx context.Context, p peer, addrs []net.Addr) (*quic.Conn, error) {
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%w: it is not connected and has no known address", ErrNoPath)
	}
	short, cancel := context.WithTimeoutCause(ctx, handshakeTime, errSilent)
	defer cancel()
	conn, addr, err := e.race(short, p, addrs)
	e.dialled(err)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	e.mu.Lock()
	e.preferLocked(p.id, addr)
	e.mu.Unlock()
	return conn, e.adopt(p, conn)
}

// race tries the addresses, each with a head start before the next, and returns the
// first connection.
func (e *Endpoint) race(ctx context.Context, p peer, addrs []net.Addr) (*quic.Conn, net.Addr, error) {
	type result struct {
		conn *quic.Conn
		addr net.Addr
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	results := make(chan result, len(addrs))
	for i, addr := range addrs {
		wg.Go(func() {
			select {
			case <-time.After(time.Duration(i) * head):
			case <-ctx.Done():
			}
			conn, err := e.attempt(ctx, p, addr)
			results <- result{conn, addr, err}
		})
	}
	var won result
	var errs []error
	for range addrs {
		r := <-results
		switch {
		case r.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", r.addr, r.err))
		case won.conn == nil:
			won = r
			cancel()
		default:
			_ = r.conn.CloseWithError(0, "another path was faster")
		}
	}
	wg.Wait()
	if won.conn == nil {
		return nil, nil, errors.Join(errs...)
	}
	return won.conn, won.addr, nil
}

// attempt dials one address, or what its name stands for now.
func (e *Endpoint) attempt(ctx context.Context, p peer, addr net.Addr) (*quic.Conn, error) {
	list := []net.Addr{addr}
	if h, ok := addr.(Host); ok {
		var err error
		if list, err = lookUp(ctx, h); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoPath, err)
		}
	}
	var errs []error
	for _, a := range list {
		conn, err := e.tr.Dial(ctx, a, e.clientTLS(p), quicConfig())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, explain(ctx, p, err))
	}
	return nil, errors.Join(errs...)
}

func lookUp(ctx context.Context, h Host) ([]net.Addr, error) {
	host, service, err := net.SplitHostPort(string(h))
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var list []net.Addr
	for _, ip := range ips[:min(len(ips), maxAddrs)] {
		list = append(list, &net.UDPAddr{IP: ip.Unmap().AsSlice(), Zone: ip.Zone(), Port: port})
	}
	return list, nil
}

const alertNoProtocol = 0x100 + 120

// explain says in our words why a dial failed.
func explain(ctx context.Context, p peer, err error) error {
	var (
		crypto  *quic.TransportError
		version *quic.VersionNegotiationError
		silent  *quic.HandshakeTimeoutError
		idle    *quic.IdleTimeoutError
		refused *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &crypto) && crypto.ErrorCode == alertNoProtocol:
		return fmt.Errorf("the peer does not speak %s: is it another version of idlemesh, or not a node?", p.proto)
	case errors.As(err, &version):
		return fmt.Errorf("the peer speaks other versions of QUIC (%v): update the older side", version.Theirs)
	case errors.As(err, &refused):
		return refused.Err
	case errors.As(err, &silent), errors.As(err, &idle), errors.Is(context.Cause(ctx), errSilent):
		return fmt.Errorf("%w: %w", ErrNoPath, errSilent)
	case errors.As(err, &crypto), ctx.Err() != nil:
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoPath, err) // of the socket
}
