package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"idlemesh/gpu/nvml"
	"idlemesh/gpu/simgpu"
	"idlemesh/mesh/provider"
)

// sensorOf returns what watches a device: the card's own sensors, or a simulated card's
// simulated owner. Nil is nothing.
func sensorOf(device, owner string, log *slog.Logger) (provider.Sensor, error) {
	kind, _, _ := strings.Cut(device, ":")
	switch {
	case owner != "" && kind != "sim":
		return nil, usage("", "node run: --owner: only a simulated device has a simulated owner: use it with --device sim:MODEL")
	case owner != "":
		o, err := simgpu.ParseOwner(owner, time.Now())
		if err != nil {
			return nil, usage("", "node run: --owner: %v", err)
		}
		log.Warn("the owner of this device is simulated", "works", o.Works, "every", o.Every)
		return provider.Card{Sensors: o}, nil
	}
	return nil, nil
}

// cards says which NVIDIA cards this machine has, in words.
func cards() (found []string, err error) {
	s, err := nvml.Open("")
	if err != nil {
		return nil, err
	}
	all, err := s.Read(nil)
	for _, x := range all {
		found = append(found, card(x))
	}
	return found, errors.Join(err, s.Close())
}

// card is one card in words; what its driver cannot tell is left out.
func card(x nvml.Sample) string {
	text := x.Model
	if x.Memory > 0 {
		text += " " + size(uint64(x.Memory))
	}
	if x.Celsius != nvml.Unknown {
		text += fmt.Sprintf(", %d °C", x.Celsius)
	}
	if x.Foreign > 0 {
		text += fmt.Sprintf(", %d processes", x.Foreign)
	}
	if x.MIG == 1 {
		text += ", in MIG mode"
	}
	if x.ECC > 0 {
		text += fmt.Sprintf(", %d ECC errors", x.ECC)
	}
	if len(x.Throttle) > 0 {
		text += ", slowed down: " + strings.Join(x.Throttle, ", ")
	}
	return text
}
