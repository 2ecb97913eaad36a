package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/wire"
)

// A logSource is where a command reads the log: a keeper, or a folder that has a copy.
type logSource interface {
	Mesh() record.Signed[record.Mesh]
	Head(context.Context) (wire.HeadReply, error)
	Query(context.Context, wire.QueryRequest) iter.Seq2[wire.Row, error]
	BalanceAt(ctx context.Context, of record.NodeID, size uint64) (wire.BalanceReply, error)
	Prove(ctx context.Context, index uint64) (tree.Proof, error)
	HeadAt(ctx context.Context, size uint64) (wire.HeadReply, error)
	Consistency(ctx context.Context, older, newer uint64) ([]record.Ref, error)
	Tile(context.Context, wire.TileRequest) ([]byte, error)
}

// pageRows is how many rows a keeper is asked for at a time, so that a slow reader keeps
// it from nothing.
const pageRows = 1000

// pages yields the rows of q, all of the log as it was at the start.
func pages(ctx context.Context, src logSource, q wire.QueryRequest) iter.Seq2[wire.Row, error] {
	return func(yield func(wire.Row, error) bool) {
		if q.Size == 0 {
			head, err := src.Head(ctx)
			if err != nil {
				yield(wire.Row{}, err)
				return
			}
			if q.Size = head.Size; q.Size == 0 {
				return
			}
		}
		left := cmp.Or(q.Limit, math.MaxUint32)
		if q.Reverse && q.From > 0 {
			q.Size, q.From = min(q.Size, q.From+1), 0
		}
		for left > 0 {
			q.Limit = min(left, pageRows)
			n := uint32(0)
			for row, err := range src.Query(ctx, q) {
				if err == nil {
					err = within(q, row, n)
				}
				if !yield(row, err) || err != nil {
					return
				}
				n++
				if q.Reverse {
					q.Size = row.Index
				} else {
					q.From = row.Index + 1
				}
			}
			if left -= n; n < q.Limit || q.Size == 0 {
				return
			}
		}
	}
}

// within refuses a row that the page was not asked for: a keeper may be anybody.
func within(q wire.QueryRequest, row wire.Row, n uint32) error {
	if row.Index < q.From || row.Index >= q.Size || n >= q.Limit {
		return wire.Refuse(wire.Unverified, fmt.Sprintf("the keeper sent entry %d out of order", row.Index))
	}
	return nil
}

// heightFlag is of commands that can look at the log as it was.
func heightFlag() cli.Flag {
	return &cli.StringFlag{Name: "at", Usage: "as the log was when it had `N` entries"}
}

// height reads --at; zero means now.
func height(c *cli.Context) (uint64, error) {
	if !c.IsSet("at") {
		return 0, nil
	}
	n, err := parseIndex(c.String("at"))
	if err == nil && n == 0 {
		err = fmt.Errorf("0: the log had no entries then")
	}
	if err != nil {
		return 0, usage("", "%s--at: %v", prefix(full(c)), err)
	}
	return n, nil
}

// reach refuses a height that the log has not come to.
func reach(ctx context.Context, src logSource, size uint64) error {
	head, err := src.Head(ctx)
	if err == nil && size > head.Size {
		err = wire.Refuse(wire.NotFound, fmt.Sprintf("--at %d: the log has %d entries", size, head.Size))
	}
	return err
}
