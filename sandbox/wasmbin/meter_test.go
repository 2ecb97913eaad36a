package wasmbin

import (
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// command is a module with a memory of 2 pages that may grow to 64, a table with its
// functions, two data segments, and the function start as _start. Functions take and
// return nothing but function 1, which takes an i32 and returns one.
func command(start int, bodies ...[]byte) []byte {
	n := len(bodies)
	all, types := cat(n), cat(n)
	for i, b := range bodies {
		all = append(append(all, leb(uint64(len(b)))...), b...)
		types = append(types, byte(map[bool]int{true: 1}[i == 1]))
	}
	big := make([]byte, 2<<20)
	return file(sec(1, 2, "\x60\x00\x00", "\x60\x01\x7f\x01\x7f"), sec(3, types), sec(4, 1, "\x70\x01", 64, 64),
		sec(5, 1, "\x01\x02", 64), sec(6, 2, "\x7f\x01\x41\x00\x0b", "\x7c\x01\x44\x00\x00\x00\x00\x00\x00\x00\x00\x0b"),
		sec(7, 2, name("_start"), "\x00", start, name("memory"), "\x02\x00"),
		sec(9, 2, "\x00\x41\x00\x0b", n, each(n, func(i int) []byte { return cat(i) }), "\x01\x00\x01\x00"), sec(12, 2),
		sec(10, all), sec(11, 2, "\x01", len(big), big, "\x01", 4, "data"))
}

// does is a body without locals.
func does(code ...any) []byte { return cat("\x00", cat(code...), "\x0b") }

// i32c and i64c are constants.
func i32c(n int64) []byte { return appendI64([]byte{0x41}, n) }
func i64c(n int64) []byte { return appendI64([]byte{0x42}, n) }

func TestFuel(t *testing.T) {
	b := newBench(t, false)
	spin := "\x00\x41\x00\x0b" // function 1, not called
	for what, tc := range map[string]struct {
		start []byte
		fuel  int64
	}{
		"nothing":             {does(), 0},
		"free":                {does("\x01\x41\x00\x1a"), 0},
		"add":                 {does("\x41\x01\x41\x01\x6a\x1a"), 1},
		"division":            {does("\x41\x01\x41\x01\x6e\x1a"), 6},
		"vector":              {does("\xfd\x0c", times(16, "\x00"), "\x1a"), 1},
		"call":                {does("\x10\x02"), 4},
		"indirect call":       {does("\x41\x02\x11\x00\x00"), 7},
		"if taken":            {does("\x41\x01\x04\x40\x41\x01\x45\x1a\x0b"), 2},
		"if not taken":        {does("\x41\x00\x04\x40\x41\x01\x45\x1a\x0b"), 1},
		"else":                {does("\x41\x00\x04\x40\x41\x01\x45\x1a\x05\x41\x01\x45\x45\x1a\x0b"), 3},
		"behind a branch":     {does("\x02\x40\x0c\x00\x41\x01\x45\x1a\x0b"), 1},
		"behind a block":      {does("\x02\x40\x41\x01\x0d\x00\x41\x01\x45\x1a\x0b\x41\x01\x45\x1a"), 2},
		"behind a return":     {does("\x02\x40\x41\x01\x04\x40\x0f\x0b\x41\x01\x45\x1a\x0b\x41\x01\x45\x1a"), 2},
		"a loop of ten":       {cat("\x01\x01\x7f", "\x03\x40\x20\x00\x41\x01\x6a\x22\x00\x41\x0a\x49\x0d\x00\x0b\x0b"), 31},
		"fill of 160":         {does(i32c(0), i32c(1), i32c(160), "\xfc\x0b\x00"), 26},
		"fill of 131,072":     {does(i32c(0), i32c(1), i32c(131072), "\xfc\x0b\x00"), 16 + 8192},
		"copy of 160":         {does(i32c(0), i32c(1), i32c(160), "\xfc\x0a\x00\x00"), 26},
		"copy down":           {does(i32c(9), i32c(1), i32c(131000), "\xfc\x0a\x00\x00"), 16 + 8187},
		"init of 4":           {does(i32c(9), i32c(0), i32c(4), "\xfc\x08\x01\x00"), 16},
		"init of 131,072":     {does(i32c(0), i32c(0), i32c(131072), "\xfc\x08\x00\x00"), 16 + 8192},
		"grow by 2":           {does(i32c(2), "\x40\x00\x1a"), 500 + 2*4096},
		"grow beyond reason":  {does(i32c(-1), "\x40\x00\x1a"), 500 + 65536*4096},
		"fill of 64 entries":  {does(i32c(0), "\xd0\x70", i32c(64), "\xfc\x11\x00"), 17 + 32},
		"fill beyond reason":  {does(i32c(0), "\xd0\x70", i32c(-1), "\xfc\x11\x00"), 17 + 1<<31 - 1},
		"grow a table":        {does("\xd0\x70", i32c(-1), "\xfc\x0f\x00\x1a"), 65 + 1<<31 - 1},
		"memory fill refused": {does(i32c(0), i32c(1), i32c(-1), "\xfc\x0b\x00"), 16 + 1<<28 - 1},
	} {
		t.Run(what, func(t *testing.T) {
			got := b.run(t, rewrite(t, command(0, tc.start, []byte(spin), does("\x41\x01\x45\x1a"))))
			if got.fuel != tc.fuel {
				t.Errorf("it used %d fuel, want %d (%s)", got.fuel, tc.fuel, got.err)
			}
		})
	}
}

// endless are commands that never end by themselves, or not soon.
func endless() map[string][]byte {
	one := []byte("\x00\x20\x00\x0b")
	start := func(parts ...any) []byte { return command(0, does(parts...), one) }
	forever := func(parts ...any) []byte { return start("\x03\x40", cat(parts...), "\x0c\x00\x0b") }
	big := i32c(3 << 20)
	return map[string][]byte{
		"an empty loop":         forever(),
		"a loop by br_if":       start("\x03\x40\x41\x01\x0d\x00\x0b"),
		"a loop by br_table":    start("\x03\x40\x41\x07\x0e\x01\x00\x00\x0b"),
		"a loop from within":    start("\x03\x40\x02\x40\x02\x40\x0c\x02\x0b\x0b\x0b"),
		"a loop with a value":   start("\x41\x00\x03\x01\x0c\x00\x0b\x1a"),
		"recursion":             start("\x10\x00\x10\x00"),
		"two that call":         command(0, does("\x03\x40\x10\x02\x0c\x00\x0b"), one, does("\x01")),
		"calls through a table": command(0, does("\x03\x40\x41\x02\x11\x00\x00\x0c\x00\x0b"), one, does()),
		"a tree of calls": command(0, does(times(30, "\x10\x02")), one, does(times(30, "\x10\x03")), does(times(30, "\x10\x04")),
			does(times(30, "\x10\x05")), does(times(30, "\x10\x06")), does(times(1000, "\x41\x01\x45\x1a"))),
		"a tree of small calls": command(0, does(times(30, "\x10\x02")), one, does(times(30, "\x10\x03")), does(times(30, "\x10\x04")),
			does(times(30, "\x10\x05")), does(times(30_000, "\x10\x06")), does(times(250, "\x41\x01\x45\x1a"))),
		"long code":     command(0, does("\x03\x40", times(100_000, "\x41\x01\x45\x1a"), "\x0c\x00\x0b"), one),
		"fills":         forever(i32c(60), "\x40\x00\x1a", i32c(0), i32c(0), big, "\xfc\x0b\x00"),
		"copies":        forever(i32c(60), "\x40\x00\x1a", i32c(1), i32c(0), big, "\xfc\x0a\x00\x00"),
		"inits":         forever(i32c(60), "\x40\x00\x1a", i32c(1), i32c(0), i32c(2<<20), "\xfc\x08\x00\x00"),
		"grows":         forever(i32c(1), "\x40\x00\x1a"),
		"table fills":   forever(i32c(0), "\xd0\x70", i32c(64), "\xfc\x11\x00"),
		"table copies":  forever(i32c(0), i32c(0), i32c(64), "\xfc\x0e\x00\x00"),
		"table inits":   forever(i32c(0), i32c(0), i32c(1), "\xfc\x0c\x01\x00"),
		"table grows":   forever("\xd0\x70", i32c(0), "\xfc\x0f\x00\x1a"),
		"many br_table": start("\x03\x40", times(500, "\x02\x40\x41\x00\x0e\x01\x00\x00\x0b"), "\x0c\x00\x0b"),
	}
}

// TestEndlessIsStopped gives little fuel to what does not end: it is stopped, and never
// uses more than it was given by much.
func TestEndlessIsStopped(t *testing.T) {
	b := newBench(t, false)
	b.slice, b.limit = 10_000, 3_000_000
	for what, wasm := range endless() {
		t.Run(what, func(t *testing.T) {
			got := b.run(t, rewrite(t, wasm))
			if got.exit != outOfFuel && got.exit != tooDeep {
				t.Fatalf("it ended with %+v", got)
			}
			if over := got.fuel - b.limit; got.exit == outOfFuel && over > 3*maxUnchecked {
				t.Errorf("it used %d more than there was", over)
			}
		})
	}
}

// TestStopDoesNotDependOnSlices ends a run at the same fuel, however that is handed out.
func TestStopDoesNotDependOnSlices(t *testing.T) {
	b := newBench(t, false)
	for what, wasm := range endless() {
		var first ran
		wasm = rewrite(t, wasm)
		slices := []int64{1, 777, 1 << 40}
		if long() {
			slices = append(slices, 2, 10_000, 100_000)
		}
		for _, slice := range slices {
			b.slice, b.limit = slice, 200_000
			got := b.run(t, wasm)
			if slice == 1 {
				first = got
			}
			if got != first {
				t.Errorf("%s, slices of %d: %+v, want %+v", what, slice, got, first)
			}
		}
	}
}

func TestDepth(t *testing.T) {
	one := []byte("\x00\x20\x00\x0b")
	wide := cat(i64s(1000), each(1000, func(i int) []byte { return cat(i32c(8), "\x29\x03\x00\x21", i) }), "\x10\x00",
		each(1000, func(i int) []byte { return cat(i32c(8), "\x20", i, "\x37\x03\x00") }), "\x0b")
	for what, wasm := range map[string][]byte{
		"itself":           command(0, does("\x10\x00\x01"), one),
		"each other":       command(0, does("\x10\x02"), one, does("\x10\x00")),
		"through a table":  command(0, does("\x41\x00\x11\x00\x00"), one),
		"with many values": command(0, wide, one),
		"after a while":    command(0, does(times(100, "\x10\x02"), "\x10\x00"), one, does("\x10\x03"), does()),
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, false)
			if got := b.run(t, rewrite(t, wasm)); got.exit != tooDeep || !b.deep {
				t.Errorf("it ended with %+v", got)
			}
		})
	}
	// Calls one after the other nest no deeper.
	b := newBench(t, false)
	row := cat("\x01\x01\x7f\x03\x40\x10\x02\x20\x00\x41\x01\x6a\x22\x00", i32c(1_000_000), "\x49\x0d\x00\x0b\x0b")
	if got := b.run(t, rewrite(t, command(0, row, one, does("\x10\x03"), does()))); got.exit != 0 || got.err != "" {
		t.Errorf("a million calls in a row: %+v", got)
	}
}

