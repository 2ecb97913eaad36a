package wasmbin

import "testing"

func FuzzScan(f *testing.F) {
	f.Add(small())
	f.Add(code([]byte("\x01\x01\x7f\x03\x40\x20\x00\x0d\x00\x0b\x0b")))
	for _, b := range bombs() {
		if len(b.wasm) < 4096 {
			f.Add(b.wasm)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Module
		var err error
		n := allocated(func() { m, err = Scan(b, Rules{MayImport: anything}) })
		if most := uint64(2<<20 + 64*len(b)); n > most {
			t.Errorf("scanning %d bytes allocated %d; at most %d expected", len(b), n, most)
		}
		if err == nil && (m.Size != len(b) || m.Memory > m.MaxMemory || m.Code > len(b) || m.Data > len(b)) {
			t.Errorf("%d bytes are %+v", len(b), m)
		}
	})
}
