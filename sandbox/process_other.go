//go:build !linux

package sandbox

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
