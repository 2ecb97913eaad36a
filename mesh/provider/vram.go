package provider

import (
	"cmp"

	"idlemesh/ledger/record"
)

// fraction is how much of the device's memory a task of j has, and no more: what its limit
// says, else what it needs, else what falls to a slot. On a processor each tenant's worker
// has memory of its own, so there only the limit counts, and zero is all.
func (p *Provider) fraction(j record.Job) uint64 {
	if p.device.Backend == "cpu" {
		return j.Limits.VRAM
	}
	slot := p.device.VRAM / uint64(max(p.cfg.Policy.Slots, 1))
	return min(cmp.Or(j.Limits.VRAM, j.Needs.VRAM, slot), p.device.VRAM)
}

// roomLocked is how many tasks of j the memory has room for that is neither leased nor
// promised in a bid.
func (p *Provider) roomLocked(j record.Job) uint32 {
	if p.device.Backend == "cpu" {
		return p.cfg.Policy.Slots
	}
	taken := p.vram
	for _, h := range p.holds {
		taken += h.vram
	}
	left, one := p.device.VRAM-min(p.device.VRAM, taken), p.fraction(j)
	if one == 0 {
		return p.cfg.Policy.Slots
	}
	return uint32(min(left/one, uint64(p.cfg.Policy.Slots)))
}
