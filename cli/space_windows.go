package cli

import "golang.org/x/sys/windows"

// freeSpace is how many bytes this user may still write in dir's file system.
func freeSpace(dir string) (free uint64, err error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	return free, windows.GetDiskFreeSpaceEx(p, &free, nil, nil)
}
