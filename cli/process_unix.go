//go:build unix

package cli

import (
	"os"
	"syscall"
)

// detached is for a process that goes on when its terminal is closed.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// askToEnd lets a process end in order.
func askToEnd(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
