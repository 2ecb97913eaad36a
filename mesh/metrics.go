package mesh

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// A meter counts what an endpoint does.
type meter struct {
	opened, served  prometheus.Counter
	dialOK, dialBad prometheus.Counter
}

func newMeter(e *Endpoint, r prometheus.Registerer) (meter, error) {
	streams := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "idlemesh_mesh_streams_total", Help: "Streams opened here or by peers.",
	}, []string{"by"})
	dials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "idlemesh_mesh_dials_total", Help: "Connections dialled.",
	}, []string{"result"})
	conns := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "idlemesh_mesh_connections", Help: "Connections that are open.",
	}, e.count)
	m := meter{
		streams.WithLabelValues("self"), streams.WithLabelValues("peer"),
		dials.WithLabelValues("ok"), dials.WithLabelValues("failed"),
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(streams), r.Register(dials), r.Register(conns))
}

func (m meter) dialled(err error) {
	if err != nil {
		m.dialBad.Inc()
		return
	}
	m.dialOK.Inc()
}

func (e *Endpoint) count() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, list := range e.conns {
		n += len(list)
	}
	return float64(n)
}
