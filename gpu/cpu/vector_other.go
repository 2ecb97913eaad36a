//go:build !amd64

package cpu

// hasVectors says that plain Go is all there is.
func hasVectors() bool { return false }

func (o *call) vectorGemm(product, int) bool { return false }

func (p *product) vectorRow(<-chan struct{}, int, int) bool { return false }
