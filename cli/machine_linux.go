package cli

import (
	"os"
	"strconv"
	"strings"
)

// buffers looks at how large a UDP socket's buffers may be: bulk transfers lose packets
// in small ones.
func buffers() finding {
	const want = 7 << 20
	small := ""
	for _, name := range []string{"rmem_max", "wmem_max"} {
		b, err := os.ReadFile("/proc/sys/net/core/" + name)
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err == nil && n < want {
			small += " " + name + " " + size(n)
		}
	}
	if small != "" {
		return warn("sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000", "small, so that large transfers are slow:%s", small)
	}
	return ok("large enough")
}
