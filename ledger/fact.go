package ledger

import (
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// AccountOf returns the account that a key acts or acted for, which is itself until it
// registers. An account's name stands for itself.
func (l *Ledger) AccountOf(key record.NodeID) (of record.NodeID, err error) {
	release, err := l.hold()
	if err != nil {
		return key, err
	}
	defer release()
	of, err = account.AccountOf(l.view(), key)
	return of, l.guard.read(err)
}
