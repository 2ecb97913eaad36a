package cpu

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Hardware names what a measurement of b holds for: the processor's model, how many of
// them this process may use, and how kernels run on them.
func (b *Backend) Hardware() string {
	return fmt.Sprintf("%s, %d × %s, %s", model(), runtime.GOMAXPROCS(0), runtime.GOARCH, How())
}

// How says how kernels run on this processor, and where that is not the fastest way
// there is, why.
func How() string {
	switch {
	case hasVectors():
		return "in assembly for AVX2 and FMA"
	case runtime.GOARCH == "amd64":
		return "in plain Go: this processor has no AVX2 and FMA, or they are switched off"
	}
	return "in plain Go: there is assembly for amd64 only"
}

// model is the processor's name where the system tells it.
func model() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if key, name, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(name)
			}
		}
	}
	return "unknown processor"
}
