package provider

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"idlemesh/ledger/record"
	"idlemesh/mesh/blob"
)

// maxOpened is how many blobs a run holds open. A worker asks for one chunk after
// another, of any of thousands of files: with a reader for each the node would soon
// have no descriptor left, and with a new one for each chunk it would check a blob's
// hashes over and over.
const maxOpened = 32

type opened struct {
	ref record.Ref
	*blob.Reader
}

// at returns what reads b's content. It is valid until the next call.
func (r *run) at(b record.Blob) (io.ReaderAt, error) {
	if b.Size == 0 {
		return bytes.NewReader(nil), nil
	}
	if b.Key != nil && len(b.Key) != 32 {
		return nil, fmt.Errorf("%w: a blob's key has %d bytes, want 32", errBody, len(b.Key))
	}
	at, err := r.reader(b.Ref)
	if err != nil || b.Key == nil {
		return at, err
	}
	return blob.Decrypt(at, [32]byte(b.Key)), nil
}

func (r *run) reader(ref record.Ref) (*blob.Reader, error) {
	if i := slices.IndexFunc(r.opened, func(o opened) bool { return o.ref == ref }); i >= 0 {
		o := r.opened[i]
		r.opened = append(slices.Delete(r.opened, i, i+1), o)
		return o.Reader, nil
	}
	at, err := r.p.cfg.Blobs.Get(ref)
	if err != nil {
		return nil, err
	}
	if len(r.opened) == maxOpened {
		r.opened[0].Close()
		r.opened = slices.Delete(r.opened, 0, 1)
	}
	r.opened = append(r.opened, opened{ref, at})
	return at, nil
}

// close gives back what the run has read.
func (r *run) close() {
	for _, o := range r.opened {
		o.Close()
	}
	r.opened = nil
}
