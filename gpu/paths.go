package gpu

import "idlemesh/gpu/cpu"

// A Path is a way that kernels may be run on this machine.
type Path struct {
	Device string // as Open takes it
	Opens  bool
	Why    string // it does not, or how kernels run there
}

// Paths lists the ways there are, the best first. It opens what it tells of, so a process
// that asks should end soon.
func Paths() []Path {
	return []Path{
		{Device: "cuda", Why: "this version has no backend for it"},
		{Device: "cpu", Opens: true, Why: cpu.How()},
	}
}

// Hardware names what a measurement of the device holds for: where the backend tells, the
// chip, how many there are and its driver.
func (d *Device) Hardware() string {
	if b, ok := d.b.(interface{ Hardware() string }); ok {
		return b.Hardware()
	}
	return d.Info().Backend + " " + d.Info().Model
}
