package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"idlemesh/mesh/policy"
	"idlemesh/mesh/wire"
)

// A Sensor tells what is seen of the device. Ours are the processes of its workers. It is
// called about once a second, never twice at once; what it cannot tell is policy.Unknown.
type Sensor interface {
	Read(ours []int) (policy.Sight, error)
}

// lookEvery is how often the provider looks at device, calendar and clock.
const lookEvery = time.Second

// errReclaimed is why a run ends whose device its owner wants.
var errReclaimed = errors.New("the device is its owner's again")

// watch looks at the device until ctx ends.
func (p *Provider) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.look()
		}
	}
}

// look takes one sight and does what follows from it. What the owner takes back he has at
// once: nothing is asked of the runs.
func (p *Provider) look() {
	p.eyes.Lock()
	defer p.eyes.Unlock()
	s := p.sight()
	p.mu.Lock()
	was := p.claim
	s.Wish = p.wish
	p.claim = p.cfg.Policy.Next(was, s)
	is := p.claim
	var leases []*lease
	if is.State == policy.Reclaimed {
		clear(p.holds)
		for _, l := range p.leases {
			leases = append(leases, l)
		}
	}
	running := p.running
	p.mu.Unlock()
	if is.State == policy.Reclaimed && running == 0 {
		p.cfg.Pool.Dismiss() // their device memory too is the owner's
	}
	for _, l := range leases {
		l.cancel(fmt.Errorf("%w: %s", errReclaimed, is.Why))
	}
	if was.State != is.State {
		p.cfg.Log.Info("the device is "+is.State.String(), "why", is.Why)
		p.hurry()
	}
}

// sight is what the sensor shows; without one nothing is known but the time.
func (p *Provider) sight() policy.Sight {
	none := policy.Sight{Processes: policy.Unknown, Load: policy.Unknown, Celsius: policy.Unknown, Watts: policy.Unknown}
	s := none
	if p.cfg.Sensor != nil {
		var err error
		if s, err = p.cfg.Sensor.Read(p.cfg.Pool.Processes()); err != nil {
			s = none
			if text := err.Error(); text != p.blind {
				p.blind = text
				p.cfg.Log.Warn("the device's sensors cannot be read", "err", err)
			}
		}
	}
	s.At = p.now()
	return s
}

// hurry advertises again soon.
func (p *Provider) hurry() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// obey does what the owner asks by hand. A pause is answered once nothing runs any more.
func (p *Provider) obey(ctx context.Context, _ wire.Caller, q wire.WishRequest) (wire.Offer, error) {
	wish := policy.Wish(q.Wish)
	if wish > policy.Pause {
		return wire.Offer{}, wire.Refuse(wire.Invalid, fmt.Sprintf("wish: %d is none", q.Wish))
	}
	p.mu.Lock()
	p.wish = wish
	p.mu.Unlock()
	p.look()
	for wish == policy.Pause && p.busy() {
		select {
		case <-ctx.Done():
			return wire.Offer{}, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.look()
	o := p.Offer()
	if o == nil {
		return wire.Offer{}, wire.Refuse(wire.Unavailable, "wish: the device is not known yet")
	}
	return *o, nil
}

func (p *Provider) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running > 0
}
