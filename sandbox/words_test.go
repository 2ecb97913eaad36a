package sandbox

import "testing"

func TestOutOfMemory(t *testing.T) {
	for name, tc := range map[string]struct {
		words string
		want  bool
	}{
		"refused":      {"fatal error: runtime: out of memory\n\ngoroutine 0", true},
		"a stack":      {"runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort\n", true},
		"used anyway":  {"SIGSEGV: segmentation violation\nPC=0x4363fd m=6 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x2917ad0d21e0 m=6 mp=0x2917ad0d0008 [idle]:\nruntime.(*spanQueue).tryDrain(0x0)\n", true},
		"a wild fault": {"SIGSEGV: segmentation violation\nPC=0x4363fd m=6 sigcode=1 addr=0xdeadbeef\n\ngoroutine 0 gp=0x1 m=6 mp=0x2 [idle]:\nruntime.memmove(0x0)\n", false},
		"in a guest":   {"SIGSEGV: segmentation violation\nPC=0x4363fd m=6 sigcode=1 addr=0x0\n\ngoroutine 7 gp=0x1 m=6 mp=0x2 [running]:\nruntime.memmove(0x0)\n", false},
		"our own":      {"SIGSEGV: segmentation violation\nPC=0x4363fd m=6 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x1 m=6 mp=0x2 [idle]:\nidlemesh/gpu/cpu.dot(0x0)\n", false},
		"a panic":      {"panic: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n", false},
		"nothing":      {"", false},
	} {
		if got := outOfMemory(tc.words); got != tc.want {
			t.Errorf("%s: outOfMemory = %v", name, got)
		}
	}
}
