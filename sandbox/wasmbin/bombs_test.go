package wasmbin

import (
	"runtime"
	"strings"
	"testing"
)

type bomb struct {
	wasm []byte
	want string // in the error
}

// mix is code that reads and writes twenty of n locals.
func mix(n int) []byte {
	return each(20, func(i int) []byte {
		return cat("\x20", i%n, "\x42\x01\x7c\x21", (i*7)%n)
	})
}

// bombs are small binaries that cost a compiler seconds or gigabytes.
func bombs() map[string]bomb {
	load := "\x41\x00\x28\x02\x00"
	branchy := func(n int) []byte { return code(cat("\x01\x01\x7f\x02\x40", times(n, load, "\x0d\x00"), "\x0b\x0b")) }
	table := func(n int) []byte { return cat("\x02\x40\x41\x00\x0e", n, times(n+1, "\x00"), "\x0b") }
	return map[string]bomb{
		"4e8 exports":            {file(sec(7, 400_000_000)), "exports"},
		"2^32-1 bodies":          {file(sec(10, 1<<32-1)), "function bodies"},
		"2^32-1 types":           {file(sec(1, 1<<32-1)), "types"},
		"2^32-1 names":           {file(sec(0, name("name"), "\x01\x05", 1<<32-1)), "names"},
		"2^32-1 locals":          {code(cat("\x01", 1<<32-1, "\x7e\x0b")), "4294967295 locals"},
		"10 million locals":      {code(repeat(200, cat(i64s(49_999), "\x0b"))...), "locals in all functions"},
		"2^27 table entries":     {file(sec(4, "\x01\x70\x00", 1<<27)), "entries"},
		"16 tables of 2^20":      {file(sec(4, 16, times(16, "\x70\x00", 1<<20))), "entries"},
		"table that grows":       {codeWith(sec(4, "\x01\x70\x00\x01"), cat("\x00\xd0\x70\x41\x01\xfc\x0f\x00\x1a\x0b")), "grows table 0"},
		"2^16 pages":             {file(sec(5, "\x01\x00", 1<<16)), "pages"},
		"50,000 nested blocks":   {code(cat("\x00", times(50_000, "\x02\x40"), times(50_001, "\x0b"))), "nested deeper"},
		"20,000 at depth 4,000":  {code(cat("\x00", times(4_000, "\x02\x40"), times(20_000, "\x02\x40\x0b"), times(4_001, "\x0b"))), "levels of nesting"},
		"3,000 nested loops":     {code(cat("\x00", times(3_000, "\x03\x40"), times(3_001, "\x0b"))), "loops"},
		"3,000 loops in a row":   {code(cat("\x00", times(3_000, "\x03\x40\x0b"), "\x0b")), "loops"},
		"ifs over locals":        {code(cat(i64s(1000), times(2000, "\x20\x00\xa7\x04\x40", mix(1000), "\x0b"), "\x0b")), "values live where paths meet"},
		"loops over locals":      {code(cat(i64s(1000), times(1000, "\x03\x40", mix(1000), "\x20\x00\xa7\x0d\x00\x0b"), "\x0b")), "values live where paths meet"},
		"ifs under a high stack": {code(cat("\x01\x01\x7f", times(3000, load), times(3000, "\x20\x00\x04\x40\x0b"), times(3000, "\x1a"), "\x0b")), "values live where paths meet"},
		"calls over locals":      {code(cat(i64s(300), times(1000, mix(300), times(7, "\x10\x00")), "\x0b")), "values live at calls"},
		"20,000 ifs":             {code(cat("\x01\x01\x7f", times(20_000, load, "\x04\x40\x0b"), "\x0b")), "blocks where paths meet"},
		"60,000 targets":         {code(cat("\x00", table(60_000), "\x0b")), "targets of br_table"},
		"600 tables of targets":  {code(cat("\x00", times(600, table(100)), "\x0b")), "br_table targets"},
		"16,000 equal targets":   {code(cat("\x00", table(16_000), "\x0b")), "branches to a label"},
		"16,000 branches":        {branchy(16_000), "branches to a label"},
		"1,000 wide calls":       {wideCalls(1000, 1), "handed over"},
		"300,000 functions":      {code(repeat(300_000, []byte("\x00\x0b"))...), "functions"},
		"1 MiB in a line":        {code(cat("\x01\x01\x7e", times(150_000, "\x20\x00\x42\x03\x7e\x21\x00"), "\x0b")), "function body of"},
		"1.2 million elements":   {elements(1_200_000), "entries"},
	}
}

