package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
)

// home returns the folder that holds everything meshctl writes, and makes it for its
// owner alone when it is not there.
func home(c *cli.Context) (string, error) {
	dir := c.String("home")
	if dir == "" {
		base := os.Getenv("XDG_DATA_HOME")
		if !filepath.IsAbs(base) { // as the XDG rules have it
			user, err := os.UserHomeDir()
			if err != nil {
				return "", usage("meshctl --home DIR …", "no home folder: %v", err)
			}
			base = filepath.Join(user, ".local", "share")
		}
		dir = filepath.Join(base, "idlemesh")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("home: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("home: %w", err)
	}
	return dir, nil
}

// What lies in a home:
//
//	key             the user's key, which is his account
//	node.key        the key of this home's node
//	mint.key        the key whose credits the embedded mesh counts in
//	mesh.cbor       the mesh that was made or joined; without it the embedded one is used
//	embedded.cbor   the mesh file of the embedded mesh, a mesh of one node
//	embedded.lock   locked by the process that runs the embedded node (see seat)
//	embedded.addr   where that node is, while it runs
//	embedded.users  locked by the commands that use that node without running it
//	embedded.log    what a node in the background said
//	embedded/       the embedded node's ledger, blobs and compiled modules
//	node.lock, node.addr, node/    the same of this home's node in mesh.cbor
//	cache/          blobs of the commands that use a mesh, a folder for each at a time

// keyFile is the user's own key; the node has another.
func keyFile(home string) string { return filepath.Join(home, "key") }

func nodeKeyFile(home string) string { return filepath.Join(home, "node.key") }

// meshFile is the mesh that was joined, absent where the embedded one is used.
func meshFile(home string) string { return filepath.Join(home, "mesh.cbor") }

func embeddedFile(home string) string { return filepath.Join(home, "embedded.cbor") }

// embeddedBase and nodeBase are where the files of a seat start, and what that node
// keeps.
func embeddedBase(home string) string { return filepath.Join(home, "embedded") }

func nodeBase(home string) string { return filepath.Join(home, "node") }
