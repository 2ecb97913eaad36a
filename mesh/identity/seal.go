package identity

import (
	"bytes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/crypto/ssh"

	"idlemesh/ledger/record"
)

// Sealed is a document that only its recipients can read.
type Sealed struct {
	// Wrap is an age file that holds the 32-byte secret of a session for exactly the
	// recipients, each named by the X25519 form of his Ed25519 key.
	Wrap []byte `cbor:"1,keyasint"`
	// Nonce is random, 24 bytes.
	Nonce []byte `cbor:"2,keyasint"`
	// Box is the document under XChaCha20-Poly1305; the hash of Wrap and the context
	// are its associated data.
	Box []byte `cbor:"3,keyasint"`
}

// Limits of a sealed document.
const (
	maxDoc        = 4 << 20
	maxRecipients = 64
	maxWrap       = 512 + 256*maxRecipients
	maxSealed     = maxDoc + maxWrap + 128
)

// ErrSealed is returned for bytes that do not open: sealed for others, for another
// context, or changed on the way.
var ErrSealed = errors.New("sealed for another key or context, or damaged")

const (
	sessionLife = time.Hour
	sessionUses = 1 << 20
	sessions    = 1024 // a Sealer's, and an Opener's
)

// A Sealer seals documents. Documents for the same recipients share a session, which
// makes all but the first cheap; whoever can open one of them could have opened the
// others too. A session ends after an hour or 2^20 documents.
type Sealer struct {
	mu   sync.Mutex
	live cache[string, *session]
}

type session struct {
	wrap  []byte
	hash  [32]byte
	aead  cipher.AEAD
	until time.Time
	left  int
}

// NewSealer returns a Sealer without sessions.
func NewSealer() *Sealer { return &Sealer{live: newCache[string, *session](sessions)} }

// Seal returns the canonical CBOR of doc, sealed for the given parties and for
// nobody else, the caller included. It opens only with the same context, which says
// what the document is and is not part of it. A document has at most 4 MiB and 64
// recipients.
func (s *Sealer) Seal(doc []byte, context string, to ...record.PublicKey) ([]byte, error) {
	if len(doc) > maxDoc {
		return nil, fmt.Errorf("seal: document has %d bytes, the most is %d: store it as a blob", len(doc), maxDoc)
	}
	ses, err := s.session(to)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	nonce := make([]byte, chacha20poly1305.NonceSizeX)
	rand.Read(nonce)
	box := ses.aead.Seal(make([]byte, 0, len(doc)+ses.aead.Overhead()), nonce, doc, associated(ses.hash, context))
	return record.Encode(Sealed{Wrap: ses.wrap, Nonce: nonce, Box: box})
}

// session returns the recipients' session and counts one use.
func (s *Sealer) session(to []record.PublicKey) (*session, error) {
	name, to, err := setOf(to)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ses, ok := s.live.get(name)
	if !ok || ses.left == 0 || now.After(ses.until) {
		if ses, err = newSession(to); err != nil {
			return nil, err
		}
		ses.until, ses.left = now.Add(sessionLife), sessionUses
		s.live.put(name, ses)
	}
	ses.left--
	return ses, nil
}

// setOf sorts the recipients, drops those named twice, and names the set.
func setOf(to []record.PublicKey) (string, []record.PublicKey, error) {
	to = slices.Clone(to)
	slices.SortFunc(to, func(a, b record.PublicKey) int { return bytes.Compare(a[:], b[:]) })
	to = slices.Compact(to)
	if len(to) == 0 || len(to) > maxRecipients {
		return "", nil, fmt.Errorf("%d recipients: want 1 to %d", len(to), maxRecipients)
	}
	name := make([]byte, 0, len(to)*len(to[0]))
	for _, k := range to {
		name = append(name, k[:]...)
	}
	return string(name), to, nil
}

func newSession(to []record.PublicKey) (*session, error) {
	rs := make([]age.Recipient, 0, len(to))
	for _, k := range to {
		r, err := recipient(k)
		if err != nil {
			return nil, fmt.Errorf("recipient %s: %w", k.ID().Short(), err)
		}
		rs = append(rs, r)
	}
	var secret [32]byte
	rand.Read(secret[:])
	var file bytes.Buffer
	w, err := age.Encrypt(&file, rs...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(secret[:]); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	aead, err := boxKey(secret[:])
	return &session{wrap: file.Bytes(), hash: sha256.Sum256(file.Bytes()), aead: aead}, err
}

func recipient(k record.PublicKey) (age.Recipient, error) {
	pub, err := ssh.NewPublicKey(ed25519.PublicKey(k[:]))
	if err != nil {
		return nil, err
	}
	return agessh.NewEd25519Recipient(pub)
}

func boxKey(secret []byte) (cipher.AEAD, error) {
	k, err := hkdf.Key(sha256.New, secret, nil, "idlemesh sealed document", chacha20poly1305.KeySize)
	if err != nil {
		return nil, err
	}
	return chacha20poly1305.NewX(k)
}

// associated binds a box to its wrap, whose recipients it is for, and to its use.
func associated(wrap [32]byte, context string) []byte {
	b := make([]byte, 0, len(wrap)+8+len(context))
	b = append(b, wrap[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(context)))
	return append(b, context...)
}

// An Opener opens what was sealed for one key. It remembers the sessions it met
// last, which makes a session's further documents cheap.
type Opener struct {
	me age.Identity

	mu  sync.Mutex
	met cache[[32]byte, cipher.AEAD]
}

// NewOpener returns the Opener of k's owner.
func NewOpener(k Key) (*Opener, error) {
	me, err := agessh.NewEd25519Identity(k.priv)
	if err != nil {
		return nil, fmt.Errorf("new opener: %w", err)
	}
	return &Opener{me: me, met: newCache[[32]byte, cipher.AEAD](sessions)}, nil
}

// Open returns the document in sealed, or ErrSealed.
func (o *Opener) Open(sealed []byte, context string) ([]byte, error) {
	doc, err := o.open(sealed, context)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return doc, nil
}

func (o *Opener) open(sealed []byte, context string) ([]byte, error) {
	if len(sealed) > maxSealed {
		return nil, fmt.Errorf("sealed document has %d bytes, the most is %d", len(sealed), maxSealed)
	}
	var s Sealed
	if err := record.Decode(sealed, &s); err != nil {
		return nil, err
	}
	if len(s.Wrap) > maxWrap || len(s.Nonce) != chacha20poly1305.NonceSizeX {
		return nil, ErrSealed
	}
	hash := sha256.Sum256(s.Wrap)
	aead, err := o.unwrap(hash, s.Wrap)
	if err != nil {
		return nil, err
	}
	doc, err := aead.Open(nil, s.Nonce, s.Box, associated(hash, context))
	if err != nil {
		return nil, ErrSealed
	}
	return doc, nil
}

func (o *Opener) unwrap(hash [32]byte, wrap []byte) (cipher.AEAD, error) {
	o.mu.Lock()
	aead, ok := o.met.get(hash)
	o.mu.Unlock()
	if ok {
		return aead, nil
	}
	r, err := age.Decrypt(bytes.NewReader(wrap), o.me)
	if err != nil {
		return nil, ErrSealed
	}
	secret, err := io.ReadAll(io.LimitReader(r, 33))
	if err != nil || len(secret) != 32 {
		return nil, ErrSealed
	}
	if aead, err = boxKey(secret); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.met.put(hash, aead)
	return aead, nil
}
