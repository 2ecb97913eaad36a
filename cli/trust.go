package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
)

// maxMeshFile bounds a mesh file in bytes.
const maxMeshFile = 1 << 20

// trustedMesh returns the mesh file whose keys a proof is checked with: that of --mesh,
// or the one this home has. A proof never brings its own.
func trustedMesh(c *cli.Context) (record.Signed[record.Mesh], error) {
	var none record.Signed[record.Mesh]
	path := c.String("mesh")
	if path == "" {
		dir, err := home(c)
		if err != nil {
			return none, err
		}
		path = currentMesh(dir)
	}
	b, err := readSome(path, maxMeshFile)
	if errors.Is(err, fs.ErrNotExist) && !c.IsSet("mesh") {
		return none, usage("meshctl mesh join ADDR#MESHID", "%sthis home has no mesh file, so nobody's keys to check with: join the mesh, or give --mesh FILE", prefix(full(c)))
	}
	if err != nil {
		return none, usage("", "%smesh file: %v", prefix(full(c)), plain(err))
	}
	m, err := record.Open[record.Mesh](b)
	if err != nil {
		return none, &refusal{status: 7, text: fmt.Sprintf("%smesh file %s: %v", prefix(full(c)), path, err)}
	}
	return m, nil
}
