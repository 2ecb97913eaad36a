package wasmbin

import (
	"strings"
	"unicode/utf8"
)

// A scan walks one binary from front to back, once.
type scan struct {
	reader
	rules Rules
	mod   Module

	types      []signature
	typeValues int      // parameters and results of all types
	funcs      []uint32 // type of each function, imports first
	tables     []limits
	memory     bool
	globals    int
	elems      int  // element segments
	entries    int  // of them all
	counted    bool // there is a data count section,
	datas      int  // and this is what it says
	bodies     int
	segments   int // of data
	customs    int // custom sections
	localNames int

	total [costs]int
	body
	notes *notes // for a rewriter; nil without one
}

// A signature is how many values a function takes and gives; its types stand in
// the binary at at, those of the results behind the count of results.
type signature struct {
	params, results     uint16
	paramsAt, resultsAt uint32
}

// limits are a table's or memory's; max is no smaller than min.
type limits struct {
	min, max uint32
	bounded  bool
}

type section struct {
	name string
	rank int // 0 may stand anywhere
	read func(*scan)
}

// sections by number. Data count and tag stand elsewhere than their numbers say.
var sections = [...]section{
	{"custom", 0, (*scan).customSection},
	{"type", 1, (*scan).typeSection},
	{"import", 2, (*scan).importSection},
	{"function", 3, (*scan).functionSection},
	{"table", 4, (*scan).tableSection},
	{"memory", 5, (*scan).memorySection},
	{"global", 7, (*scan).globalSection},
	{"export", 8, (*scan).exportSection},
	{"start", 9, (*scan).startSection},
	{"element", 10, (*scan).elementSection},
	{"code", 12, (*scan).codeSection},
	{"data", 13, (*scan).dataSection},
	{"data count", 11, (*scan).dataCountSection},
	{"tag", 6, (*scan).tagSection},
}

func (s *scan) module() {
	s.mod.Size, s.mod.MaxMemory = len(s.b), MaxPages
	var last section
	for s.err == nil && s.left() > 0 {
		s.section = "file"
		start := s.at
		id := s.u8()
		if int(id) >= len(sections) {
			s.fail(start, "section number %d does not exist", id)
			return
		}
		sec := sections[id]
		s.section = sec.name
		end := s.open(s.u32(), "section")
		if sec.rank != 0 && sec.rank <= last.rank {
			s.fail(start, "stands after the %s section", last.name)
		}
		if sec.rank != 0 {
			last = sec
		}
		if s.err == nil {
			s.notes.section(int(id), s.at, s.end)
			sec.read(s)
		}
		s.close(end, "section")
	}
	s.finish()
}

// finish checks what only the whole module shows.
func (s *scan) finish() {
	s.section = "file"
	if n := s.mod.Functions; n != s.bodies {
		s.fail(s.at, "%d functions are declared, %d have code; the file may be truncated", n, s.bodies)
	}
	if s.counted && s.datas != s.segments {
		s.fail(s.at, "%d data segments are announced, %d are there; the file may be truncated", s.datas, s.segments)
	}
}

func (s *scan) typeSection() {
	n := s.count("types", maxTypes, 3)
	for i := 0; i < n && s.err == nil; i++ {
		s.functionType()
	}
}

func (s *scan) functionType() {
	start := s.at
	switch c := s.u8(); {
	case c == 0x4e || c == 0x4f || c == 0x50 || c == 0x5e || c == 0x5f:
		s.fail(start, "type form %#02x is of the proposal garbage collection, which nodes do not run", c)
	case c != 0x60:
		s.fail(start, "type form %#02x does not exist", c)
	}
	params := s.valueTypes("parameters")
	paramsAt := s.at - params
	results := s.valueTypes("results")
	s.types = append(s.types, signature{uint16(params), uint16(results), uint32(paramsAt), uint32(s.at - results)})
	if s.typeValues += params + results; s.typeValues > maxTypeValues {
		s.fail(start, "types of more than %d parameters and results together", maxTypeValues)
	}
}

