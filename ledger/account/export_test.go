package account

import "idlemesh/ledger/record"

// Hold and Pay open the rule of vesting to tests of its own.
func (v Vesting) Hold(now record.Millis, span uint32, amount record.Amount) Vesting {
	return v.hold(now, span, amount)
}

func (v Vesting) Pay(now record.Millis) (Vesting, record.Amount) { return v.pay(now) }

// Slash applies the rule of slashing to a state.
func Slash(s State, of record.NodeID, ppm uint32) (Effects, record.Amount, error) {
	var f Effects
	sum, err := f.slash(s, of, ppm)
	if err == nil {
		err = f.settle(s)
	}
	if err == nil {
		err = f.balanced()
	}
	return f, sum, err
}
