package record

import (
	"encoding/base64"
	"fmt"
)

// An Evidence shows that a keeper signed two tree heads of one size with different roots:
// it told two stories of one log. It proves itself, whoever brings it.
type Evidence struct {
	Keeper PublicKey `cbor:"1,keyasint"`
	Mesh   Ref       `cbor:"2,keyasint"` // whose log it is
	Size   uint64    `cbor:"3,keyasint"`
	A      HeadSign  `cbor:"4,keyasint"` // the one with the lower root
	B      HeadSign  `cbor:"5,keyasint"`
}

// A HeadSign is a root and a keeper's signature of the tree head that has it.
type HeadSign struct {
	Root Ref    `cbor:"1,keyasint"`
	Sign []byte `cbor:"2,keyasint"` // 64 bytes, over HeadText
}

// HeadText is what a keeper signs of a tree head: the text of a C2SP tlog-checkpoint.
func HeadText(mesh Ref, size uint64, root Ref) []byte {
	return fmt.Appendf(nil, "idlemesh/%s\n%d\n%s\n", mesh, size, base64.StdEncoding.EncodeToString(root[:]))
}
