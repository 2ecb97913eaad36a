package cli

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached is for a process that goes on when its terminal is closed.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// dependent is for a process that its parent ends.
func dependent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// askToEnd ends a process: Windows has no way to ask one without a window.
func askToEnd(p *os.Process) error { return p.Kill() }