func (s *scan) valueTypes(what string) int {
	n := s.count(what, maxArity, 1)
	for i := 0; i < n && s.err == nil; i++ {
		s.valueType()
	}
	return n
}

func (s *scan) importSection() {
	n := s.count("imports", maxImports, 4)
	for i := 0; i < n && s.err == nil; i++ {
		start := s.at
		from, name := s.name("import"), s.name("import")
		switch kind := s.u8(); {
		case s.err != nil:
		case kind == 4:
			s.fail(start, "imports the tag %s.%s: nodes do not run the proposal exception handling; build without it", from, name)
		case kind != 0:
			s.fail(start, "imports %s.%s, which is no function; a module brings its own memory, tables and globals", from, name)
		default:
			s.importFunction(start, from, name)
		}
	}
}

func (s *scan) importFunction(start int, from, name string) {
	x := s.index("type", len(s.types))
	if s.err != nil {
		return
	}
	t := s.types[x]
	params := s.b[t.paramsAt:][:t.params]
	results := s.b[t.resultsAt:][:t.results]
	switch {
	case strings.HasPrefix(from, Reserved):
		s.fail(start, "imports %s.%s: names that begin with %s are reserved for nodes", from, name, Reserved)
	case !s.rules.MayImport(from, name, params, results):
		s.fail(start, "imports function %s.%s %s, which no node offers", from, name, wat(params, results))
	}
	s.mod.Imports = append(s.mod.Imports, Import{from, name})
	s.funcs = append(s.funcs, x)
}

// wat writes a signature as Wasm text does.
func wat(params, results []byte) string {
	names := map[byte]string{0x7f: "i32", 0x7e: "i64", 0x7d: "f32", 0x7c: "f64", 0x7b: "v128", 0x70: "funcref", 0x6f: "externref"}
	list := func(types []byte) string {
		var l []string
		for _, t := range types[:min(len(types), 16)] {
			l = append(l, names[t])
		}
		if len(types) > 16 {
			l = append(l, "…")
		}
		return "(" + strings.Join(l, ", ") + ")"
	}
	return list(params) + " → " + list(results)
}

// name reads a string that error messages may quote.
func (s *scan) name(what string) string {
	start := s.at
	n := s.u32()
	if n > maxName {
		s.fail(start, "name of %d bytes; at most %d are accepted", n, maxName)
	}
	b := s.bytes(n, what+" name")
	if !utf8.Valid(b) {
		s.fail(start, "%s name is not UTF-8", what)
	}
	return string(b)
}

func (s *scan) functionSection() {
	n := s.count("functions", maxFunctions, 1)
	for i := 0; i < n && s.err == nil; i++ {
		s.funcs = append(s.funcs, s.index("type", len(s.types)))
	}
	s.mod.Functions = n
}

func (s *scan) tableSection() {
	n := s.count("tables", maxTables, 3)
	total := uint64(0)
	for i := 0; i < n && s.err == nil; i++ {
		start := s.at
		if s.left() > 0 && s.b[start] == 0x40 {
			s.fail(start, "table with an initial value: nodes do not run the proposal typed function references")
		}
		s.refType("table type")
		l := s.limits("table", 1<<32-1)
		if total += uint64(l.min); total > uint64(s.rules.TableEntries) {
			s.fail(start, "tables of %d entries; at most %d are accepted", total, s.rules.TableEntries)
		}
		s.tables = append(s.tables, l)
	}
}

func (s *scan) memorySection() {
	start := s.at
	n := s.count("memories", s.left(), 2)
	if n > 1 {
		s.fail(start, "%d memories: nodes do not run the proposal multi-memory; build with one memory", n)
	}
	if n != 1 || s.err != nil {
		return
	}
	l := s.limits("memory", MaxPages)
	if l.min > s.rules.MemoryPages {
		s.fail(start, "memory of %d pages of 64 KiB at the start; at most %d are accepted", l.min, s.rules.MemoryPages)
	}
	s.memory = true
	s.mod.Memory, s.mod.MaxMemory = l.min, l.max
}

