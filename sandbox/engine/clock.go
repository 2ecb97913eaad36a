package engine

import (
	"crypto/hkdf"
	"crypto/sha256"
	"math/rand/v2"
	"time"
)

// tick is the resolution that clocks say they have.
const tick = time.Microsecond

// now is the time that the guest sees, in Unix nanoseconds: it starts where the job says,
// and moves by a nanosecond for each unit of fuel and by sleeps. So it passes for a guest
// that waits for it, as in the world outside, and the same for every run.
func (r *run) now() int64 {
	return time.UnixMilli(r.spec.Time).UnixNano() + r.slept + int64(r.fuel.used())
}

func (r *run) wall() (sec int64, nsec int32) {
	t := time.Unix(0, r.now())
	return t.Unix(), int32(t.Nanosecond())
}

// monotonic time is the wall's, since the start.
func (r *run) monotonic() int64 { return r.slept + int64(r.fuel.used()) }

// sleep lasts ns in both worlds, or until the run is stopped.
func (r *run) sleep(ns int64) {
	if ns <= 0 {
		return
	}
	r.slept += ns
	r.pause(time.Duration(ns))
}

// pause passes real time alone.
func (r *run) pause(d time.Duration) {
	if r.tape != nil && r.tape.from != nil {
		return // it was waited for when the run was recorded
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// chance is what a guest reads when it asks for random bytes. Many of them take time,
// so it looks now and then whether the run was stopped.
type chance struct{ r *run }

func (c chance) Read(p []byte) (int, error) {
	c.r.checkpoint()
	n, err := c.r.random.Read(p[:min(len(p), 1<<16)])
	c.r.moved += uint64(n)
	return n, err
}

// newRandom returns the run's chance: unguessable without the seed, the same with it.
func newRandom(seed []byte) (*rand.ChaCha8, error) {
	key, err := hkdf.Key(sha256.New, seed, nil, "idlemesh guest random v1", 32)
	if err != nil {
		return nil, err
	}
	return rand.NewChaCha8([32]byte(key)), nil
}
