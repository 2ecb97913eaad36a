package wasmbin

// body is the state of the function body being read. Its slices are used again for
// the next.
type body struct {
	used    [costs]int
	frames  []frame
	targets []uint32
	height  int // of the operand stack
	joined  int // blocks behind which paths meet
	loops   int
}

// A frame is an open block.
type frame struct {
	code            byte
	params, results uint16
	branches        int32 // to its label
	base            int32 // height of the stack below its parameters
}

func (s *scan) codeSection() {
	s.mod.Code = s.left()
	start := s.at
	n := int64(s.u32())
	if n != int64(s.mod.Functions) {
		s.fail(start, "%d function bodies for %d functions that are declared", n, s.mod.Functions)
	}
	for i := 0; i < s.mod.Functions && s.err == nil; i++ {
		start := s.at
		size := s.u32()
		if size > maxBody {
			s.fail(start, "function body of %d bytes; at most %d are accepted", size, maxBody)
		}
		end := s.open(size, "function body")
		s.notes.body(s.at, s.end)
		s.function(s.types[s.funcs[len(s.mod.Imports)+i]])
		s.notes.ended(s)
		s.close(end, "function body")
	}
	s.bodies = s.mod.Functions
}

func (s *scan) function(sig signature) {
	s.used = [costs]int{}
	s.height, s.joined, s.loops = 0, 0, 0
	s.localGroups(int(sig.params))
	s.frames = append(s.frames[:0], frame{code: opBlock, results: sig.results})
	for s.err == nil && len(s.frames) > 0 {
		in := s.instr()
		if s.err == nil {
			s.step(in)
		}
	}
}

func (s *scan) localGroups(params int) {
	s.spend(locals, params)
	n := s.count("groups of locals", budgets[locals].function, 2)
	for i := 0; i < n && s.err == nil; i++ {
		s.spend(locals, s.count("locals", budgets[locals].function, 0))
		s.valueType()
	}
}

// step follows one instruction. Operands aren't typed, and in code that is never
// reached their number is a guess: it counts only as a cost.
func (s *scan) step(in instr) {
	s.notes.instr(in, len(s.mod.Imports), s.height)
	s.height = max(s.height+in.grow, 0)
	switch in.code {
	case opBlock, opLoop, opIf:
		s.push(in)
	case opElse:
		s.otherwise(in)
	case opEnd:
		s.pop()
	case opBr, opBrIf, opBrTable:
		s.branch(in)
	case opReturn, opUnreachable:
		s.height = int(s.top().base)
	case opCall:
		s.call(s.types[s.funcs[in.x]])
	case opIndirect:
		s.call(s.types[in.x])
	case opTableGrow:
		s.tableGrow(in)
	}
}

func (s *scan) top() *frame { return &s.frames[len(s.frames)-1] }

func (s *scan) push(in instr) {
	f := frame{code: byte(in.code)}
	switch {
	case in.block == oneType:
		f.results = 1
	case in.block >= 0:
		f.params, f.results = s.types[in.block].params, s.types[in.block].results
	}
	f.base = int32(max(0, s.height-int(f.params)))
	if len(s.frames) > maxNesting {
		s.fail(in.at, "blocks nested deeper than %d", maxNesting)
	}
	s.frames = append(s.frames, f)
	s.spend(arity, int(f.params)+int(f.results))
	s.spend(depth, len(s.frames))
	if in.code == opLoop {
		s.spendSquare(loops, s.loops)
		s.loops++
	}
	s.join()
}

func (s *scan) otherwise(in instr) {
	f := s.top()
	if f.code != opIf {
		s.fail(in.at, "else without an if")
	}
	f.code = opElse
	s.height = int(f.base) + int(f.params)
	s.join()
}

func (s *scan) join() {
	s.spend(live, s.used[locals]+s.height)
}

func (s *scan) pop() {
	f := *s.top()
	s.frames = s.frames[:len(s.frames)-1]
	s.height = int(f.base) + int(f.results)
	if f.branches > 0 || f.code != opBlock {
		s.spendSquare(joined, s.joined)
		s.joined++
	}
}

func (s *scan) branch(in instr) {
	if in.code != opBrTable {
		s.branchTo(in.x)
	}
	s.spend(targets, len(in.targets))
	for _, x := range in.targets {
		if s.err != nil {
			return
		}
		s.branchTo(x)
	}
	if in.code != opBrIf {
		s.height = int(s.top().base)
	}
}

func (s *scan) branchTo(label uint32) {
	f := &s.frames[len(s.frames)-1-int(label)]
	s.spendSquare(fanIn, int(f.branches))
	f.branches++
	if f.code == opLoop {
		s.spend(arity, int(f.params))
	} else {
		s.spend(arity, int(f.results))
	}
}

func (s *scan) call(t signature) {
	s.spend(arity, int(t.params)+int(t.results))
	s.spend(spills, s.used[locals]+s.height)
	s.height = max(0, s.height-int(t.params)) + int(t.results)
}

func (s *scan) tableGrow(in instr) {
	if t := s.tables[in.x]; !t.bounded || t.max > s.rules.TableEntries {
		s.fail(in.at, "grows table %d, which has no maximum of at most %d entries; declare one", in.x, s.rules.TableEntries)
	}
}
