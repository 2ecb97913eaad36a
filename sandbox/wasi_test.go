package sandbox_test

import (
	"testing"

	"idlemesh/sandbox"
)

// TestWASIRefusals holds what docs/abi.md says of functions that answer with an error
// only: each is called on the root folder, descriptor 3, and exits with its errno.
func TestWASIRefusals(t *testing.T) {
	const badf, inval, nosys, notsup = 8, 28, 52, 58
	p := openPool(t, sandbox.Config{})
	for name, tc := range map[string]struct {
		params string
		args   []int64
		errno  uint32
	}{
		"path_link":            {"iiiiiii", []int64{3, 0, 64, 2, 3, 66, 1}, notsup},
		"path_symlink":         {"iiiii", []int64{64, 2, 3, 66, 1}, notsup},
		"path_readlink":        {"iiiiii", []int64{3, 64, 2, 128, 8, 136}, inval},
		"sock_accept":          {"iii", []int64{3, 0, 128}, badf},
		"sock_recv":            {"iiiiii", []int64{3, 16, 1, 0, 128, 132}, badf},
		"sock_send":            {"iiiii", []int64{3, 16, 1, 0, 128}, badf},
		"sock_shutdown":        {"ii", []int64{3, 3}, badf},
		"proc_raise":           {"i", []int64{9}, nosys},
		"fd_fdstat_set_rights": {"ill", []int64{3, 0, 0}, nosys},
		"poll_oneoff":          {"iiii", []int64{0, 64, 4097, 128}, inval},
		"clock_time_get":       {"ili", []int64{2, 0, 128}, inval},
	} {
		t.Run(name, func(t *testing.T) {
			g := guest{imports: []imp{{"wasi_snapshot_preview1", name, types(tc.params), []byte{vi32}}, exitWith}}
			g.data = string(make([]byte, 64)) + "inx"
			for i, v := range tc.args {
				if tc.params[i] == 'l' {
					g.code = append(g.code, i64(v)...)
				} else {
					g.code = append(g.code, i32(v)...)
				}
			}
			g.code = do(g.code, call(0), call(1))
			wasm := g.wasm()
			res, err := p.Execute(t.Context(), "alice", spec(wasm), newHost(wasm))
			if err != nil || res.End != sandbox.Exited || res.Exit != tc.errno {
				t.Errorf("Execute = %+v, %v; want errno %d", res, err, tc.errno)
			}
		})
	}
}

// types has i for i32 and l for i64.
func types(s string) (b []byte) {
	for _, c := range s {
		b = append(b, map[rune]byte{'i': vi32, 'l': vi64}[c])
	}
	return b
}
