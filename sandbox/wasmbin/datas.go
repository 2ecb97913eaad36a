package wasmbin

// Engines evaluate an expression for each data segment of each instance, and compilers
// write thousands of them to leave out the zeros between. Joined where only few zeros lie
// between, instances start in half the time and memory is the same.

// maxZeros is how many zeros are written to join two segments.
const maxZeros = 256

// newDatas joins segments that follow one another in memory, where between them nothing but the
// zeros of a new memory is overwritten. Modules that could
// name a segment, or have others than active ones at constant places, keep theirs.
func (w *rewriter) newDatas() []byte {
	p := w.notes.sections[11]
	whole := w.b[p.at:p.end]
	if w.counted {
		return whole
	}
	j := joiner{zeros: len(whole)}
	for n := w.reopen(11); n > 0 && w.err == nil; n-- {
		if w.u32() != 0 || w.u8() != 0x41 {
			return whole
		}
		at := uint32(w.signed(32))
		if w.u8() != opEnd {
			return whole
		}
		j.add(at, w.bytes(w.u32(), "data segment"))
	}
	if w.err != nil || j.n == 0 {
		return whole
	}
	return append(appendU32(nil, j.n), j.finish()...)
}

// A joiner writes segments.
type joiner struct {
	out  []byte
	n    uint32
	at   uint32 // of the segment that is being made
	data []byte

	runs  []run // the last is the one that goes on
	zeros int   // that may still be written
}

// A run is where segments lie with few zeros between, and these.
type run struct{ low, high uint64 }

// maxRuns is how many runs there may be; what follows them is not joined.
const maxRuns = 16

func (j *joiner) add(at uint32, data []byte) {
	end := uint64(j.at) + uint64(len(j.data))
	switch {
	case j.n > 0 && uint64(at) >= end && j.free(end, uint64(at)):
		j.zeros -= int(uint64(at) - end)
		j.data = append(append(j.data, make([]byte, uint64(at)-end)...), data...)
	default:
		j.flush()
		j.at, j.data = at, append(j.data[:0], data...)
		j.n++
	}
	j.note(uint64(at), uint64(at)+uint64(len(data)))
}

// free reports whether zeros may be written from end to at: few, and nothing was there.
func (j *joiner) free(end, at uint64) bool {
	if at-end > maxZeros || int(at-end) > j.zeros || len(j.runs) > maxRuns {
		return false
	}
	for _, r := range j.runs[:len(j.runs)-1] {
		if end < r.high && r.low < at {
			return false
		}
	}
	return true
}

// note extends the run that goes on, or begins one.
func (j *joiner) note(low, high uint64) {
	if n := len(j.runs); n > 0 && low >= j.runs[n-1].high && low-j.runs[n-1].high <= maxZeros {
		j.runs[n-1].high = high
	} else if n <= maxRuns {
		j.runs = append(j.runs, run{low, high})
	}
}

func (j *joiner) flush() {
	if j.n == 0 {
		return
	}
	c := asm(append(j.out, 0))
	c.i32(int32(j.at))
	c.op(opEnd)
	j.out = append(appendU32(c, uint32(len(j.data))), j.data...)
}

func (j *joiner) finish() []byte {
	j.flush()
	return j.out
}
