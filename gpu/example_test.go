package gpu_test

import (
	"encoding/binary"
	"fmt"
	"log"

	"idlemesh/gpu"
	"idlemesh/gpu/kernel"
)

// A run's share of a device: memory of its own, commands that are checked, and what
// they cost.
func ExampleDevice_Session() {
	dev, err := gpu.Open("cpu", 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s := dev.Session(0, kernel.Reference{FLOPS: 1e9, Bandwidth: 1e9})
	defer s.Close()

	b, err := s.Alloc(16)
	if err != nil {
		log.Fatal(err)
	}
	v := kernel.Operand{Buffer: b, Type: kernel.I32}
	if _, err := s.Submit([]kernel.Command{{Op: kernel.Fill, M: 1, N: 4, Dst: v, Params: [10]uint32{7}}}); err != nil {
		log.Fatal(err)
	}
	var p [16]byte
	if err := s.Read(b, 0, p[:]); err != nil {
		log.Fatal(err)
	}
	_, err = s.Submit([]kernel.Command{{Op: kernel.Fill, M: 1, N: 5, Dst: v}})
	fmt.Println(binary.LittleEndian.Uint32(p[12:]), "for", s.Spent().Work, "ns of the reference GPU")
	fmt.Println(err)
	// Output:
	// 7 for 16 ns of the reference GPU
	// submit: command 0: invalid kernel command: fill: Dst needs 20 bytes at 0, buffer 1 has 16
}
