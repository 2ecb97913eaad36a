package account

import (
	"bytes"
	"crypto/sha256"

	"idlemesh/ledger/record"
)

// evidence takes from a keeper who signed two tree heads of one size with different
// roots: the mesh's share of his bond and holdback, once for each log.
func evidence(t turn, e record.Evidence) (Effects, error) {
	keeper := e.Keeper.ID()
	if _, known := t.Mesh().Keeper(keeper); !known {
		return Effects{}, refuse(ErrEntry, "%s is not a keeper of this mesh", keeper.Short())
	}
	if bytes.Compare(e.A.Root[:], e.B.Root[:]) >= 0 {
		return Effects{}, refuse(ErrEntry, "the heads have one root, or are in the wrong order")
	}
	for _, h := range [...]record.HeadSign{e.A, e.B} {
		if !e.Keeper.Verify(record.HeadText(e.Mesh, e.Size, h.Root), h.Sign) {
			return Effects{}, refuse(ErrEntry, "the keeper has not signed the head with root %v", h.Root)
		}
	}
	name := Name{FactUsed, sha256.Sum256(append(append([]byte("evidence:"), keeper[:]...), e.Mesh[:]...))}
	var known bool
	if err := t.Fact(name, &known); err != nil {
		return Effects{}, err
	}
	if known {
		return Effects{}, refuse(ErrOnce, "keeper %s was convicted of it", keeper.Short())
	}
	of, err := AccountOf(t, keeper)
	if err != nil {
		return Effects{}, err
	}
	f := Effects{Parties: []Party{{keeper, Seller}, {of, Seller}}}
	f.remember(name.Kind, name.Of, true)
	_, err = f.slash(t, of, t.Mesh().Params.Slash)
	return f, err
}
