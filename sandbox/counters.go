package sandbox

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are what a pool counts.
type counters struct {
	runs    *prometheus.CounterVec // by end
	started prometheus.Counter
	lost    prometheus.Counter
}

func newCounters(reg prometheus.Registerer) counters {
	c := counters{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "idlemesh_sandbox_runs_total", Help: "Runs that ended, by why they did."}, []string{"end"}),
		started: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "idlemesh_sandbox_workers_started_total", Help: "Worker processes started."}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "idlemesh_sandbox_workers_lost_total", Help: "Worker processes that ended by a fault or were killed."}),
	}
	if reg != nil {
		for _, m := range []prometheus.Collector{c.runs, c.started, c.lost} {
			var twice prometheus.AlreadyRegisteredError
			if err := reg.Register(m); err != nil && !errors.As(err, &twice) {
				panic(err) // a name or label of ours is malformed
			}
		}
	}
	return c
}

var endNames = [...]string{Exited: "exited", Trapped: "trapped", OverLimit: "over-limit", TimedOut: "timed-out",
	Cancelled: "cancelled", BadModule: "bad-module", NodeLost: "node-lost"}

// String returns the end's name.
func (e End) String() string {
	if e == 0 || int(e) >= len(endNames) {
		return "unknown"
	}
	return endNames[e]
}
