package wasmbin

// Caps beyond those of Rules. Go's own compiler, built for Wasm, is the largest
// program they were fitted to.
const (
	maxTypes      = 1 << 16
	maxTypeValues = 1 << 18 // parameters and results of all types
	maxArity      = 1000
	maxImports    = 1 << 12
	maxFunctions  = 1 << 18
	maxTables     = 16
	maxGlobals    = 1 << 16
	maxExports    = 1 << 14
	maxElements   = 1 << 16
	maxEntries    = 1 << 20 // of all element segments
	maxDatas      = 1 << 17
	maxCustoms    = 1 << 10
	maxName       = 1 << 14 // bytes of a name that is imported or exported
	maxLocalNames = 1 << 20
	maxTargets    = 1 << 14 // of one br_table
	maxNesting    = 1 << 13
	maxBody       = 1 << 20 // bytes of one function
)

// A cost is something that compiling a function takes time or memory for, and that
// a few bytes of code can make much of.
type cost int

const (
	locals  cost = iota
	depth        // of every block, added up
	joined       // blocks that paths meet behind, squared
	fanIn        // branches to a label, squared, added up
	loops        // squared
	live         // values that may be live where paths meet
	spills       // values that may be live at calls
	targets      // of br_table
	arity        // values that calls, blocks and branches hand over
	costs
)

// budgets are what a function and a whole module may cost. At the end of one of
// them a function takes a compiler up to 5 s and 700 MB, a module up to 40 s. The
// most that was seen in real programs stands behind each.
var budgets = [costs]struct {
	what             string
	function, module int
}{
	locals:  {"locals", 50_000, 1 << 22},                                            // 168, 111 thousand
	depth:   {"levels of nesting, added up over its blocks", 1 << 26, 1 << 29},      // 36 million, 211 million
	joined:  {"blocks where paths meet, squared", 1 << 27, 1 << 30},                 // 93 million, 577 million
	fanIn:   {"branches to a label, squared and added up", 3 << 24, 1 << 28},        // 27 million, 114 million
	loops:   {"loops, squared", 1 << 20, 1 << 26},                                   // 4 thousand, 25 thousand
	live:    {"values live where paths meet, added up over them", 1 << 19, 1 << 24}, // 59 thousand, 8 million
	spills:  {"values live at calls, added up over them", 1 << 19, 1 << 25},         // 47 thousand, 3 million
	targets: {"br_table targets", 1 << 15, 1 << 21},                                 // 12 thousand, 1 million
	arity:   {"values handed over by calls and blocks", 1 << 16, 1 << 22},           // 11 thousand, 517 thousand
}

// spend charges n to the function that is being read, and to its module.
func (s *scan) spend(c cost, n int) {
	s.used[c] += n
	s.total[c] += n
	switch b := &budgets[c]; {
	case s.used[c] > b.function:
		s.fail(s.at, "more than %d %s in one function; split it up", b.function, b.what)
	case s.total[c] > b.module:
		s.fail(s.at, "more than %d %s in all functions together", b.module, b.what)
	}
}

// spendSquare charges what the square of a number grows by when the number itself
// grows from n to n+1.
func (s *scan) spendSquare(c cost, n int) { s.spend(c, 2*n+1) }
