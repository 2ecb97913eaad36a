package blob

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"

	"idlemesh/ledger/record"
)

// ContentKey returns the key for the one content whose BLAKE3 hash is plain: HMAC
// under its owner's secret. Equal content of one owner has equal keys, so that it is
// stored once; of two owners it looks unrelated.
func ContentKey(secret []byte, plain record.Ref) [32]byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("idlemesh blob content key"))
	m.Write(plain[:])
	return [32]byte(m.Sum(nil))
}

// Encrypt returns a writer that writes to w what it is given under AES-256-CTR from
// counter zero. A key must be used for one content only (ContentKey): with a second
// one, both could be read. A blob's name authenticates it, so there is no tag.
func Encrypt(key [32]byte, w io.Writer) io.Writer {
	return &cipher.StreamWriter{S: cipher.NewCTR(block(key), make([]byte, aes.BlockSize)), W: w}
}

// Decrypt returns the plain bytes of r, at any offset.
func Decrypt(r io.ReaderAt, key [32]byte) io.ReaderAt { return decrypter{r, block(key)} }

type decrypter struct {
	r io.ReaderAt
	b cipher.Block
}

func (d decrypter) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.r.ReadAt(p, off)
	if n <= 0 {
		return n, err
	}
	var iv [aes.BlockSize]byte
	binary.BigEndian.PutUint64(iv[8:], uint64(off)/aes.BlockSize)
	ctr := cipher.NewCTR(d.b, iv[:])
	var skip [aes.BlockSize]byte
	ctr.XORKeyStream(skip[:off%aes.BlockSize], skip[:off%aes.BlockSize])
	ctr.XORKeyStream(p[:n], p[:n])
	return n, err
}

func block(key [32]byte) cipher.Block {
	b, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	return b
}
