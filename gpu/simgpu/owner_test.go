package simgpu_test

import (
	"testing"
	"time"

	"idlemesh/gpu/simgpu"
)

func TestOwner(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	o, err := simgpu.ParseOwner("20s/2m", begin)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		at      time.Duration
		foreign int
		hot     bool
	}{{0, 0, false}, {99 * time.Second, 0, false}, {100 * time.Second, 1, false}, {119 * time.Second, 1, true}, {2 * time.Minute, 0, false},
		{239 * time.Second, 1, true}} {
		o.Now = func() time.Time { return begin.Add(tc.at) }
		all, err := o.Read(nil)
		if err != nil || len(all) != 1 || all[0].Foreign != tc.foreign || all[0].Celsius > 40 != tc.hot || all[0].Model != "simulated" {
			t.Errorf("after %v: %+v, %v", tc.at, all, err)
		}
	}
	for _, bad := range []string{"", "20s", "20s/", "2m/20s", "20s/20s", "-1s/2m", "x/2m"} {
		if _, err := simgpu.ParseOwner(bad, begin); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}
