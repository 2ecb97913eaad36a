package ledger

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/record"
)

// Consistency returns the path that proves the log of older entries to be the beginning
// of the log of newer ones, which it has reached.
func (l *Ledger) Consistency(older, newer uint64) ([]record.Ref, error) {
	release, err := l.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	if size := l.Head().Size; older > newer || newer > size {
		return nil, fmt.Errorf("%w: sizes %d and %d of a log of %d", ErrNotFound, older, newer, size)
	}
	if older == 0 || older == newer {
		return nil, nil
	}
	path, err := tlog.ProveTree(int64(newer), int64(older), l.view())
	if err != nil {
		return nil, l.guard.read(err)
	}
	out := make([]record.Ref, len(path))
	for i, h := range path {
		out[i] = record.Ref(h)
	}
	return out, nil
}

// tileHeight is that of C2SP tlog-tiles: a full tile has 256 hashes.
const tileHeight = 8

// Tile returns the hashes of a C2SP tlog-tile: at a level of the tree counted in tiles,
// its index there, and how many of its 256 hashes, all of which the log must have.
func (l *Ledger) Tile(level int, index uint64, width int) ([]byte, error) {
	release, err := l.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	size := l.Head().Size
	if level < 0 || level > 7 || width < 1 || width > 1<<tileHeight || index > size || index<<tileHeight+uint64(width) > size>>(level*tileHeight) {
		return nil, fmt.Errorf("%w: tile %d/%d with %d hashes, in a log of %d", ErrNotFound, level, index, width, size)
	}
	b, err := tlog.ReadTileData(tlog.Tile{H: tileHeight, L: level, N: int64(index), W: width}, l.view())
	return b, l.guard.read(err)
}

// Bundle returns a C2SP entry bundle: as many leaves as width says from 256·index on,
// each behind its length in two bytes.
func (l *Ledger) Bundle(index uint64, width int) ([]byte, error) {
	release, err := l.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	size := l.Head().Size
	if width < 1 || width > 1<<tileHeight || index > size || index<<tileHeight+uint64(width) > size {
		return nil, fmt.Errorf("%w: bundle %d of %d entries, in a log of %d", ErrNotFound, index, width, size)
	}
	first := index << tileHeight
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: key(keyEntry, u64(first)), UpperBound: key(keyEntry, u64(first+uint64(width)))})
	if err != nil {
		return nil, l.guard.read(err)
	}
	var out []byte
	n := 0
	for it.First(); it.Valid(); it.Next() {
		leaf := it.Value()
		out = append(out, byte(len(leaf)>>8), byte(len(leaf)))
		out = append(out, leaf...)
		n++
	}
	err = errors.Join(it.Error(), it.Close())
	if err == nil && n != width {
		err = fmt.Errorf("%w: %d of %d entries are there", ErrCorrupt, n, width)
	}
	return out, l.guard.read(err)
}
