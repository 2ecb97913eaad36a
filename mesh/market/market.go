// Package market holds the rules of the market: who can serve a task, what each
// would cost, who wins, what he is paid and who waits.
//
// It knows no network, clock or disk. Time is an argument; what is known of a
// provider's past is folded from ledger entries by Standing; windows come concrete
// in adverts. A Book holds the state of one market and says what to do next; the
// gateway and the simulator do it. All numbers are integers: µcredits,
// milliseconds, ppm, nanoseconds of work, rounded down after a 128-bit product, so
// that equal arguments give equal awards on every machine.
package market

import (
	"cmp"
	"errors"
	"math"
	"math/bits"

	"idlemesh/ledger/record"
)

// DefaultWork is what a task is taken to be when nothing is known of it: one minute
// of the reference GPU.
const DefaultWork record.Work = 60e9

// hour is one hour of reference-GPU work: rates are µcredits for so much.
const hour = 3_600_000_000_000

// maxRate bounds every rate, a million credits an hour, so that sums over all the
// tasks of a job cannot overflow.
const maxRate record.Amount = 1 << 40

// ErrExpired says that a task found no provider before its job expired.
var ErrExpired = errors.New("the job expired before a provider was found; submit it again with a later --timeout")

// A Task is one shard of a job that wants a provider.
type Task struct {
	Job     record.Ref // of the signed job
	Terms   record.Job
	Shard   uint32
	Attempt uint32
	Since   record.Millis   // it waits since then
	Work    record.Work     // estimated; zero means DefaultWork
	Avoid   []record.NodeID // lost it before: asked only when nobody else fits
}

// A Candidate is a provider as one gateway sees it.
type Candidate struct {
	ID       record.NodeID
	Owner    record.NodeID // of the owner group; zero means that the node is its own
	Advert   record.Advert
	Standing Standing
	Age      record.Millis // advertised without a break for so long
	RTT      record.Millis // measured by this gateway; negative is unknown
	Busy     uint32        // leases and holds that this gateway knows of
	Missing  uint64        // bytes of input that are not there yet
}

func (c Candidate) owner() record.NodeID { return cmp.Or(c.Owner, c.ID) }

// AskRate returns what an ask per hour of a device of that speed comes to per hour
// of reference-GPU work. A device of unknown speed counts as the slowest.
func AskRate(ask record.Amount, speed uint32) record.Amount {
	return record.Amount(record.MulDiv(uint64(ask), 1000, uint64(max(speed, 1))))
}

// askFor is the highest ask whose AskRate is at most rate.
func askFor(rate record.Amount, speed uint32) record.Amount {
	return record.Amount((record.MulDiv(uint64(rate)+1, uint64(max(speed, 1)), 1) - 1) / 1000)
}

// Span returns how long t runs on c at most: its work at the device's speed, or the
// job's wall limit.
func Span(t Task, c Candidate) record.Millis {
	ms := record.MulDiv(uint64(t.work()), 1000, 1e6*uint64(max(c.Advert.Device.Speed, 1)))
	if w := t.Terms.Limits.Wall; w > 0 {
		ms = min(ms, w)
	}
	return record.Millis(min(ms, 1<<52))
}

func (t Task) work() record.Work { return cmp.Or(t.Work, DefaultWork) }

// Ceiling returns the most that t may be paid per hour of reference-GPU work: what
// the tenant offers, the class reserve, and the task's even share of MaxTotal.
func Ceiling(t Task, p record.Params) record.Amount {
	share := t.Terms.MaxTotal / record.Amount(max(t.Terms.Shards, 1))
	return min(t.Terms.MaxPrice, p.Reserve, record.Amount(record.MulDiv(uint64(share), hour, uint64(t.work()))), maxRate)
}

// Cost returns C of section 7, what t costs the tenant at an ask of c, in µcredits:
// the ask for its work and Q for the risk, the distance and the missing data.
func Cost(t Task, c Candidate, ask record.Amount, p record.Params) record.Amount {
	return t.amount(score(t, c, ask, Ceiling(t, p)))
}

// amount is what t comes to at a rate.
func (t Task) amount(rate record.Amount) record.Amount {
	return record.Amount(record.MulDiv(uint64(rate), uint64(t.work()), hour))
}

// score is C per hour of reference-GPU work. The tasks of one auction are of equal
// work, so the order is that of C, and rates come out exact where C is a few µcredits.
func score(t Task, c Candidate, ask, ceiling record.Amount) record.Amount {
	return add(AskRate(ask, c.Advert.Device.Speed), penalty(t, c, ceiling))
}

// Weights of Q, in ppm of the ceiling, which is what the tenant says the work is
// worth to him. Their caps sum to less than the whole: some price always buys.
const (
	lossWeight = 100_000 // L: a failure wastes so much of the work's value
	rttFree    = 2       // ms that cost nothing
	rttWeight  = 100     // λl a ms
	rttCap     = 50_000
	nearWeight = 10_000 // λl a ms, for a job with Near
	nearCap    = 500_000
	dataPrice  = 1000 // e: µcredits for a GB to stage
	dataCap    = 100_000
	ppm        = 1_000_000
)

// penalty is Q per hour of reference-GPU work, (1 − q·S)·L + λl·(rtt − free) + e·D.
// It depends on nothing that the node asks, else asking high could pay.
func penalty(t Task, c Candidate, ceiling record.Amount) record.Amount {
	safe := record.MulDiv(uint64(c.Standing.Reliability()), survival(c.Age, Span(t, c)), ppm)
	share := record.MulDiv(ppm-safe, lossWeight, ppm) + distance(t, c)
	data := record.MulDiv(record.MulDiv(c.Missing, dataPrice, 1e9), hour, uint64(t.work()))
	data = min(data, record.MulDiv(uint64(ceiling), dataCap, ppm))
	return record.Amount(record.MulDiv(uint64(ceiling), share, ppm) + data)
}

func distance(t Task, c Candidate) uint64 {
	weight, most := uint64(rttWeight), uint64(rttCap)
	if t.Terms.Needs.Near != (record.NodeID{}) {
		weight, most = nearWeight, nearCap
	}
	if c.RTT < 0 {
		return most
	}
	return min(record.MulDiv(uint64(max(c.RTT-rttFree, 0)), weight, 1), most)
}

// ages are measured on owners' real idle windows: the chance, in ppm, that one which
// has lasted so long lasts another hour.
var ages = [...]struct {
	age   record.Millis
	lives uint64
}{{0, 370_000}, {3_600_000, 660_000}, {4 * 3_600_000, 820_000}, {12 * 3_600_000, 890_000}}

// survival is S: the chance in ppm that a window of that age survives the span.
func survival(age, span record.Millis) uint64 {
	lives := ages[0].lives
	for i := 1; i < len(ages) && age > 0; i++ {
		lo, hi := ages[i-1], ages[i]
		within := uint64(min(age, hi.age) - lo.age)
		lives = lo.lives + record.MulDiv(hi.lives-lo.lives, within, uint64(hi.age-lo.age))
		if age <= hi.age {
			break
		}
	}
	return ppm - record.MulDiv(ppm-lives, uint64(min(max(span, 0), 3_600_000)), 3_600_000)
}

func add(a, b record.Amount) record.Amount {
	sum, carry := bits.Add64(uint64(a), uint64(b), 0)
	if carry > 0 {
		return math.MaxUint64
	}
	return record.Amount(sum)
}
