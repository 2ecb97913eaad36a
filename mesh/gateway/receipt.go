package gateway

import (
	"fmt"
	"io/fs"
	"math"
	"math/bits"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// A carried is what a gateway knows by itself of a lease that it saw through.
type carried struct {
	lease record.Signed[record.Lease]
	terms record.Job
	body  record.Body
	took  record.Millis // from the lease to the receipt, by this node's clock
	again bool          // it was taken up again, after a restart
	stop  bool          // it was stopped for the tenant
}

// Bounds of what a receipt may claim.
const (
	// slack is how many times faster a device may be than it says: its speed is that
	// of large products, and small ones may lie in a cache.
	slack = 8
	// least is the speed that every device is believed to have, in thousandths of the
	// reference GPU: that of a large processor, whatever it was measured at.
	least = 1000 / slack
	// blink is what clocks and a start may differ by, in milliseconds.
	blink = 100
	// grace is how long after its limit a run may end, in milliseconds.
	grace = 10_000
	// maxNames and maxError bound a manifest.
	maxNames = 1 << 17
	maxError = 64 << 10
)

// check refuses a receipt that cannot be true of the lease. What it lets pass may be
// a lie still: that is for auditors to find.
func (c carried) check(r record.Receipt) error {
	l, wall := c.lease.Value, record.Millis(min(c.terms.Limits.Wall, math.MaxInt64))
	most := c.mostWork()
	switch {
	case r.Lease != c.lease.Ref() || r.Job != l.Job || r.Shard != l.Shard || r.Attempt != l.Attempt:
		return lie("it is for another lease")
	case r.Module != c.body.Module.Ref || r.Inputs != c.body.InputsRef():
		return lie("it is for another module or other inputs")
	case r.Device != l.Bid.Value.Device:
		return lie("it names another device than the bid")
	case r.End < record.Exited || r.End > record.NodeLost:
		return lie(fmt.Sprintf("unknown end %d", r.End))
	case r.End.Paid() && r.Outputs == (record.Ref{}):
		return lie("it is to be paid and names no outputs")
	case r.End == record.Cancelled && !c.stop:
		return lie("nobody has cancelled it")
	case r.End == record.TimedOut && wall > 0 && c.took+blink < wall:
		return lie(fmt.Sprintf("it took %d ms, its limit is %d ms", c.took, wall))
	case r.Usage.Meter != record.CPUTime && r.Usage.Meter != record.Fuel:
		return lie(fmt.Sprintf("unknown meter %d", r.Usage.Meter))
	case r.Usage.Work > most:
		return lie(fmt.Sprintf("%v ms of work in %d ms, where this device does at most %v ms", r.Usage.Work, c.took, most))
	}
	return nil
}

// mostWork is the work that the lease's device cannot have exceeded in the time that
// the gateway has seen, nor in the time that the job allows.
func (c carried) mostWork() record.Work {
	ms := uint64(max(c.took, 0))
	if wall := c.terms.Limits.Wall; wall > 0 {
		ms = min(ms, wall+grace)
	}
	speed := slack * max(uint64(c.lease.Value.Bid.Value.Device.Speed), least)
	hi, work := bits.Mul64(ms+blink, speed*1000) // a millisecond at 1000 is 1e6 ns
	if hi != 0 {
		return math.MaxUint64
	}
	return record.Work(work)
}

// checkManifest refuses a list of outputs that the tenant could not use; size tells
// how long a blob is that is here.
func (c carried) checkManifest(m record.Manifest, size func(record.Ref) (int64, bool)) error {
	if len(m.Outputs) > maxNames || len(m.Metrics) > maxNames || len(m.Error) > maxError {
		return lie(fmt.Sprintf("a manifest of %d files, %d metrics and an error of %d bytes", len(m.Outputs), len(m.Metrics), len(m.Error)))
	}
	for i, o := range m.Outputs {
		if !fs.ValidPath(o.Name) || o.Name == "." || i > 0 && o.Name <= m.Outputs[i-1].Name {
			return lie(fmt.Sprintf("an output named %.60q, or out of order", o.Name))
		}
	}
	for _, x := range m.Metrics {
		if math.IsNaN(x.Value) || math.IsInf(x.Value, 0) { // providers leave them out
			return lie(fmt.Sprintf("metric %.60q is no number", x.Name))
		}
	}
	if m.Transcript.Size > 0 && (!c.body.Record || m.Transcript.Size > maxTranscript) {
		return lie(fmt.Sprintf("a transcript of %d bytes", m.Transcript.Size))
	}
	left := c.terms.Limits.Output
	for _, b := range outputs(m) {
		switch n, here := size(b.Ref); {
		case b.Size == 0:
		case !here || uint64(n) != b.Size:
			return lie("an output was not handed over")
		case len(b.Key) != 0 && len(b.Key) != 32:
			return lie(fmt.Sprintf("a key of %d bytes", len(b.Key)))
		case b.Ref == m.Log.Ref || b.Ref == m.Transcript.Ref: // have limits of their own
		case c.terms.Limits.Output > 0 && b.Size > left:
			return lie(fmt.Sprintf("outputs of more than %d bytes", c.terms.Limits.Output))
		default:
			left -= min(left, b.Size)
		}
	}
	return nil
}

func lie(why string) error { return wire.Refuse(wire.Unverified, "receipt: "+why) }

// maxTranscript is what the sandbox bounds one to, in bytes.
const maxTranscript = 256 << 20

// Bounds of what a running task may say at once; the sandbox cuts what guests say
// into less.
const (
	maxSaid = 256 << 10
	maxText = 16 << 10
)

// checkEvent refuses what no honest provider sends. Each event waits in memory for
// every watcher.
func checkEvent(e wire.LeaseEvent) error {
	if e.Channel > wire.Log || len(e.Data) > maxSaid || len(e.Text) > maxText || len(e.Lost) > maxText {
		return wire.Refuse(wire.Invalid, fmt.Sprintf("the provider sent %d bytes of output on channel %d and %d of text at once", len(e.Data), e.Channel, len(e.Text)))
	}
	return nil
}
