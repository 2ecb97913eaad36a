//go:build !linux

package worker

// confine has nothing to confine with; the advert says so.
func confine(uint64) (missing []string, err error) { return layers, nil }