// TestBulk compares bulk operations in pieces with those in one go.
func TestBulk(t *testing.T) {
	was, is := newBench(t, false), newBench(t, false)
	is.slice = 1000
	one := []byte("\x00\x20\x00\x0b")
	pattern := cat(i32c(5), "\x40\x00\x1a", i32c(100), i32c(7), i32c(50), "\xfc\x0b\x00", i32c(200_000), i32c(9), i32c(99), "\xfc\x0b\x00",
		i32c(300_001), i32c(3), i32c(70_000), "\xfc\x0b\x00")
	for what, op := range map[string][]byte{
		"fill":              cat(i32c(3), i32c(1), i32c(200_000), "\xfc\x0b\x00"),
		"fill to the end":   cat(i32c(7<<16-200_000), i32c(1), i32c(200_000), "\xfc\x0b\x00"),
		"fill beyond":       cat(i32c(7<<16-199_999), i32c(1), i32c(200_000), "\xfc\x0b\x00"),
		"fill far beyond":   cat(i32c(-1), i32c(1), i32c(-1), "\xfc\x0b\x00"),
		"fill of nothing":   cat(i32c(7<<16), i32c(1), i32c(0), "\xfc\x0b\x00"),
		"copy up":           cat(i32c(3), i32c(100), i32c(300_000), "\xfc\x0a\x00\x00"),
		"copy down":         cat(i32c(100_000), i32c(3), i32c(300_000), "\xfc\x0a\x00\x00"),
		"copy a little":     cat(i32c(300_010), i32c(300_000), i32c(131_073), "\xfc\x0a\x00\x00"),
		"copy from beyond":  cat(i32c(3), i32c(300_000), i32c(300_000), "\xfc\x0a\x00\x00"),
		"copy to beyond":    cat(i32c(300_000), i32c(3), i32c(300_000), "\xfc\x0a\x00\x00"),
		"init":              cat(i32c(3), i32c(100), i32c(300_000), "\xfc\x08\x00\x00"),
		"init beyond":       cat(i32c(3), i32c(2<<20-200_000), i32c(300_000), "\xfc\x08\x00\x00"),
		"init after a drop": cat("\xfc\x09\x00", i32c(3), i32c(100), i32c(300_000), "\xfc\x08\x00\x00"),
		"init small":        cat(i32c(3), i32c(0), i32c(4), "\xfc\x08\x01\x00"),
		"init small beyond": cat(i32c(3), i32c(1), i32c(4), "\xfc\x08\x01\x00"),
		"grow":              cat(i32c(3), "\x40\x00", i32c(8), "\x6c\x40\x00\x1a"),
	} {
		t.Run(what, func(t *testing.T) {
			wasm := command(0, does(pattern, op), one)
			a, b := was.run(t, wasm), is.run(t, rewrite(t, wasm))
			if a.memory != b.memory || firstOf(a.err) != firstOf(b.err) {
				t.Errorf("rewritten: %+v\nas it was: %+v", b, a)
			}
		})
	}
}

