package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
	"idlemesh/mesh/wire"
)

const (
	packSize = 16 << 20 // bytes of small files that share a blob
	maxFiles = 100_000  // of one folder
)

// An uploader encrypts contents into the client's store and sends them to the gateway.
// The key of a blob follows from its content and the tenant's secret, so that the same
// content is stored and sent once.
type uploader struct {
	c        *Client
	ctx      context.Context
	secret   []byte
	progress func(what string, done, total int64)
	blobs    []record.Blob
}

func (c *Client) uploader(ctx context.Context, progress func(string, int64, int64)) *uploader {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	secret := c.key.Secret("blob")
	return &uploader{c: c, ctx: ctx, secret: secret[:], progress: progress}
}

// bytes stores b, encrypted.
func (u *uploader) bytes(b []byte) (record.Blob, error) {
	key := blob.ContentKey(u.secret, blob.Sum(b))
	var enc bytes.Buffer
	enc.Grow(len(b))
	if _, err := blob.Encrypt(key, &enc).Write(b); err != nil {
		return record.Blob{}, err
	}
	ref, err := u.c.blobs.PutBytes(enc.Bytes())
	if err != nil {
		return record.Blob{}, err
	}
	return u.stored(ref, int64(len(b)), key), nil
}

func (u *uploader) stored(ref record.Ref, size int64, key [32]byte) record.Blob {
	b := record.Blob{Ref: ref, Size: uint64(size), Key: key[:]}
	u.blobs = append(u.blobs, b)
	return b
}

// file stores what open yields, encrypted, without holding it in memory.
func (u *uploader) file(open func() (io.ReadCloser, error)) (record.Blob, error) {
	sum, size, err := digest(open)
	if err != nil {
		return record.Blob{}, err
	}
	key := blob.ContentKey(u.secret, sum)
	r, err := open()
	if err != nil {
		return record.Blob{}, err
	}
	defer r.Close()
	in, out := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, err := io.Copy(blob.Encrypt(key, out), r)
		out.CloseWithError(err)
	}()
	ref, n, err := u.c.blobs.Put(u.ctx, in)
	in.Close()
	<-read
	if err != nil {
		return record.Blob{}, err
	}
	if n != size {
		return record.Blob{}, errors.New("it changed while it was read")
	}
	return u.stored(ref, size, key), nil
}

func digest(open func() (io.ReadCloser, error)) (record.Ref, int64, error) {
	r, err := open()
	if err != nil {
		return record.Ref{}, 0, err
	}
	defer r.Close()
	return blob.SumReader(r)
}

func (u *uploader) single(in Input) (record.Input, error) {
	b, err := u.file(in.Open)
	return record.Input{Name: in.Name, Blob: b}, err
}

// folder stores a folder as packs and the tree that says what lies where.
func (u *uploader) folder(in Input) (record.Input, error) {
	var (
		out  = record.Input{Name: in.Name, Dir: true}
		tree record.Tree
		pack bytes.Buffer
	)
	flush := func() error {
		if pack.Len() == 0 {
			return nil
		}
		b, err := u.bytes(pack.Bytes())
		out.Packs = append(out.Packs, b)
		pack.Reset()
		return err
	}
	err := fs.WalkDir(in.Dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if len(tree.Files) == maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if pack.Len() > 0 && int64(pack.Len())+info.Size() > packSize {
			if err := flush(); err != nil {
				return err
			}
		}
		f := record.TreeFile{Path: path.Clean(p), Pack: uint32(len(out.Packs)), Offset: uint64(pack.Len()), Size: uint64(info.Size())}
		if info.Size() > packSize { // a pack of its own, never in memory
			b, err := u.file(func() (io.ReadCloser, error) { return in.Dir.Open(p) })
			f.Size = b.Size
			out.Packs, tree.Files = append(out.Packs, b), append(tree.Files, f)
			return err
		}
		if f.Size, err = take(&pack, in.Dir, p); err != nil {
			return err
		}
		tree.Files = append(tree.Files, f)
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return out, err
	}
	b, err := record.Encode(tree)
	if err != nil {
		return out, err
	}
	out.Blob, err = u.bytes(b)
	return out, err
}

// take appends a file to the pack and returns how long it is now, whatever it was
// when it was listed.
func take(pack *bytes.Buffer, dir fs.FS, p string) (uint64, error) {
	f, err := dir.Open(p)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.Copy(pack, io.LimitReader(f, packSize+1))
	if n > packSize {
		return 0, fmt.Errorf("%s grew while it was read", p)
	}
	return uint64(n), err
}

// finish sends what the gateway has not.
func (u *uploader) finish() error {
	var total int64
	var refs []record.Ref
	for _, b := range u.blobs {
		if !u.c.sentLately(b.Ref) {
			refs = append(refs, b.Ref)
			total += int64(b.Size)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	err := u.c.blobs.PushAll(u.ctx, refs, u.c.Gateway(), func(n int64) { u.progress("upload", n, total) })
	if errors.Is(err, blob.ErrDenied) {
		return &wire.Error{Code: wire.Funds, Text: "upload: the gateway takes blobs only from accounts that hold credits", Next: "meshctl account show"}
	}
	if err != nil {
		return lost("upload", err)
	}
	u.c.noteSent(refs)
	return nil
}

// recent is how long the gateway is not asked again whether it has a blob: it keeps
// every upload longer than that.
const recent = time.Minute

func (c *Client) sentLately(ref record.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Sub(c.sent[ref]) < recent
}

func (c *Client) noteSent(refs []record.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for ref, at := range c.sent {
		if now.Sub(at) >= recent {
			delete(c.sent, ref)
		}
	}
	for _, ref := range refs {
		c.sent[ref] = now
	}
}
