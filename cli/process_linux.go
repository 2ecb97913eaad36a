package cli

import "syscall"

// dependent is for a process that ends with its parent, however that ends, and that a
// terminal's Ctrl-C does not reach: the parent ends it.
func dependent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
