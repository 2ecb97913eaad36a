package gpu_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

// FuzzSubmit lets a stranger's bytes run as commands: nothing panics, and nothing of
// another run changes.
func FuzzSubmit(f *testing.F) {
	for _, s := range kernel.Table {
		c := kernel.Command{Op: s.Op, M: 2, N: 4, K: 4, L: 2, Dst: at(1, 0), A: at(2, 4), B: at(3, 8), C: at(4, 12), Params: [10]uint32{1, 8}}
		b, _ := binary.Append(nil, binary.LittleEndian, []kernel.Command{c})
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, tame bool) {
		d := gpu.New(cpu.New(1<<20), 0)
		other, s := d.Session(0, ref), d.Session(0, ref)
		defer other.Close()
		defer s.Close()
		var theirs [8]kernel.Buffer
		secret := bytes.Repeat([]byte{0x5a}, 256)
		for i := range theirs {
			theirs[i] = alloc(t, other, 256)
			other.Write(theirs[i], 0, secret)
			s.Write(alloc(t, s, uint64(256<<(i%3))), 0, numbers(i))
		}
		cmds := make([]kernel.Command, 16)
		n, err := kernel.Decode(cmds, b)
		if err != nil {
			return
		}
		for i := range cmds[:n] {
			if tame {
				calm(&cmds[i])
			}
			s.Submit(cmds[i : i+1])
		}
		s.Submit(cmds[:n])
		for _, h := range theirs {
			p := make([]byte, 256)
			if err := other.Read(h, 0, p); err != nil || !bytes.Equal(p, secret) {
				t.Fatalf("another run's buffer %d changed (%v)", h, err)
			}
		}
	})
}

// calm brings sizes near what the buffers hold and drops what the kernel does not
// use, so that many commands pass the checks.
func calm(c *kernel.Command) {
	spec := kernel.Find(c.Op)
	if spec == nil {
		return
	}
	c.Stream = 0
	for _, o := range []*kernel.Operand{&c.Dst, &c.A, &c.B, &c.C} {
		o.Buffer, o.Offset = o.Buffer%9, o.Offset%64&^3
	}
	for _, v := range []*uint32{&c.M, &c.N, &c.K, &c.L} {
		*v %= 12
	}
	size := func(kernel.Buffer) uint64 { return 256 }
	for i := len(c.Params) - 1; i >= 0; i-- {
		if c.Params[i] > 64 && i < 6 {
			c.Params[i] %= 64
		}
		if _, err := kernel.Check(c, size); err == nil {
			return
		}
		c.Params[i] = 0
	}
	for _, drop := range []func(){
		func() { c.L = 0 }, func() { c.K = 0 }, func() { c.C = kernel.Operand{} }, func() { c.B = kernel.Operand{} },
		func() { c.Flags &= 1 }, func() { c.Dst.Type, c.A.Type, c.B.Type = 0, 0, 0 }, func() { c.Flags = 0 },
	} {
		if _, err := kernel.Check(c, size); err == nil {
			return
		}
		drop()
	}
}

func numbers(i int) []byte {
	var p []byte
	for j := range 64 {
		v := float32(j-20) * float32(i+1)
		if j == i {
			v = float32(math.NaN())
		}
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(v))
	}
	return p
}
