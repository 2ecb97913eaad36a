package mesh

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/quic-go/quic-go"

	"idlemesh/ledger/record"
)

// serverTLS accepts whoever proves an Ed25519 key. Sessions are not resumed: a
// handshake is cheap beside a connection's life, and each proves the key anew.
func (e *Endpoint) serverTLS() *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{e.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		NextProtos:             e.cfg.Protocols,
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := idOf(s.PeerCertificates)
			return err
		},
	}
}

func (e *Endpoint) clientTLS(p peer) *tls.Config {
	return &tls.Config{
		Certificates:       []tls.Certificate{e.cert},
		InsecureSkipVerify: true, // no authority vouches for keys: the peer's name is the hash of its own
		ServerName:         p.id.String(),
		NextProtos:         []string{p.proto},
		MinVersion:         tls.VersionTLS13,
		VerifyConnection: func(s tls.ConnectionState) error {
			id, err := idOf(s.PeerCertificates)
			if err == nil && id != p.id {
				err = fmt.Errorf("another node answers there: %s", id.Short())
			}
			return err
		},
	}
}

func idOfRaw(raw [][]byte) (record.NodeID, error) {
	var certs []*x509.Certificate
	for _, der := range raw {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return record.NodeID{}, err
		}
		certs = append(certs, c)
	}
	return idOf(certs)
}

// idOf names the holder of a certificate's key. TLS has checked that he holds it.
func idOf(certs []*x509.Certificate) (record.NodeID, error) {
	if len(certs) != 1 {
		return record.NodeID{}, fmt.Errorf("%d certificates: want one", len(certs))
	}
	pub, ok := certs[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return record.NodeID{}, fmt.Errorf("certificate of a %v key: want Ed25519", certs[0].PublicKeyAlgorithm)
	}
	if smallOrder(pub) {
		return record.NodeID{}, errors.New("key of small order: anyone could sign for it")
	}
	return record.IDOf(pub), nil
}

func smallOrder(pub ed25519.PublicKey) bool {
	var (
		y curve.CompressedEdwardsY
		p curve.EdwardsPoint
	)
	if _, err := y.SetBytes(pub); err != nil {
		return true
	}
	if _, err := p.SetCompressedY(&y); err != nil {
		return true
	}
	return p.IsSmallOrder()
}

// resetKey derives the key by which a restarted node tells its peers that it has
// forgotten their connections. Ed25519 signatures are deterministic, so any signer
// will do, and the key never leaves it.
func resetKey(cert tls.Certificate) (*quic.StatelessResetKey, error) {
	signer, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("certificate without its private key")
	}
	sig, err := signer.Sign(rand.Reader, []byte("idlemesh stateless reset key, never sent"), crypto.Hash(0))
	if err != nil {
		return nil, err
	}
	b, err := hkdf.Key(sha256.New, sig, nil, "idlemesh stateless reset", 32)
	if err != nil {
		return nil, err
	}
	return (*quic.StatelessResetKey)(b), nil
}

// quiet keeps quic-go from printing a hint about UDP buffers on standard error, which
// belongs to cli. It has no other switch.
func quiet() { _ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") }

// A bucket counts handshakes in each second.
type bucket struct {
	mu     sync.Mutex
	second int64
	n      int
}

// busy reports whether a caller has to prove his address first.
func (b *bucket) busy(net.Addr) bool {
	now := time.Now().Unix()
	b.mu.Lock()
	defer b.mu.Unlock()
	if now != b.second {
		b.second, b.n = now, 0
	}
	b.n++
	return b.n > easyRate
}
