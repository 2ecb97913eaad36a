package account

import (
	"slices"

	"idlemesh/ledger/record"
)

const (
	dayMillis = 86_400_000
	// maxVest bounds VestDays: an account's holdback is remembered by the day.
	maxVest = 366
	// maxLeaving is how many parts of a bond may be on their way back at once.
	maxLeaving = 32
)

// ripe is what of d may be paid out at now, in ledger time.
func (d VestDay) ripe(now record.Millis) record.Amount {
	since, span := now-record.Millis(d.Day+1)*dayMillis, record.Millis(d.Span)*dayMillis
	switch {
	case since < 0:
		return 0
	case since >= span:
		return d.Left
	}
	rest := d.Held - record.Amount(record.MulDiv(uint64(d.Held), uint64(since), uint64(span)))
	return d.Left - min(d.Left, rest)
}

// hold adds to the day's holdback. Days that are over with are put together, so that
// there are never many more than a span has.
func (v Vesting) hold(now record.Millis, span uint32, amount record.Amount) Vesting {
	day := VestDay{Day: Day(now), Span: min(span, maxVest), Held: amount, Left: amount}
	out := Vesting{Days: make([]VestDay, 0, len(v.Days)+1)}
	var old VestDay
	for _, d := range v.Days {
		switch {
		case d.Left == 0:
		case d.ripe(now) == d.Left:
			old = VestDay{Day: d.Day, Span: d.Span, Held: old.Left + d.Left, Left: old.Left + d.Left}
		case d.Day == day.Day && d.Span == day.Span:
			day.Held, day.Left = day.Held+d.Held, day.Left+d.Left
		default:
			out.Days = append(out.Days, d)
		}
	}
	if old.Left > 0 {
		out.Days = slices.Insert(out.Days, 0, old)
	}
	out.Days = append(out.Days, day)
	return out
}

// pay takes out what may be paid out.
func (v Vesting) pay(now record.Millis) (Vesting, record.Amount) {
	var sum record.Amount
	out := Vesting{}
	for _, d := range v.Days {
		ripe := d.ripe(now)
		sum += ripe // never more than the holdback, which fits
		if d.Left -= ripe; d.Left > 0 {
			out.Days = append(out.Days, d)
		}
	}
	return out, sum
}

// lose takes an amount away, from the newest first.
func (v Vesting) lose(amount record.Amount) Vesting {
	out := Vesting{Days: slices.Clone(v.Days)}
	for i := len(out.Days) - 1; i >= 0; i-- {
		less := min(amount, out.Days[i].Left)
		out.Days[i].Left -= less
		amount -= less
	}
	return out
}

// sum is how much is on its way back.
func (l Leaving) sum() (sum record.Amount) {
	for _, p := range l.Parts {
		sum += p.Amount // never more than the bond, which fits
	}
	return sum
}

// cap takes parts away until they sum to at most the bond, the newest first.
func (l Leaving) cap(bond record.Amount) Leaving {
	out := Leaving{Parts: slices.Clone(l.Parts)}
	for over := out.sum() - min(out.sum(), bond); over > 0; {
		last := &out.Parts[len(out.Parts)-1]
		less := min(over, last.Amount)
		over, last.Amount = over-less, last.Amount-less
		if last.Amount == 0 {
			out.Parts = out.Parts[:len(out.Parts)-1]
		}
	}
	return out
}

// stake adds to a bond.
func stake(t turn, e record.Stake) (Effects, error) {
	if e.Amount == 0 {
		return Effects{}, refuse(ErrEntry, "a stake needs an amount")
	}
	f := Effects{}
	f.move(Post, purse(t.who, e.Earned), ID{Stake, t.who}, e.Amount)
	return f, nil
}

