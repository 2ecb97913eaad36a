//go:build unix

package provider

import (
	"errors"
	"os"
)

// syncDir makes names in a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
