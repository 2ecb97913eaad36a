package worker

import (
	"context"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/gpu"
	"idlemesh/sandbox/frame"
)

// measure says how fast the device is, and which others there are.
func (w *process) measure(ctx context.Context, f frame.Frame) error {
	var q frame.Measure
	if err := f.Into(&q); err != nil {
		return err
	}
	end := frame.Measured{End: true}
	if q.Limit == 0 {
		for _, p := range gpu.Paths() {
			end.Paths = append(end.Paths, frame.Path{Device: p.Device, Opens: p.Opens, Why: brief(p.Why)})
		}
		return w.conn.Send(frame.TypeMeasured, 0, end)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() { // the agent says no more: when it hangs up, nobody wants the result
		defer close(watched)
		_, _ = w.conn.Receive()
		stop()
	}()
	m, err := w.dev.Measure(ctx, time.Duration(q.Limit)*time.Millisecond, func(s gpu.Step) {
		_ = w.conn.Send(frame.TypeMeasured, 0, frame.Measured{Done: uint32(s.Done), Total: uint32(s.Total), Name: s.Name})
	})
	if err == nil {
		end.Result, err = cbor.Marshal(m)
	}
	if err != nil {
		end.Err = brief(err.Error())
	}
	err = w.conn.Send(frame.TypeMeasured, 0, end)
	<-watched
	return err
}

// brief makes words fit a frame.
func brief(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 1<<10)], "?")
}