func firstOf(s string) string { first, _, _ := strings.Cut(s, "\n"); return first }

// TestKeeps looks at what a rewritten module shows and hides.
func TestKeeps(t *testing.T) {
	// It has a start function, a mutable global, and names.
	wasm := file(sec(1, 1, "\x60\x00\x00"), sec(3, "\x02\x00\x00"), sec(6, 2, "\x7f\x01\x41\x2a\x0b", "\x7e\x00\x42\x00\x0b"),
		sec(7, 1, name("_start"), "\x00\x01"), sec(8, 0), sec(10, 2, "\x09\x00\x23\x00\x41\x01\x6a\x24\x00\x0b", "\x03\x00\x00\x0b"),
		sec(0, name(".debug_info"), "xyz"), sec(0, name("other"), "kept"),
		sec(0, name("name"), "\x00\x02\x01m", "\x01\x0e\x02\x00\x04init\x01\x05doing", "\x02\x03\x01\x00\x00"))
	m, err := Scan(wasm, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	out, m2, err := Rewrite(wasm, Rules{})
	if err != nil || m2.Size != m.Size || m2.Command != m.Command || m2.Names != m.Names {
		t.Errorf("Rewrite = %+v, %v; Scan = %+v", m2, err, m)
	}
	if s := string(out); strings.Contains(s, "debug_info") || !strings.Contains(s, "kept") {
		t.Error("custom sections: debug information goes, others stay")
	}
	if _, err := Scan(out, Rules{MayImport: anything}); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("scanning what was rewritten: %v", err)
	}
	ctx := t.Context()
	b := newBench(t, false)
	got := b.run(t, out)
	if !strings.Contains(got.err, "m.doing()") {
		t.Errorf("the trap names no function: %q", got.err)
	}
	if _, err := b.rt.Instantiate(ctx, out); err == nil {
		t.Fatal("_start returned")
	}
	code, err := b.rt.CompileModule(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	inst, err := b.rt.InstantiateModule(ctx, code, plainConfig())
	if err != nil {
		t.Fatal(err)
	}
	g, ok := inst.ExportedGlobal(GlobalPrefix + "0").(api.MutableGlobal)
	if !ok || g.Get() != 42 || inst.ExportedGlobal(GlobalPrefix+"1") != nil {
		t.Error("the mutable global is exported, the other isn't")
	}
	if _, err := inst.ExportedFunction(Start).Call(ctx); err != nil || g.Get() != 43 {
		t.Errorf("start: %v; the global is %d, want 43", err, g.Get())
	}
}

func TestRewriteRefusesWhatScanDoes(t *testing.T) {
	for what, b := range bombs() {
		if _, _, err := Rewrite(b.wasm, Rules{}); err == nil || !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := Rewrite([]byte(component), Rules{}); err != ErrComponent {
		t.Error(err)
	}
}
