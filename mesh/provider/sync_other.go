//go:build !unix

package provider

// syncDir does nothing where folders cannot be synced.
func syncDir(string) error { return nil }
