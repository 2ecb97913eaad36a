package sandbox

import "syscall"

// dieWithParent makes a worker end with its agent even while its guest computes and
// it cannot notice that its input has ended.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
