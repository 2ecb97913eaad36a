//go:build unix && !linux

package cli

import "syscall"

// dependent is for a process that a terminal's Ctrl-C does not reach: the parent ends
// it.
func dependent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
