package kernel

import "fmt"

// A form is what a command asks for, filled in by its kernel's shape function.
type form struct {
	ops   [4]need // Dst, A, B, C
	flop  uint64
	moved uint64 // bytes; zero stands for all that ops cover

	fixed func(Buffer) bool // buffers that must not be written; nil is none
}

// A need is what an operand must cover; none when words is zero.
type need struct {
	words  uint64
	typ    DType
	writes bool
}

func reads(words uint64) need  { return need{words: words} }
func writes(words uint64) need { return need{words: words, writes: true} }

// elements returns the words that n elements fill, rounded up.
func elements(n uint64, t DType) uint64 { return add(mul(n, u(uint32(t.bytes()))), 3) / 4 }

// as says that the operand is not F32.
func (n need) as(t DType) need { n.typ = t; return n }

// when keeps the need only if used.
func (n need) when(used bool) need {
	if !used {
		return need{}
	}
	return n
}

var operandName = [...]string{"Dst", "A", "B", "C"}

// Check refuses c unless it is what Table says of its kernel and every operand lies
// inside its buffer, and returns what it costs. size returns a buffer's length in
// bytes, zero for a handle the caller does not own. Backends are given only checked
// commands.
func Check(c *Command, size func(Buffer) uint64) (Cost, error) {
	return new(form).check(c, size)
}

func (f *form) check(c *Command, size func(Buffer) uint64) (Cost, error) {
	spec := Find(c.Op)
	if spec == nil {
		return Cost{}, fmt.Errorf("%w: no kernel has number %d", ErrCommand, c.Op)
	}
	if c.Stream != 0 {
		return Cost{}, refuse(spec, "stream %d: there is only stream 0", c.Stream)
	}
	if err := spec.fields(c); err != nil {
		return Cost{}, err
	}
	*f = form{fixed: f.fixed}
	if err := spec.shape(c, f); err != "" {
		return Cost{}, refuse(spec, "%s", err)
	}
	if err := f.inside(spec, c, size); err != nil {
		return Cost{}, err
	}
	if err := f.apart(spec, c); err != nil {
		return Cost{}, err
	}
	return f.cost(), nil
}

// CheckList checks a list of commands and returns what it costs together, and for how
// many picoseconds it would keep ref busy: each command by the longer of computing and
// moving. It refuses an empty list and one that is too long or too costly for one
// launch (MaxCommands, MaxFLOP, MaxBytes).
func CheckList(cmds []Command, size func(Buffer) uint64, ref Reference) (total Cost, picos uint64, err error) {
	return CheckFixed(cmds, size, nil, ref)
}

// CheckFixed is CheckList where some buffers must not be written.
func CheckFixed(cmds []Command, size func(Buffer) uint64, fixed func(Buffer) bool, ref Reference) (total Cost, picos uint64, err error) {
	if len(cmds) == 0 || len(cmds) > MaxCommands {
		return Cost{}, 0, fmt.Errorf("%w: a list has 1 to %d commands, not %d", ErrCommand, MaxCommands, len(cmds))
	}
	f := &form{fixed: fixed} // one for all
	for i := range cmds {
		cost, err := f.check(&cmds[i], size)
		if err != nil {
			return Cost{}, 0, fmt.Errorf("command %d: %w", i, err)
		}
		total = total.Add(cost)
		picos = add(picos, ref.Picoseconds(cost))
	}
	if total.FLOP > MaxFLOP || total.Bytes > MaxBytes {
		return Cost{}, 0, fmt.Errorf("%w: one list may cost %d FLOP and %d bytes, not %d and %d: submit it in parts",
			ErrCommand, uint64(MaxFLOP), uint64(MaxBytes), total.FLOP, total.Bytes)
	}
	return total, picos, nil
}

func refuse(s *Spec, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrCommand, s.Name, fmt.Sprintf(format, args...))
}

// fields refuses what the kernel does not use, so that a later version may give it a
// meaning, and sizes of zero.
func (s *Spec) fields(c *Command) error {
	if c.Flags&^s.flags != 0 {
		return refuse(s, "unknown flags %#x", c.Flags&^s.flags)
	}
	for i, v := range [...]uint32{c.M, c.N, c.K, c.L} {
		name := "MNKL"[i]
		switch s.dims[i] {
		case '-':
			if v != 0 {
				return refuse(s, "%c is not used and must be 0", name)
			}
		case name:
			if v == 0 {
				return refuse(s, "%c must not be 0", name)
			}
		}
	}
	for i, v := range c.Params[s.params:] {
		if v != 0 {
			return refuse(s, "Params[%d] is not used and must be 0", int(s.params)+i)
		}
	}
	return nil
}

// inside checks each operand against its buffer.
func (f *form) inside(s *Spec, c *Command, size func(Buffer) uint64) error {
	for i, o := range c.operands() {
		n, name := f.ops[i], operandName[i]
		if n.words == 0 {
			if *o != (Operand{}) {
				return refuse(s, "%s is not used and must be zero", name)
			}
			continue
		}
		if o.Type != n.typ {
			return refuse(s, "%s has type %d and must have %d", name, o.Type, n.typ)
		}
		if o.Offset%4 != 0 {
			return refuse(s, "%s starts at byte %d, which is not a multiple of 4", name, o.Offset)
		}
		have, want := size(o.Buffer), mul(4, n.words)
		if o.Buffer == 0 || o.Offset > have || have-o.Offset < want {
			return refuse(s, "%s needs %d bytes at %d, buffer %d has %d", name, want, o.Offset, o.Buffer, have)
		}
		if n.writes && f.fixed != nil && f.fixed(o.Buffer) {
			return refuse(s, "%s is written, and buffer %d holds an input, which is read only", name, o.Buffer)
		}
	}
	return nil
}

// apart refuses an output that lies over another operand. Kernels that work element
// by element may write exactly where they read.
func (f *form) apart(s *Spec, c *Command) error {
	ops := c.operands()
	for i := range ops {
		w := &f.ops[i]
		if !w.writes {
			continue
		}
		for j := range ops {
			o := &f.ops[j]
			if i == j || o.words == 0 || ops[i].Buffer != ops[j].Buffer {
				continue
			}
			if s.inPlace && !o.writes && ops[i].Offset == ops[j].Offset && w.words == o.words {
				continue
			}
			if ops[i].Offset < ops[j].Offset+4*o.words && ops[j].Offset < ops[i].Offset+4*w.words {
				return refuse(s, "%s overlaps %s", operandName[i], operandName[j])
			}
		}
	}
	return nil
}

func (f *form) cost() Cost {
	if f.moved != 0 {
		return Cost{f.flop, f.moved}
	}
	var words uint64
	for i := range f.ops {
		words = add(words, f.ops[i].words)
	}
	return Cost{f.flop, mul(4, words)}
}

func (c *Command) operands() [4]*Operand { return [4]*Operand{&c.Dst, &c.A, &c.B, &c.C} }
