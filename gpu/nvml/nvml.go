//go:build linux && cgo

package nvml

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A Sensor watches every device of this machine. It is safe for concurrent use; a driver
// that hangs hangs its calls.
type Sensor struct {
	mu  sync.Mutex
	lib nvml.Interface
	has map[string]bool // calls that the driver has
	new map[int]uint64  // by device: time of the last sample of processes' load, in µs
}

// Open loads NVML from the file lib, or from where the system has it when lib is empty.
// Close the sensor. The error wraps ErrNoDriver when there is none that works.
func Open(lib string) (*Sensor, error) {
	lib = cmp.Or(lib, "libnvidia-ml.so.1")
	// A symbol that is missing would end the process, so even the first call is looked up.
	probe := dl.New(lib, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := probe.Open(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDriver, err)
	}
	defer probe.Close()
	for _, names := range essential {
		if !slices.ContainsFunc(names, func(n string) bool { return probe.Lookup(n) == nil }) {
			return nil, fmt.Errorf("%w: %s lacks %s", ErrNoDriver, lib, names[0])
		}
	}
	s := &Sensor{lib: nvml.New(nvml.WithLibraryPath(lib)), has: map[string]bool{}, new: map[int]uint64{}}
	if ret := s.lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("%w: NVML does not start: %s", ErrNoDriver, text(ret))
	}
	return s, nil
}

// essential are the calls that each need one of these symbols, and without which there is
// nothing to read.
var essential = [][]string{
	{"nvmlInit_v2", "nvmlInit"}, {"nvmlShutdown"}, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
}

// Close unloads the library.
func (s *Sensor) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ret := s.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("close NVML: %s", text(ret))
	}
	return nil
}

// Driver is the version of the driver; empty is unknown.
func (s *Sensor) Driver() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return words(s, s.lib.SystemGetDriverVersion, "nvmlSystemGetDriverVersion")
}

// Read samples every device; ours are the process IDs of our own workers. A device that
// cannot be reached is left out.
func (s *Sensor) Read(ours []int) ([]Sample, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count the devices: %s", text(ret))
	}
	var all []Sample
	for i := range n {
		if d, ret := s.lib.DeviceGetHandleByIndex(i); ret == nvml.SUCCESS {
			all = append(all, s.sample(i, d, ours))
		}
	}
	return all, nil
}

func (s *Sensor) sample(i int, d nvml.Device, ours []int) Sample {
	x := Sample{Index: i, Model: words(s, d.GetName, "nvmlDeviceGetName"), UUID: words(s, d.GetUUID, "nvmlDeviceGetUUID"),
		Memory: Unknown, Used: Unknown, Load: Unknown,
		Celsius:    number[int](s, func() (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) }, "nvmlDeviceGetTemperature"),
		Milliwatts: number[int](s, d.GetPowerUsage, "nvmlDeviceGetPowerUsage"),
		PowerLimit: number[int](s, d.GetEnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit"),
		Energy:     number[int64](s, d.GetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption"),
		ECC: number[int64](s, func() (uint64, nvml.Return) {
			return d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		}, "nvmlDeviceGetTotalEccErrors"),
		MIG:     number[int](s, func() (int, nvml.Return) { is, _, ret := d.GetMigMode(); return is, ret }, "nvmlDeviceGetMigMode"),
		Display: number[int](s, d.GetDisplayActive, "nvmlDeviceGetDisplayActive"),
	}
	if m, ok := call(s, d.GetMemoryInfo, "nvmlDeviceGetMemoryInfo"); ok {
		x.Memory, x.Used = int64(m.Total), int64(m.Used)
	}
	if u, ok := call(s, d.GetUtilizationRates, "nvmlDeviceGetUtilizationRates"); ok {
		x.Load = int(u.Gpu)
	}
	if p, ok := call(s, d.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"); ok {
		x.Bus = fmt.Sprintf("%08x:%02x:%02x.0", p.Domain, p.Bus, p.Device)
	}
	if bits, ok := call(s, d.GetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons"); ok {
		x.Throttle = throttled(bits)
	}
	x.Foreign, x.ForeignLoad = s.foreign(i, d, ours, x.Load)
	return x
}

// foreign counts the processes on a device that are not ours, and their part of its load.
// Where only the whole load is known, it is the others' when none of ours is there.
func (s *Sensor) foreign(i int, d nvml.Device, ours []int, whole int) (processes, load int) {
	running, ok := call(s, d.GetComputeRunningProcesses, "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
	if !ok {
		return Unknown, Unknown
	}
	for _, p := range running {
		if !slices.Contains(ours, int(p.Pid)) {
			processes++
		}
	}
	if load, ok = s.shares(i, d, ours); ok {
		return processes, load
	}
	if len(running) > processes {
		return processes, Unknown
	}
	return processes, whole
}

// shares is what the processes that are not ours have of a device's time, in percent, as
// the newest sample of each says.
func (s *Sensor) shares(i int, d nvml.Device, ours []int) (load int, ok bool) {
	samples, ok := call(s, func() ([]nvml.ProcessUtilizationSample, nvml.Return) {
		all, ret := d.GetProcessUtilization(s.new[i])
		if ret == nvml.ERROR_INSUFFICIENT_SIZE && len(all) == 0 || ret == nvml.ERROR_NOT_FOUND {
			return nil, nvml.SUCCESS // nothing since the last time
		}
		return all, ret
	}, "nvmlDeviceGetProcessUtilization")
	newest := map[uint32]nvml.ProcessUtilizationSample{}
	for _, x := range samples {
		s.new[i] = max(s.new[i], x.TimeStamp)
		if x.TimeStamp >= newest[x.Pid].TimeStamp {
			newest[x.Pid] = x
		}
	}
	for pid, x := range newest {
		if !slices.Contains(ours, int(pid)) {
			load += int(x.SmUtil)
		}
	}
	return min(load, 100), ok
}

// call makes a call that the driver has by one of these names, and says whether it answered.
func call[T any](s *Sensor, f func() (T, nvml.Return), names ...string) (v T, ok bool) {
	if !slices.ContainsFunc(names, s.knows) {
		return v, false
	}
	v, ret := f()
	return v, ret == nvml.SUCCESS
}

func (s *Sensor) knows(name string) bool {
	has, looked := s.has[name]
	if !looked {
		has = s.lib.Extensions().LookupSymbol(name) == nil
		s.has[name] = has
	}
	return has
}

func words(s *Sensor, f func() (string, nvml.Return), name string) string {
	v, _ := call(s, f, name)
	return v
}

func number[N int | int64, T ~int | ~int32 | ~uint32 | ~uint64](s *Sensor, f func() (T, nvml.Return), name string) N {
	if v, ok := call(s, f, name); ok {
		return N(v)
	}
	return Unknown
}

// text names a return value without a call into the driver, which may lack it.
func text(r nvml.Return) string {
	switch r {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "the library cannot be loaded"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the kernel driver is not loaded"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "library and kernel driver have different versions: reboot after a driver update"
	case nvml.ERROR_GPU_IS_LOST:
		return "a GPU has fallen off the bus"
	}
	return fmt.Sprintf("error %d", int32(r))
}