// unstake takes part of a bond back: at once where the mesh has no wait, else by a Vest
// once it has passed.
func unstake(t turn, e record.Unstake) (Effects, error) {
	bond, err := t.Balance(ID{Stake, t.who})
	if err != nil {
		return Effects{}, err
	}
	var l Leaving
	if err := t.Fact(Name{FactLeaving, t.who}, &l); err != nil {
		return Effects{}, err
	}
	left := bond.Free() - min(bond.Free(), l.sum())
	switch {
	case e.Amount == 0:
		return Effects{}, refuse(ErrEntry, "an unstake needs an amount")
	case e.Amount > left:
		return Effects{}, &OverdraftError{Account: ID{Stake, t.who}, Have: left, Want: e.Amount}
	}
	f := Effects{}
	wait := max(t.Mesh().Params.Unbond, 0)
	if wait == 0 {
		f.move(Post, ID{Stake, t.who}, ID{Tenant, t.who}, e.Amount)
		return f, nil
	}
	if len(l.Parts) >= maxLeaving {
		return Effects{}, refuse(ErrEntry, "%d parts of the bond are on their way back already: vest them first", len(l.Parts))
	}
	l.Parts = append(slices.Clone(l.Parts), LeavingPart{Amount: e.Amount, Ripe: t.now + wait})
	f.remember(FactLeaving, t.who, l)
	return f, nil
}

// vest pays out what has become payable.
func vest(t turn, e record.Vest) (Effects, error) {
	of, err := AccountOf(t, e.Of)
	if err != nil {
		return Effects{}, err
	}
	to, err := payee(t, of)
	if err != nil {
		return Effects{}, err
	}
	var (
		v Vesting
		l Leaving
		f = Effects{Parties: []Party{{of, Payer}, {to, Payer}}}
	)
	if err := t.Fact(Name{FactVesting, of}, &v); err != nil {
		return Effects{}, err
	}
	if err := t.Fact(Name{FactLeaving, of}, &l); err != nil {
		return Effects{}, err
	}
	if rest, held := v.pay(t.now); held > 0 {
		f.move(Post, ID{Holdback, of}, ID{Provider, to}, held)
		f.remember(FactVesting, of, rest)
	}
	var rest Leaving
	var back record.Amount
	for _, p := range l.Parts {
		if p.Ripe <= t.now {
			back += p.Amount
		} else {
			rest.Parts = append(rest.Parts, p)
		}
	}
	if back > 0 {
		f.move(Post, ID{Stake, of}, ID{Tenant, of}, back)
		f.remember(FactLeaving, of, rest)
	}
	if len(f.Legs) == 0 {
		return Effects{}, refuse(ErrEntry, "nothing has become payable yet")
	}
	return f, nil
}

// slash moves ppm of an account's bond and holdback to the insurance: of the bond first,
// and never more than both. It returns what that came to.
func (f *Effects) slash(s State, of record.NodeID, ppm uint32) (record.Amount, error) {
	bond, err := s.Balance(ID{Stake, of})
	if err != nil {
		return 0, err
	}
	held, err := s.Balance(ID{Holdback, of})
	if err != nil {
		return 0, err
	}
	all, over := add(bond.Free(), held.Free())
	if over != 0 {
		return 0, refuse(ErrEntry, "%v", errOverflow)
	}
	sum := share(all, ppm)
	first := min(sum, bond.Free())
	f.move(Post, ID{Stake, of}, ID{Kind: Insurance}, first)
	f.move(Post, ID{Holdback, of}, ID{Kind: Insurance}, sum-first)
	if first > 0 {
		var l Leaving
		if err := s.Fact(Name{FactLeaving, of}, &l); err != nil {
			return 0, err
		}
		if l.sum() > bond.Free()-first {
			f.remember(FactLeaving, of, l.cap(bond.Free()-first))
		}
	}
	if sum > first {
		var v Vesting
		if err := s.Fact(Name{FactVesting, of}, &v); err != nil {
			return 0, err
		}
		f.remember(FactVesting, of, v.lose(sum-first))
	}
	return sum, nil
}
