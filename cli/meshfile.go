package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"idlemesh/ledger/record"
)

type signedMesh = record.Signed[record.Mesh]

// readMesh reads a mesh file, signed CBOR. Whoever may change it may redirect all jobs,
// so it is checked even though it is ours.
func readMesh(path string) (signedMesh, error) {
	b, err := readSome(path, maxMeshFile)
	if err != nil {
		return signedMesh{}, err
	}
	m, err := record.Open[record.Mesh](b)
	if err != nil {
		return m, &refusal{status: 7, text: fmt.Sprintf("mesh file %s: %v", path, err), next: "move it away and join the mesh again: meshctl mesh join ADDR#MESHID"}
	}
	return m, nil
}

// joinedMesh returns the mesh that this home has made or joined, if it has.
func joinedMesh(home string) (m signedMesh, ok bool, err error) {
	m, err = readMesh(meshFile(home))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	return m, err == nil, err
}

// storeMesh keeps the mesh that this home belongs to from now on. It never replaces
// another.
func storeMesh(home string, m signedMesh) error {
	old, ok, err := joinedMesh(home)
	switch {
	case err != nil:
		return err
	case ok && old.Ref() == m.Ref():
		return nil
	case ok:
		return usage("", "this home belongs to mesh %s (%s) already: use another --home, or move %s away",
			old.Value.Name, old.Ref(), meshFile(home))
	}
	return writeFile(meshFile(home), m.Raw())
}

// currentMesh is the file of the mesh that commands of this home use.
func currentMesh(home string) string {
	if _, err := os.Lstat(meshFile(home)); err == nil {
		return meshFile(home)
	}
	return embeddedFile(home)
}
