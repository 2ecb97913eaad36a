package kernel

func unary(c *Command, f *form) string {
	if c.Params[0] == 0 || c.Params[0] >= functions {
		return "Params[0] names no function"
	}
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n)}
	f.flop = prod(exponential, n)
	return ""
}

func binaryShape(c *Command, f *form) string {
	if c.Params[0] == 0 || c.Params[0] >= pairings {
		return "Params[0] names no function"
	}
	dims := [4]uint32{c.M, c.N, c.K, c.L}
	span := func(strides []uint32) uint64 {
		n := uint64(1)
		for i, d := range dims {
			n = sum(n, prod(u(d)-1, u(strides[i])))
		}
		return n
	}
	n := prod(u(c.M), u(c.N), u(c.K), u(c.L))
	f.ops = [4]need{writes(n), reads(span(c.Params[1:5])), reads(span(c.Params[5:9]))}
	f.flop = n
	return ""
}

func reduce(c *Command, f *form) string {
	if c.Params[0] == 0 || c.Params[0] > SquaresOf {
		return "Params[0] names no function"
	}
	n := prod(u(c.M), u(c.N), u(c.K))
	f.ops = [4]need{writes(prod(u(c.M), u(c.K))), reads(n)}
	f.flop = n
	return ""
}

func transpose(c *Command, f *form) string {
	seen, axes := 0, c.Params[0]
	for i := range 4 {
		seen |= 1 << (axes >> (4 * i) & 15)
	}
	if seen != 15 || axes>>16 != 0 {
		return "Params[0] does not name each axis once"
	}
	n, t := prod(u(c.M), u(c.N), u(c.K), u(c.L)), word(c.Dst.Type)
	f.ops = [4]need{writes(n).as(t), reads(n).as(t)}
	return ""
}

func cast(c *Command, f *form) string {
	to, from := c.Dst.Type, c.A.Type
	if to.bytes() == 0 || from.bytes() == 0 {
		return "both are to be F32, BF16, I8 or I32"
	}
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(elements(n, to)).as(to), reads(elements(n, from)).as(from)}
	return ""
}

func random(c *Command, f *form) string {
	t := F32
	switch c.Params[4] {
	case Bits:
		t = I32
	case Uniform, Normal:
	default:
		return "Params[4] is not 1, 2 or 3"
	}
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n).as(t)}
	f.flop = prod(40, n)
	return ""
}
