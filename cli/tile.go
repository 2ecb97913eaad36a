package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/mesh/wire"
)

// ledgerTile prints what a C2SP tlog-tiles log has at a path, so that any web server, or
// a reader of such logs, can be given one.
func (t terminal) ledgerTile(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	var q wire.TileRequest
	if args[0] != "checkpoint" {
		if q, err = tileAt(args[0]); err != nil {
			return usage("", "ledger tile: %v", err)
		}
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		if q.Width == 0 {
			rep, err := src.HeadAt(ctx, 0)
			if err != nil {
				return err
			}
			_, err = t.out.Write([]byte(rep.Note))
			return err
		}
		b, err := src.Tile(ctx, q)
		if err != nil {
			return err
		}
		_, err = t.out.Write(b)
		return err
	})
}

// tileAt reads a path of C2SP tlog-tiles: tile/LEVEL/INDEX or tile/entries/INDEX, with
// .p/WIDTH for a part. It is tlog's own path without the height, which is always 8.
func tileAt(path string) (wire.TileRequest, error) {
	level, rest, ok := strings.Cut(strings.TrimPrefix(path, "tile/"), "/")
	entries := level == "entries"
	if entries {
		level = "data"
	}
	tile, err := tlog.ParseTilePath("tile/8/" + level + "/" + rest)
	if !ok || err != nil || !strings.HasPrefix(path, "tile/") || path == "tile/data/"+rest || tile.L > 7 {
		return wire.TileRequest{}, fmt.Errorf("%q is not a tile: want checkpoint, tile/LEVEL/INDEX or tile/entries/INDEX, such as tile/0/x001/234.p/5", path)
	}
	return wire.TileRequest{Level: uint8(max(tile.L, 0)), Index: uint64(tile.N), Width: uint16(tile.W), Entries: entries}, nil
}
