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
			s := p.sight()
			p.mu.Lock()
			p.seen = s
			p.mu.Unlock()
			p.look()
		}
	}
}

// look does what follows from the last sight and the owner's word, even while a driver
// hangs. What he takes back he has at once: nothing is asked of the runs.
func (p *Provider) look() {
	p.mu.Lock()
	was, s := p.claim, p.seen
	s.At, s.Wish = p.now(), p.wish
	p.claim = p.cfg.Policy.Next(was, s)
	is := p.claim
	var leases []*lease
	if is.State == policy.Reclaimed {
		clear(p.holds)
		if p.gauging != nil {
			p.gauging()
		}
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

// unseen is what is known without a sensor.
var unseen = policy.Sight{Processes: policy.Unknown, Load: policy.Unknown, Celsius: policy.Unknown, Watts: policy.Unknown}

// sight is what the sensor shows.
func (p *Provider) sight() policy.Sight {
	if p.cfg.Sensor == nil {
		return unseen
	}
	s, err := p.cfg.Sensor.Read(p.cfg.Pool.Processes())
	if err == nil {
		return s
	}
	if text := err.Error(); text != p.blind {
		p.blind = text
		p.cfg.Log.Warn("the device's sensors cannot be read", "err", err)
	}
	return unseen
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
	return p.running > 0 || p.gauging != nil
}
