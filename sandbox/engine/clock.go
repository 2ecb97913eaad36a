package engine

import (
	"crypto/hkdf"
	"crypto/sha256"
	"math/rand/v2"
	"time"
)

// tick is what each reading of a clock adds to it, so that time passes for a guest
// that waits for it, and the same for every run.
const tick = time.Microsecond

// A clock is the time that a guest sees: it starts where the job says and moves by
// readings and sleeps alone. Wall time and monotonic time are one.
type clock struct{ start, now int64 } // nanoseconds

func newClock(ms int64) clock {
	ns := time.UnixMilli(ms).UnixNano()
	return clock{ns, ns}
}

func (c *clock) wall() (sec int64, nsec int32) {
	c.now += int64(tick)
	t := time.Unix(0, c.now)
	return t.Unix(), int32(t.Nanosecond())
}

func (c *clock) monotonic() int64 {
	c.now += int64(tick)
	return c.now - c.start
}

// sleep lasts ns in both worlds, or until the run is stopped.
func (r *run) sleep(ns int64) {
	if ns <= 0 {
		return
	}
	r.clock.now += ns
	r.pause(time.Duration(ns))
}

// pause passes real time alone.
func (r *run) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// newRandom returns the run's chance: unguessable without the seed, the same with it.
func newRandom(seed []byte) (*rand.ChaCha8, error) {
	key, err := hkdf.Key(sha256.New, seed, nil, "idlemesh guest random v1", 32)
	if err != nil {
		return nil, err
	}
	return rand.NewChaCha8([32]byte(key)), nil
}
