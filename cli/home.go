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

// keyFile is the user's own key; the embedded node has another.
func keyFile(home string) string { return filepath.Join(home, "key") }

// meshFile is the mesh that was joined, absent where the embedded one is used.
func meshFile(home string) string { return filepath.Join(home, "mesh") }

// nodeDir is what the node of this home keeps: its key, ledger and blobs.
func nodeDir(home string) string { return filepath.Join(home, "node") }
