package llama

import (
	"bytes"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
)

// inputs is a device that has one input.
type inputs struct {
	*gpu.Session
	file  []byte
	loads int
}

func (d *inputs) FromInput(_ string, off, size uint64) (kernel.Buffer, error) {
	return d.Load("file", size, func(at uint64, p []byte) error {
		d.loads++
		copy(p, d.file[off+at:])
		return nil
	})
}

// TestLoadInput: a model that goes to the device by itself writes the same tokens as one
// that is read, in every format; the weights of the next are there already.
func TestLoadInput(t *testing.T) {
	for version, group := range []int{0, 0, 32} {
		w := weights(small)
		b := file(small, version, group, w)
		dev := gpu.New(cpu.New(0), 0)
		var want []int32
		for run, wantLoads := range []int{0, 1, 0} {
			s := dev.Session(0, kernel.Reference{})
			d := &inputs{Session: s, file: b}
			var m *Model
			var err error
			if run == 0 {
				m, err = Load(s, bytes.NewReader(b), int64(len(b)), 0)
			} else {
				m, err = LoadInput(d, "model", bytes.NewReader(b), int64(len(b)), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if version == 2 {
				wantLoads = 0 // its bytes are put together on the way
			}
			if d.loads != wantLoads {
				t.Errorf("version %d, run %d: loaded in %d pieces, want %d", version, run, d.loads, wantLoads)
			}
			id := int32(1)
			for i := range 8 {
				if id, err = m.Next([]int32{id}, Choice{}); err != nil {
					t.Fatal(err)
				}
				if run == 0 {
					want = append(want, id)
				} else if id != want[i] {
					t.Errorf("version %d, run %d: token %d is %d, want %d", version, run, i, id, want[i])
				}
			}
			s.Close()
		}
	}
}
