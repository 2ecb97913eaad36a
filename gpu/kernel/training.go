package kernel

// conv2dForm returns what the operands of conv2d cover: its result, images and filters.
func conv2dForm(c *Command, f *form) (out, in, filters need, err string) {
	d := *c
	d.C = Operand{}
	if err := conv2d(&d, f); err != "" {
		return out, in, filters, err
	}
	out, in, filters = f.ops[0], f.ops[1], f.ops[2]
	out.writes = false
	return out, in, filters, ""
}

func conv2dBackData(c *Command, f *form) string {
	out, in, filters, err := conv2dForm(c, f)
	f.ops = [4]need{writes(in.words), out, filters}
	return err
}

func conv2dBackFilter(c *Command, f *form) string {
	out, in, filters, err := conv2dForm(c, f)
	f.ops = [4]need{writes(filters.words), in, out}
	return err
}

func normBack(c *Command, f *form) string {
	more := uint64(1)
	if c.Op == LayerNormBack {
		more = 2
	}
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(prod(sum(u(c.M), more), u(c.N))), reads(n), reads(u(c.N)).when(c.B != Operand{}), reads(n)}
	f.flop = prod(12, n)
	return ""
}

func softmaxBack(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), reads(n)}
	f.flop = prod(4, n)
	return ""
}

func xent(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(u(c.M)), reads(n), reads(u(c.M)).as(I32)}
	f.flop = prod(exponential+4, n)
	return ""
}

func xentBack(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), reads(u(c.M)).as(I32)}
	f.flop = prod(exponential+5, n)
	return ""
}

func unaryBack(c *Command, f *form) string {
	if c.Params[0] == 0 || c.Params[0] > GELUOf {
		return "Params[0] names no function with a derivative here"
	}
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), reads(n)}
	f.flop = prod(exponential+2, n)
	return ""
}

func swigluBack(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(prod(2, n)), reads(n), reads(n), reads(n)}
	f.flop = prod(exponential+8, n)
	return ""
}

func getRowsBack(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(prod(u(c.K), u(c.N))), reads(n), reads(u(c.M)).as(I32)}
	f.flop, f.moved = n, prod(4, sum(prod(3, n), u(c.M)))
	return ""
}

func attentionBack(c *Command, f *form) string {
	if err := attention(c, f); err != "" {
		return err
	}
	q, cache := f.ops[0].words, f.ops[2].words
	all := sum(q, prod(2, cache))
	seen := f.flop / sum(prod(4, u(c.K)), exponential) // saturated only where no buffer is as large
	f.ops = [4]need{writes(all), reads(all), reads(q)}
	f.flop = prod(seen, sum(prod(10, u(c.K)), exponential+4))
	return ""
}

func sgd(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), {}, writes(n).when(c.C != Operand{})}
	f.flop = prod(6, n)
	f.moved = prod(4, sum(prod(3, n), prod(2, f.ops[3].words)))
	return ""
}

func adamw(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), {}, writes(prod(2, n))}
	f.flop, f.moved = prod(20, n), prod(28, n)
	return ""
}

func clipNorm(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), reads(1)}
	f.flop = n
	return ""
}