func (s *scan) limits(what string, most uint32) limits {
	start := s.at
	flag := s.u8()
	switch {
	case flag == 2 || flag == 3:
		s.fail(start, "shared %s: nodes do not run the proposal threads; build without it", what)
	case flag >= 4 && flag <= 7:
		s.fail(start, "%s with 64-bit indices: nodes do not run the proposal memory64; build for wasm32", what)
	case flag > 7:
		s.fail(start, "%s of kind %#02x does not exist", what, flag)
	}
	l := limits{min: s.u32(), max: most}
	if flag == 1 {
		l.max, l.bounded = s.u32(), true
	}
	if l.max > most || l.min > l.max {
		s.fail(start, "%s of %d to %d", what, l.min, l.max)
	}
	return l
}

func (s *scan) globalSection() {
	n := s.count("globals", maxGlobals, 4)
	for i := 0; i < n && s.err == nil; i++ {
		s.valueType()
		m := s.u8()
		if m > 1 {
			s.fail(s.at-1, "mutability %d", m)
		}
		s.notes.global(m == 1)
		s.constExpr()
		s.globals++
	}
}

// constExpr reads an initial value: one constant instruction and the end.
func (s *scan) constExpr() {
	start := s.at
	in := s.instr()
	switch in.code {
	case 0x41, 0x42, 0x43, 0x44, opGlobalGet, opRefNull, opRefFunc, opVectorConst:
	default:
		s.fail(start, "instruction %#02x in an initial value", in.code)
	}
	at := s.at
	switch c := s.u8(); {
	case c >= 0x41 && c <= 0x44 || c >= 0x6a && c <= 0x6c || c >= 0x7c && c <= 0x7e || c == opGlobalGet:
		s.fail(at, "initial value that is computed: nodes do not run the proposal extended constant expressions")
	case c != opEnd:
		s.fail(at, "initial value without an end")
	}
}

func (s *scan) exportSection() {
	n := s.count("exports", maxExports, 3)
	for i := 0; i < n && s.err == nil; i++ {
		start := s.at
		name := s.name("export")
		if strings.HasPrefix(name, Reserved) {
			s.fail(start, "exports %s: names that begin with %s are reserved for nodes", name, Reserved)
		}
		s.export(start, Export{name, Kind(s.u8())})
	}
	s.uniqueExports()
}

func (s *scan) export(start int, e Export) {
	switch e.Kind {
	case Function:
		s.index("function", len(s.funcs))
		s.mod.Command = s.mod.Command || e.Name == "_start"
		s.mod.Reactor = s.mod.Reactor || e.Name == "step"
		s.mod.Initialize = s.mod.Initialize || e.Name == "_initialize"
	case Table:
		s.index("table", len(s.tables))
	case Memory:
		memories := 0
		if s.memory {
			memories = 1
		}
		s.index("memory", memories)
	case Global:
		s.index("global", s.globals)
	case 4:
		s.fail(start, "exports the tag %s: nodes do not run the proposal exception handling; build without it", e.Name)
	default:
		s.fail(start, "export of kind %d does not exist", e.Kind)
	}
	s.mod.Exports = append(s.mod.Exports, e)
}

func (s *scan) uniqueExports() {
	seen := make(map[string]bool, len(s.mod.Exports))
	for _, e := range s.mod.Exports {
		if seen[e.Name] {
			s.fail(s.at, "exports %s twice", e.Name)
			return
		}
		seen[e.Name] = true
	}
}

func (s *scan) startSection() { s.notes.startAt(s.index("function", len(s.funcs))) }

func (s *scan) tagSection() {
	s.fail(s.at, "nodes do not run the proposal exception handling; build without it")
}
