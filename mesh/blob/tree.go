package blob

import (
	"io"
	"math/bits"

	"lukechampine.com/blake3/guts"

	"idlemesh/ledger/record"
)

// group is what is checked at once: an aligned subtree of BLAKE3's tree.
const group = 1 << 20

// Sum returns the name of a blob: its BLAKE3 hash.
func Sum(b []byte) record.Ref { return rootOf(subtree(b, 0)) }

// SumReader returns the name and the size of what r yields.
func SumReader(r io.Reader) (record.Ref, int64, error) {
	var t tree
	buf := make([]byte, group)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 || len(t.leaves) == 0 {
			t.add(buf[:n])
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			ref, _ := t.sum()
			return ref, t.size, nil
		}
		if err != nil {
			return record.Ref{}, 0, err
		}
	}
}

// A tree grows with its blob, group by group.
type tree struct {
	size   int64
	leaves []leaf
	first  record.Ref // the blob's name, should it end after its first group
}

// add takes the next group; only the last may be short.
func (t *tree) add(b []byte) {
	n := subtree(b, uint64(t.size/guts.ChunkSize))
	if t.size == 0 {
		t.first = rootOf(n)
	}
	t.leaves = append(t.leaves, leafBytes(guts.ChainingValue(n)))
	t.size += int64(len(b))
}

// sum returns the blob's name and its leaves.
func (t *tree) sum() (record.Ref, []leaf) {
	if len(t.leaves) == 1 {
		return t.first, []leaf{leaf(t.first)}
	}
	return root(t.leaves), t.leaves
}

// A leaf is the chaining value of one group. Of a blob with one group, where BLAKE3
// has none, it is the blob's name.
type leaf [32]byte

// groupsOf is how many groups a blob of that size has.
func groupsOf(size int64) int64 { return max(1, (size+group-1)/group) }

// groupSize is the size of group i of a blob.
func groupSize(size, i int64) int { return int(min(group, size-i*group)) }

// checkGroup reports whether b is group i of a blob with these leaves.
func checkGroup(leaves []leaf, i int64, b []byte) bool {
	if len(leaves) == 1 {
		return leaves[0] == leaf(Sum(b))
	}
	return leaves[i] == leafBytes(guts.ChainingValue(subtree(b, uint64(i)*group/guts.ChunkSize)))
}

// root returns the name of a blob with these leaves.
func root(leaves []leaf) record.Ref {
	if len(leaves) == 1 {
		return record.Ref(leaves[0])
	}
	k := split(len(leaves))
	return rootOf(guts.ParentNode(join(leaves[:k]), join(leaves[k:]), &guts.IV, 0))
}

func rootOf(n guts.Node) record.Ref {
	n.Flags |= guts.FlagRoot
	words := guts.WordsToBytes(guts.CompressNode(n))
	return record.Ref(words[:32])
}

func join(leaves []leaf) [8]uint32 {
	if len(leaves) == 1 {
		return leafWords(leaves[0])
	}
	k := split(len(leaves))
	return guts.ChainingValue(guts.ParentNode(join(leaves[:k]), join(leaves[k:]), &guts.IV, 0))
}

// split is the largest power of two below n: BLAKE3's left subtrees are full.
func split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

const lanes = guts.MaxSIMD * guts.ChunkSize

// subtree returns the node over b, which starts at that chunk of its blob. The
// package's own Sum256 is several times slower at these sizes.
func subtree(b []byte, chunk uint64) guts.Node {
	if len(b) == lanes {
		return guts.CompressBuffer((*[lanes]byte)(b), lanes, &guts.IV, chunk, 0)
	}
	if len(b) <= guts.ChunkSize {
		return guts.CompressChunk(b, &guts.IV, chunk, 0)
	}
	if len(b) < lanes {
		var buf [lanes]byte
		copy(buf[:], b)
		return guts.CompressBuffer(&buf, len(b), &guts.IV, chunk, 0)
	}
	k := split((len(b)+guts.ChunkSize-1)/guts.ChunkSize) * guts.ChunkSize
	left := guts.ChainingValue(subtree(b[:k], chunk))
	right := guts.ChainingValue(subtree(b[k:], chunk+uint64(k/guts.ChunkSize)))
	return guts.ParentNode(left, right, &guts.IV, 0)
}

func leafBytes(w [8]uint32) leaf {
	var b leaf
	for i, x := range w {
		b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24)
	}
	return b
}

func leafWords(b leaf) (w [8]uint32) {
	for i := range w {
		w[i] = uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24
	}
	return w
}
