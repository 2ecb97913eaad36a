package provider

import (
	"fmt"

	"idlemesh/gpu/nvml"
	"idlemesh/mesh/policy"
)

// A Card is the sensor of one NVIDIA card: the one at Index, counted by PCI bus.
type Card struct {
	Sensors interface {
		Read(ours []int) ([]nvml.Sample, error)
	}
	Index int
}

// Read implements Sensor.
func (c Card) Read(ours []int) (policy.Sight, error) {
	all, err := c.Sensors.Read(ours)
	if err != nil {
		return policy.Sight{}, err
	}
	for _, x := range all {
		if x.Index == c.Index {
			return policy.Sight{Processes: x.Foreign, Load: x.ForeignLoad, Celsius: x.Celsius, Watts: watts(x.Milliwatts)}, nil
		}
	}
	return policy.Sight{}, fmt.Errorf("card %d does not answer", c.Index)
}

func watts(mw int) int {
	if mw == nvml.Unknown {
		return policy.Unknown
	}
	return mw / 1000
}
