package wasmbin

import (
	"context"
	"testing"
)

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

// FuzzRewrite rewrites whatever the scan accepts: what compiled compiles still, and
// what runs uses no more fuel than it is given.
func FuzzRewrite(f *testing.F) {
	f.Add(small())
	f.Add(floating("\x00\x41\x00" + inf64 + inf64 + "\xa1\x39\x03\x00"))
	f.Add(fn("\x41\x00\x04\x7f\x41\x00\x05\x41\x01\x0b\x1a\x03\x40\x41\x00\x0d\x00\x0b\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00"))
	for _, wasm := range endless() {
		if len(wasm) < 4096 {
			f.Add(wasm)
		}
	}
	b := newBench(f, false)
	b.limit = 1_000_000
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out, m, err := Rewrite(wasm, Rules{MayImport: anything, MemoryPages: 64})
		if err != nil {
			return
		}
		ctx := context.Background()
		was, err := b.rt.CompileModule(ctx, wasm)
		if err != nil {
			return
		}
		was.Close(ctx)
		is, err := b.rt.CompileModule(ctx, out)
		if err != nil {
			t.Fatalf("it compiled, and rewritten it does not: %v", err)
		}
		is.Close(ctx)
		if !m.Command || len(m.Imports) > 0 {
			return
		}
		if g, err := b.try(out); err == nil && g.fuel > b.limit+1<<33 {
			t.Errorf("it used %d fuel of %d", g.fuel, b.limit)
		}
	})
}
