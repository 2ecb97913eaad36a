package sandbox

import "strings"

// wasi has the signature of each function of WASI preview 1: parameters, ">",
// results, as Wasm encodes them.
var wasi = func() map[string]string {
	m := map[string]string{}
	for name, sig := range wasiSignatures {
		m[name] = strings.NewReplacer("i", "\x7f", "l", "\x7e").Replace(sig)
	}
	return m
}()

// wasiSignatures has i for i32 and l for i64.
var wasiSignatures = map[string]string{
	"args_get":                "ii>i",
	"args_sizes_get":          "ii>i",
	"clock_res_get":           "ii>i",
	"clock_time_get":          "ili>i",
	"environ_get":             "ii>i",
	"environ_sizes_get":       "ii>i",
	"fd_advise":               "illi>i",
	"fd_allocate":             "ill>i",
	"fd_close":                "i>i",
	"fd_datasync":             "i>i",
	"fd_fdstat_get":           "ii>i",
	"fd_fdstat_set_flags":     "ii>i",
	"fd_fdstat_set_rights":    "ill>i",
	"fd_filestat_get":         "ii>i",
	"fd_filestat_set_size":    "il>i",
	"fd_filestat_set_times":   "illi>i",
	"fd_pread":                "iiili>i",
	"fd_prestat_dir_name":     "iii>i",
	"fd_prestat_get":          "ii>i",
	"fd_pwrite":               "iiili>i",
	"fd_read":                 "iiii>i",
	"fd_readdir":              "iiili>i",
	"fd_renumber":             "ii>i",
	"fd_seek":                 "ilii>i",
	"fd_sync":                 "i>i",
	"fd_tell":                 "ii>i",
	"fd_write":                "iiii>i",
	"path_create_directory":   "iii>i",
	"path_filestat_get":       "iiiii>i",
	"path_filestat_set_times": "iiiilli>i",
	"path_link":               "iiiiiii>i",
	"path_open":               "iiiiillii>i",
	"path_readlink":           "iiiiii>i",
	"path_remove_directory":   "iii>i",
	"path_rename":             "iiiiii>i",
	"path_symlink":            "iiiii>i",
	"path_unlink_file":        "iii>i",
	"poll_oneoff":             "iiii>i",
	"proc_exit":               "i>",
	"proc_raise":              "i>i",
	"random_get":              "ii>i",
	"sched_yield":             ">i",
	"sock_accept":             "iii>i",
	"sock_recv":               "iiiiii>i",
	"sock_send":               "iiiii>i",
	"sock_shutdown":           "ii>i",
}
