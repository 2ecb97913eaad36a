package kernel

// A Window is how Conv2D and Pool2D lay a kernel over images.
type Window struct {
	High, Wide       int // of an image
	OutHigh, OutWide int
	Kernel, Stride   [2]int // height and width
	Pad, Dilation    [2]int
}

// Window reads the first eight Params of Conv2D and Pool2D.
func (c *Command) Window() Window {
	two := func(p uint32) [2]int { return [2]int{int(p & 0xffff), int(p >> 16)} }
	p := &c.Params
	w := Window{High: int(p[0]), Wide: int(p[1]), OutHigh: int(p[2]), OutWide: int(p[3]),
		Kernel: two(p[4]), Stride: two(p[5]), Pad: two(p[6]), Dilation: two(p[7])}
	for i := range w.Dilation {
		w.Dilation[i] = max(1, w.Dilation[i])
	}
	return w
}

// fit returns what is wrong with a window. Sizes stay below 2^31, so that sums of
// places do not wrap.
func (w Window) fit() string {
	const most = 1 << 30
	for _, v := range [...]int{w.High, w.Wide, w.OutHigh, w.OutWide} {
		if v <= 0 || v > most {
			return "a height or width (Params[0..3]) is not between 1 and 2^30"
		}
	}
	for i := range 2 {
		in, out := [2]int{w.High, w.Wide}[i], [2]int{w.OutHigh, w.OutWide}[i]
		switch {
		case w.Kernel[i] == 0 || w.Stride[i] == 0:
			return "kernel and stride (Params[4], Params[5]) must not be 0"
		case w.Pad[i] > (w.Kernel[i]-1)*w.Dilation[i]:
			return "the padding (Params[6]) is as large as the kernel"
		case (out-1)*w.Stride[i]-w.Pad[i] >= in:
			return "a window lies behind the image: Params[2..3] are too large"
		}
	}
	return ""
}

func conv2d(c *Command, f *form) string {
	w, groups := c.Window(), max(u(c.L), 1)
	if err := w.fit(); err != "" {
		return err
	}
	if u(c.K)%groups != 0 || u(c.N)%groups != 0 {
		return "channels K and filters N are not multiples of the groups L"
	}
	depth := prod(u(c.K)/groups, uint64(w.Kernel[0]), uint64(w.Kernel[1]))
	if depth > long {
		return "a filter has above 2^20 weights"
	}
	out := prod(u(c.M), u(c.N), uint64(w.OutHigh), uint64(w.OutWide))
	f.ops = [4]need{writes(out), reads(prod(u(c.M), u(c.K), uint64(w.High), uint64(w.Wide))), reads(prod(u(c.N), depth)), reads(u(c.N)).when(c.C != Operand{})}
	f.flop = prod(2, out, depth)
	if act := c.Flags & activation; act == GELU || act == SiLU {
		f.flop = sum(f.flop, prod(exponential, out))
	}
	return ""
}

func pool2d(c *Command, f *form) string {
	w := c.Window()
	if err := w.fit(); err != "" {
		return err
	}
	if fn := c.Params[8]; fn != MaxOf && fn != MeanOf && fn != MeanPadded {
		return "Params[8] is not 2, 3 or 7"
	}
	out := prod(u(c.M), uint64(w.OutHigh), uint64(w.OutWide))
	f.ops = [4]need{writes(out), reads(prod(u(c.M), uint64(w.High), uint64(w.Wide)))}
	f.flop = prod(out, uint64(w.Kernel[0]), uint64(w.Kernel[1]))
	return ""
}

func layernorm(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n), reads(u(c.N)).when(c.B != Operand{}), reads(u(c.N)).when(c.C != Operand{})}
	f.flop = prod(8, n)
	return ""
}

func logSoftmax(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N))
	f.ops = [4]need{writes(n), reads(n)}
	f.flop = prod(exponential+4, n)
	return ""
}

func batchnorm(c *Command, f *form) string {
	n := prod(u(c.M), u(c.N), u(c.K))
	f.ops = [4]need{writes(n), reads(n), reads(prod(4, u(c.N)))}
	f.flop = prod(2, n)
	return ""
}
