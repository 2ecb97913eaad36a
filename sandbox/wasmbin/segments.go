package wasmbin

// elementSection reads what fills tables. A flag's bits say: 1 not active, 2 table
// or kind given, 4 expressions instead of function indices.
func (s *scan) elementSection() {
	n := s.count("element segments", maxElements, 3)
	for i := 0; i < n && s.err == nil; i++ {
		s.element()
	}
	s.elems = n
}

func (s *scan) element() {
	start := s.at
	flag := s.u32()
	if flag > 7 {
		s.fail(start, "element segment of kind %d does not exist", flag)
		return
	}
	if flag&1 == 0 {
		if flag&2 != 0 {
			s.index("table", len(s.tables))
		} else if len(s.tables) == 0 {
			s.fail(start, "element segment, but the module has no table")
		}
		s.constExpr()
	}
	switch {
	case flag&3 == 0:
	case flag&4 != 0:
		s.refType("element type")
	default:
		if k := s.u8(); k != 0 {
			s.fail(s.at-1, "element kind %d does not exist", k)
		}
	}
	s.elementEntries(flag&4 != 0)
}

func (s *scan) elementEntries(exprs bool) {
	// The compiler keeps some 40 bytes for each.
	n := s.count("entries", maxEntries-s.entries, 1)
	s.entries += n
	for i := 0; i < n && s.err == nil; i++ {
		if exprs {
			s.constExpr()
		} else {
			s.index("function", len(s.funcs))
		}
	}
}

func (s *scan) dataCountSection() {
	s.datas = s.count("data segments", maxDatas, 0)
	s.counted = true
}

func (s *scan) dataSection() {
	n := s.count("data segments", maxDatas, 2)
	for i := 0; i < n && s.err == nil; i++ {
		start := s.at
		flag := s.u32()
		switch flag {
		case 0, 2:
			if !s.memory {
				s.fail(start, "data segment, but the module has no memory")
			}
			if flag == 2 {
				s.memoryIndex()
			}
			s.constExpr()
		case 1:
		default:
			s.fail(start, "data segment of kind %d does not exist", flag)
		}
		size := s.u32()
		s.bytes(size, "data segment")
		s.notes.data(size)
		s.mod.Data += int(size)
	}
	s.segments = n
}

// customSection skips it, but for the names of functions and locals: compilers
// read those, and trust their counts.
func (s *scan) customSection() {
	start := s.at
	if s.customs++; s.customs > maxCustoms {
		s.fail(start, "more than %d custom sections", maxCustoms)
	}
	if s.name("custom section") != "name" || s.err != nil {
		s.bytes(uint32(s.left()), "custom section")
		return
	}
	if s.mod.Names {
		s.fail(start, "a second name section")
	}
	s.mod.Names = true
	for s.err == nil && s.left() > 0 {
		s.subsection()
	}
}

func (s *scan) subsection() {
	id := s.u8()
	end := s.open(s.u32(), "subsection")
	switch id {
	case 0:
		s.nameBytes()
	case 1:
		s.nameMap(maxFunctions)
	case 2:
		n := s.count("functions with local names", maxFunctions, 2)
		for i := 0; i < n && s.err == nil; i++ {
			s.u32()
			s.localNames += s.nameMap(maxLocalNames - s.localNames)
		}
	default:
		s.bytes(uint32(s.left()), "subsection")
	}
	s.close(end, "subsection")
}

func (s *scan) nameMap(most int) int {
	n := s.count("names", most, 2)
	for i := 0; i < n && s.err == nil; i++ {
		s.u32()
		s.nameBytes()
	}
	return n
}

func (s *scan) nameBytes() { s.bytes(s.u32(), "name") }
