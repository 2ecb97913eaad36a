package worker

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxFiles is how many files a worker may have open: standard ones, the runtime's
// own and the compile cache's.
const maxFiles = 128

// confine gives up what a worker does not need, for good.
func confine(memory uint64) (missing []string, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("no new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("not dumpable: %w", err)
	}
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxFiles}
	if memory > 0 {
		// Never RLIMIT_AS: Go and wazero reserve address space that they do not use.
		limits[unix.RLIMIT_DATA] = memory
	}
	for which, n := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(which, &now); err != nil {
			return nil, fmt.Errorf("limit %d: %w", which, err)
		}
		n = min(n, now.Max)
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return nil, fmt.Errorf("limit %d: %w", which, err)
		}
	}
	missing = []string{"landlock", "seccomp"}
	if memory == 0 {
		missing = append(missing, "memory-limit")
	}
	return missing, nil
}