// TestManySmallBombs splits up what one function may not do over many.
func TestManySmallBombs(t *testing.T) {
	load := "\x41\x00\x28\x02\x00"
	table := cat("\x02\x40\x41\x00\x0e", 100, times(101, "\x00"), "\x0b")
	for what, tc := range map[cost]struct {
		functions int
		body      []byte
	}{
		locals:  {84, cat(i64s(50_000), "\x0b")},
		depth:   {9, cat("\x00", times(8_000, "\x02\x40"), times(4_000, "\x02\x40\x0b"), times(8_001, "\x0b"))},
		joined:  {9, cat("\x00", times(11_500, load, "\x04\x40\x0b"), "\x0b")},
		fanIn:   {6, cat("\x00\x02\x40", times(7_000, load, "\x0d\x00"), "\x0b\x0b")},
		loops:   {68, cat("\x00", times(1_000, "\x03\x40\x0b"), "\x0b")},
		live:    {34, cat(i64s(500), times(1_000, "\x02\x40\x0b"), "\x0b")},
		spills:  {68, cat(i64s(500), times(1_000, "\x10\x00"), "\x0b")},
		targets: {66, cat("\x00", times(320, table), "\x0b")},
	} {
		b := &budgets[what]
		t.Run(b.what, func(t *testing.T) {
			if _, err := Scan(code(tc.body), Rules{}); err != nil {
				t.Errorf("one function: %v", err)
			}
			_, err := Scan(code(repeat(tc.functions, tc.body)...), Rules{})
			if err == nil || !strings.Contains(err.Error(), b.what+" in all functions together") {
				t.Errorf("%d functions: %v", tc.functions, err)
			}
		})
	}
}

func TestManyWideCalls(t *testing.T) {
	refused(t, wideCalls(30, 1), "")
	refused(t, wideCalls(30, 72), budgets[arity].what+" in all functions together")
}

func repeat(n int, body []byte) [][]byte {
	l := make([][]byte, n)
	for i := range l {
		l[i] = body
	}
	return l
}

// elements fills a table of one entry with n.
func elements(n int) []byte {
	return file(sec(1, "\x01\x60\x00\x00"), sec(3, "\x01\x00"), sec(4, "\x01\x70\x00\x01"),
		sec(9, "\x01\x00\x41\x00\x0b", n, times(n, "\x00")), sec(10, "\x01\x02\x00\x0b"))
}

// wideCalls is n functions of 1,000 parameters and results that call the first so
// many times.
func wideCalls(calls, n int) []byte {
	i32s := cat(1000, times(1000, "\x7f"))
	body := cat("\x00", each(1000, func(i int) []byte { return cat("\x20", i) }), times(calls, "\x10\x00"), "\x0b")
	return file(sec(1, "\x01\x60", i32s, i32s), sec(3, n, times(n, "\x00")), sec(10, n, times(n, len(body), body)))
}

func TestBombsAreRefused(t *testing.T) {
	for name, b := range bombs() {
		t.Run(name, func(t *testing.T) {
			var err error
			n := allocated(func() { _, err = Scan(b.wasm, Rules{}) })
			if err == nil || !strings.Contains(err.Error(), b.want) {
				t.Errorf("Scan = %v; want an error with %q", err, b.want)
			}
			if most := uint64(1<<20 + 4*len(b.wasm)); n > most {
				t.Errorf("scanning %d bytes allocated %d; at most %d expected", len(b.wasm), n, most)
			}
		})
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkBomb(b *testing.B) {
	for name, m := range bombs() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var err error
			for b.Loop() {
				_, err = Scan(m.wasm, Rules{})
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/op")
			b.Logf("%d bytes: %v", len(m.wasm), err)
		})
	}
}
