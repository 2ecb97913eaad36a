//go:build linux && cgo

package nvml_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"idlemesh/gpu/nvml"
)

// fake builds a driver's library.
func fake(t *testing.T, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is needed to build a driver's library")
	}
	lib := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command(cc, append(flags, "-shared", "-fPIC", "-w", "-o", lib, "testdata/fake.c")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

// open opens a driver's library that shows cards.
func open(t *testing.T, lib, cards string) (s *nvml.Sensor, show func(string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cards")
	show = func(cards string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(cards), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	show(cards)
	t.Setenv("FAKE_NVML", path)
	s, err := nvml.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, show
}

func read(t *testing.T, s *nvml.Sensor, ours ...int) []nvml.Sample {
	t.Helper()
	all, err := s.Read(ours)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRead reads what a driver shows; one lost card hides no other.
func TestRead(t *testing.T) {
	s, show := open(t, fake(t), "1 60 55 120000 100 40 2 0 72\n0 0 0 0 0 0 0 0 0\n1 -1 -1 -1 0 -1 -1 -1 -1\n")
	if d := s.Driver(); d != "550.54.14" {
		t.Errorf("driver %q", d)
	}
	all := read(t, s, 4242)
	if len(all) != 2 {
		t.Fatalf("%d devices, want 2", len(all))
	}
	x := all[0]
	want := nvml.Sample{Index: 0, UUID: "GPU-0", Model: "Fake 0", Memory: 24 << 30, Used: 4 << 30, Load: 60, ForeignLoad: 40, Foreign: 1,
		Celsius: 55, Milliwatts: 120000, PowerLimit: nvml.Unknown, Energy: 120000, ECC: 2, MIG: 0, Display: nvml.Unknown,
		Throttle: []string{"hardware slowdown", "thermal, by hardware"}}
	if !reflect.DeepEqual(x, want) {
		t.Errorf("read %+v\nwant %+v", x, want)
	}
	const no = nvml.Unknown
	want = nvml.Sample{Index: 2, UUID: "GPU-2", Model: "Fake 2", Memory: 24 << 30, Used: 4 << 30, Load: no, ForeignLoad: no,
		Celsius: no, Milliwatts: no, PowerLimit: no, Energy: no, ECC: no, MIG: no, Display: no}
	if !reflect.DeepEqual(all[1], want) {
		t.Errorf("read %+v\nwant %+v", all[1], want)
	}
	if x := read(t, s, 4242)[0]; x.ForeignLoad != 0 {
		t.Errorf("without news the load of others is %d, want 0", x.ForeignLoad)
	}
	show("1 60 55 120000 100 -1 0 0 0\n")
	for _, tc := range []struct {
		ours               []int
		processes, foreign int
	}{
		{[]int{100, 4242}, 0, no}, // the whole load may be ours
		{[]int{100}, 1, no},
		{nil, 2, 60},
	} {
		if x := read(t, s, tc.ours...)[0]; x.Foreign != tc.processes || x.ForeignLoad != tc.foreign {
			t.Errorf("of ours %v: %d processes with %d %%, want %d with %d", tc.ours, x.Foreign, x.ForeignLoad, tc.processes, tc.foreign)
		}
	}
}

// TestOldDriver: what a driver lacks is unknown, and asking for it does not end the process.
func TestOldDriver(t *testing.T) {
	s, _ := open(t, fake(t, "-DOLD"), "1 60 55 120000 100 40 2 0 0\n")
	const no = nvml.Unknown
	want := nvml.Sample{Model: "Fake 0", Memory: no, Used: no, Load: no, ForeignLoad: no, Foreign: no, Celsius: 55, Milliwatts: no,
		PowerLimit: no, Energy: no, ECC: no, MIG: no, Display: no}
	if x := read(t, s)[0]; !reflect.DeepEqual(x, want) || s.Driver() != "" {
		t.Errorf("read %+v\nwant %+v", x, want)
	}
}

func TestNoDriver(t *testing.T) {
	if _, err := nvml.Open(filepath.Join(t.TempDir(), "none.so")); !errors.Is(err, nvml.ErrNoDriver) {
		t.Errorf("no library: %v", err)
	}
	lib := fake(t, "-DnvmlInit_v2=something_else")
	if _, err := nvml.Open(lib); !errors.Is(err, nvml.ErrNoDriver) {
		t.Errorf("a library that is another's: %v", err)
	}
	t.Setenv("FAKE_NVML", "/nonexistent")
	if _, err := nvml.Open(fake(t)); !errors.Is(err, nvml.ErrNoDriver) {
		t.Errorf("no kernel driver: %v", err)
	}
}

// TestDriverDies: a driver that stops answering is an error, and is read again when it is
// back.
func TestDriverDies(t *testing.T) {
	s, show := open(t, fake(t), "1 60 55 120000 100 40 2 0 0\n")
	if err := os.Remove(os.Getenv("FAKE_NVML")); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Read(nil); err == nil {
		t.Errorf("read %+v from a driver that is gone", all)
	}
	show("1 1 1 1 0 -1 0 0 0\n")
	if x := read(t, s)[0]; x.Celsius != 1 {
		t.Errorf("read %+v", x)
	}
}
