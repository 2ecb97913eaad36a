package ledger

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a ledger counts; they count nothing that names a party.
type metrics struct {
	entries, refused, known prometheus.Counter
	commit                  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "idlemesh", Subsystem: "ledger", Name: name, Help: help})
	}
	m := metrics{
		entries: counter("entries_total", "Entries appended."),
		refused: counter("refused_total", "Entries refused by a rule, a signature or their number."),
		known:   counter("known_total", "Entries that were there already."),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "idlemesh", Subsystem: "ledger", Name: "commit_seconds", Help: "Time to make a batch durable.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 14),
		}),
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.entries), r.Register(m.refused), r.Register(m.known), r.Register(m.commit))
}

func (m metrics) observe(outs []Outcome) {
	for _, o := range outs {
		switch {
		case o.Err != nil:
			m.refused.Inc()
		case o.Known:
			m.known.Inc()
		default:
			m.entries.Inc()
		}
	}
}
