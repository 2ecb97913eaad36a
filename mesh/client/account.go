package client

import (
	"context"
	"crypto"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
)

// Append writes an entry of the client's own to the log, and returns its index. Its Idem
// makes a second Append the same entry.
func (c *Client) Append(ctx context.Context, e record.Entry) (uint64, error) {
	at, err := c.author.Append(ctx, e)
	return at.Index, err
}

// AppendAs writes an entry that another of the user's keys signs, such as his node's.
func (c *Client) AppendAs(ctx context.Context, key crypto.Signer, e record.Entry) (uint64, error) {
	at, err := author.New(key, c.end, c.mesh.Value).Append(ctx, e)
	return at.Index, err
}
