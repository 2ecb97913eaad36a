package wasmbin

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
)

// A dataSegment is active, at a constant place.
type dataSegment struct {
	at   int32
	data string
}

func withDatas(segments ...dataSegment) []byte {
	var body []byte
	for _, s := range segments {
		c := asm{0}
		c.i32(s.at)
		c.op(opEnd)
		body = append(appendU32(append(body, c...), uint32(len(s.data))), s.data...)
	}
	b := appendSection(slices.Clone([]byte(header)), 5, []byte{1, 0, 1})
	b = appendSection(b, 7, append(appendName([]byte{1}, "memory"), 2, 0))
	return appendSection(b, 11, append(appendU32(nil, uint32(len(segments))), body...))
}

// TestDatas compares the memory of modules with that of what they are rewritten to.
func TestDatas(t *testing.T) {
	const end = 1 << 16
	for name, tc := range map[string]struct {
		segments []dataSegment
		want     uint32 // segments left
	}{
		"none":                    {nil, 0},
		"one":                     {[]dataSegment{{5, "abc"}}, 1},
		"adjacent":                {[]dataSegment{{5, "abc"}, {8, "d"}}, 1},
		"zeros between":           {[]dataSegment{{5, "abcdefghijklmnopqrstuvwxyz"}, {33, "d"}, {34, ""}, {50, "e"}}, 1},
		"too many zeros between":  {[]dataSegment{{5, string(make([]byte, 300))}, {305 + maxZeros + 1, "d"}}, 2},
		"more zeros than data":    {[]dataSegment{{0, "a"}, {200, "b"}, {400, "c"}, {600, "d"}}, 4},
		"overlapping":             {[]dataSegment{{5, "abc"}, {6, "XY"}, {9, "z"}}, 2},
		"backwards":               {[]dataSegment{{50, "abc"}, {5, "x"}}, 2},
		"one lies between":        {[]dataSegment{{60, "middle"}, {50, "a"}, {80, "b"}}, 3},
		"one lies right before":   {[]dataSegment{{60, "middle"}, {50, "aaaaaaaaaa"}, {66, "b"}}, 3},
		"to the end":              {[]dataSegment{{end - 3, "ab"}, {end - 1, "c"}, {end, ""}}, 1},
		"beyond the end":          {[]dataSegment{{end - 3, "abcd"}}, 1},
		"nothing, beyond the end": {[]dataSegment{{end - 3, "ab"}, {end + 1, ""}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := withDatas(tc.segments...)
			out, _, err := Rewrite(in, Rules{MayImport: anything})
			if err != nil {
				t.Fatal(err)
			}
			was, wasErr := memoryOf(t, in)
			is, isErr := memoryOf(t, out)
			if (wasErr == nil) != (isErr == nil) || !bytes.Equal(was, is) {
				t.Errorf("memory differs: %v, %v", wasErr, isErr)
			}
			if n := datasOf(out); n != tc.want {
				t.Errorf("%d segments are left, want %d", n, tc.want)
			}
		})
	}
}

// datasOf counts a module's data segments.
func datasOf(wasm []byte) uint32 {
	r := reader{b: wasm, at: len(header), end: len(wasm)}
	for r.left() > 0 && r.err == nil {
		id := r.u8()
		body := r.bytes(r.u32(), "section")
		if id == 11 {
			s := reader{b: body, end: len(body)}
			return s.u32()
		}
	}
	return 0
}

func memoryOf(t *testing.T, wasm []byte) ([]byte, error) {
	t.Helper()
	ctx := t.Context()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer rt.Close(ctx)
	if _, err := rt.NewHostModuleBuilder(HostModule).NewFunctionBuilder().WithFunc(func(uint32) {}).Export(HostRefuel).Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := rt.Instantiate(ctx, wasm)
	if err != nil {
		return nil, err
	}
	b, ok := m.Memory().Read(0, m.Memory().Size())
	if !ok {
		t.Fatal("no memory")
	}
	return bytes.Clone(b), nil
}
