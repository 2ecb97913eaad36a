package account

import (
	"errors"
	"fmt"
	"slices"

	"idlemesh/ledger/record"
)

var (
	// ErrEntry is returned for an entry that breaks a rule whatever the balances are.
	ErrEntry = errors.New("entry refused")
	// ErrAuthor is returned for what its signer may not do.
	ErrAuthor = errors.New("not allowed for its signer")
	// ErrOnce is returned for a second escrow of a job, lease of an attempt, end of a
	// lease or use of a deposit's reference, whoever writes it.
	ErrOnce = errors.New("already done")
	// ErrClosed is returned for a job whose escrow is closed, or too late.
	ErrClosed = errors.New("job is closed")
	// ErrUnknown is returned for a job or lease that is not in the ledger.
	ErrUnknown = errors.New("not in the ledger")
	// ErrCap is returned for a deposit above what the mint may still give today.
	ErrCap = errors.New("above the mint's daily cap")
)

// An OverdraftError reports a leg larger than the payer's free balance.
type OverdraftError struct {
	Account    ID
	Have, Want record.Amount
}

// Error names the account and both amounts.
func (e *OverdraftError) Error() string {
	return fmt.Sprintf("account %v holds %v credits, %v are needed", e.Account, e.Have, e.Want)
}

// Apply returns what entry e, whose author is by, does in state s at ledger time now,
// or why it may not. It checks every invariant of the accounts: sums fit 64 bits, no
// balance falls below zero with what is pending, and what is pending ends once.
func Apply(s State, by record.NodeID, now record.Millis, e record.Entry) (Effects, error) {
	if err := check(e); err != nil {
		return Effects{}, err
	}
	s, err := inForce(s, now)
	if err != nil {
		return Effects{}, err
	}
	who, err := signer(s, by, now)
	if err != nil {
		return Effects{}, err
	}
	eff, err := effects(turn{s, by, who, now}, e)
	if err != nil {
		return Effects{}, err
	}
	if e.Stream != (record.Ref{}) && e.Stream != eff.Job {
		return Effects{}, refuse(ErrEntry, "its stream is neither its author's account nor its job")
	}
	if err := eff.settle(s); err != nil {
		return Effects{}, err
	}
	eff.concern(by, who)
	return eff, eff.balanced()
}

// A turn is whose entry it is, and when.
type turn struct {
	State
	by, who record.NodeID // its author's key, and the account that the key acts for
	now     record.Millis // ledger time
}

func effects(t turn, e record.Entry) (Effects, error) {
	switch e.Kind {
	case record.TypeDeposit:
		return deposit(t, e)
	case record.TypeJob:
		return open(t, *e.Job)
	case record.TypeLease:
		return lease(t, *e.Lease)
	case record.TypeSettle:
		return settle(t, *e.Settle)
	case record.TypeCut:
		return cut(t, *e.Cut)
	case record.TypeCancel:
		return cancel(t, *e.Cancel)
	case record.TypeClose:
		return closeJob(t, *e.Close)
	case record.TypeRegister, record.TypeRotate, record.TypeVeto, record.TypeRevoke, record.TypeOwn:
		return keys(t, e)
	case record.TypeVoucher, record.TypeDelegate, record.TypeAdopt, record.TypeParams:
		return supervise(t, e)
	case record.TypeEvidence:
		return evidence(t, *e.Evidence)
	default:
		return money(t, e)
	}
}

func money(t turn, e record.Entry) (Effects, error) {
	switch e.Kind {
	case record.TypeTransfer:
		return transfer(t, *e.Transfer)
	case record.TypeWithdraw:
		return withdraw(t, e)
	case record.TypeConfirm:
		return confirm(t, *e.Confirm)
	case record.TypeStake:
		return stake(t, *e.Stake)
	case record.TypeUnstake:
		return unstake(t, *e.Unstake)
	case record.TypeVest:
		return vest(t, *e.Vest)
	case record.TypeReward:
		return reward(t, e)
	default:
		return topUp(t, *e.TopUp)
	}
}

func supervise(t turn, e record.Entry) (Effects, error) {
	switch e.Kind {
	case record.TypeVoucher:
		return vouch(t, *e.Voucher)
	case record.TypeDelegate:
		return delegate(t, *e.Delegate)
	case record.TypeAdopt:
		return adopt(t, *e.Adopt)
	default:
		return change(t, e)
	}
}

func keys(t turn, e record.Entry) (Effects, error) {
	switch e.Kind {
	case record.TypeRegister:
		return register(t, *e.Register)
	case record.TypeRotate:
		return rotate(t, *e.Rotate)
	case record.TypeVeto:
		return veto(t, *e.Veto)
	case record.TypeRevoke:
		return revoke(t, *e.Revoke)
	default:
		return ownNode(t, *e.Own)
	}
}

// check reports whether e has a version, an idempotency key and exactly the body
// that its kind names.
func check(e record.Entry) error {
	bodies := [...]bool{
		record.TypeDeposit: e.Deposit != nil, record.TypeJob: e.Job != nil, record.TypeLease: e.Lease != nil,
		record.TypeSettle: e.Settle != nil, record.TypeCut: e.Cut != nil, record.TypeClose: e.Close != nil,
		record.TypeTransfer: e.Transfer != nil, record.TypeWithdraw: e.Withdraw != nil, record.TypeConfirm: e.Confirm != nil,
		record.TypeStake: e.Stake != nil, record.TypeUnstake: e.Unstake != nil, record.TypeVest: e.Vest != nil,
		record.TypeReward: e.Reward != nil, record.TypeTopUp: e.TopUp != nil, record.TypeCancel: e.Cancel != nil,
		record.TypeRegister: e.Register != nil, record.TypeRotate: e.Rotate != nil, record.TypeVeto: e.Veto != nil,
		record.TypeRevoke: e.Revoke != nil, record.TypeOwn: e.Own != nil,
		record.TypeVoucher: e.Voucher != nil, record.TypeDelegate: e.Delegate != nil, record.TypeAdopt: e.Adopt != nil,
		record.TypeParams: e.Change != nil, record.TypeEvidence: e.Evidence != nil,
	}
	set := 0
	for _, there := range bodies {
		if there {
			set++
		}
	}
	switch {
	case e.V != 1:
		return refuse(ErrEntry, "version %d, this ledger speaks 1", e.V)
	case set != 1 || int(e.Kind) >= len(bodies) || !bodies[e.Kind]:
		return refuse(ErrEntry, "its body is not that of a %v", e.Kind)
	case e.Idem == record.Ref{}:
		return refuse(ErrEntry, "no idempotency key")
	case len(e.Approvals) > 0 && e.Deposit == nil && e.Reward == nil && e.Change == nil:
		return refuse(ErrEntry, "a %v needs no approval", e.Kind)
	}
	return nil
}

// settle computes the balances that the legs leave, or says why they may not.
func (f *Effects) settle(s State) error {
	for _, l := range f.Legs {
		if err := f.side(s, l, l.Debit, true); err != nil {
			return err
		}
		if err := f.side(s, l, l.Credit, false); err != nil {
			return err
		}
	}
	return nil
}

// concern adds the accounts that the entry moved and names nowhere, and the author's.
func (f *Effects) concern(by, who record.NodeID) {
	there := func(id record.NodeID) bool {
		return id == by || slices.ContainsFunc(f.Parties, func(p Party) bool { return p.ID == id })
	}
	if who != by {
		f.Parties = append(f.Parties, Party{who, Author})
	}
	for _, c := range f.Balances {
		if id := record.NodeID(c.Account.Owner); c.Account.Kind != Escrow && id != (record.NodeID{}) && !there(id) {
			f.Parties = append(f.Parties, Party{ID: id})
		}
	}
}

// balanced holds what must be true of every entry whatever its rule did: all debits equal
// all credits, pending and posted, and no account but the mint's is overdrawn. It cannot
// fail while the rules are right.
func (f *Effects) balanced() error {
	var before, after [2]uint64 // debits less credits, as they wrap: pending, posted
	for _, c := range f.Balances {
		before[0] += uint64(c.Before.DebitsPending - c.Before.CreditsPending)
		before[1] += uint64(c.Before.DebitsPosted - c.Before.CreditsPosted)
		after[0] += uint64(c.After.DebitsPending - c.After.CreditsPending)
		after[1] += uint64(c.After.DebitsPosted - c.After.CreditsPosted)
		debits, over := add(c.After.DebitsPosted, c.After.DebitsPending)
		if c.Account.Kind != Mint && (over != 0 || debits > c.After.CreditsPosted) {
			return refuse(ErrEntry, "%v would be overdrawn", c.Account)
		}
	}
	if before != after {
		return refuse(ErrEntry, "its debits are not its credits")
	}
	return nil
}

func (f *Effects) side(s State, l Leg, id ID, debit bool) error {
	c, err := f.changed(s, id)
	if err != nil {
		return err
	}
	if free := c.After.Free(); debit && l.Move != Release && id.Kind != Mint && free < l.Amount {
		return &OverdraftError{Account: id, Have: free, Want: l.Amount}
	}
	c.After, err = c.After.apply(l, debit)
	if err != nil {
		return refuse(ErrEntry, "%v: %v", id, err)
	}
	return nil
}

// changed returns id's row, which later calls may move.
func (f *Effects) changed(s State, id ID) (*Changed, error) {
	for i := range f.Balances {
		if f.Balances[i].Account == id {
			return &f.Balances[i], nil
		}
	}
	b, err := s.Balance(id)
	if err != nil {
		return nil, err
	}
	f.Balances = append(f.Balances, Changed{Account: id, Before: b, After: b})
	return &f.Balances[len(f.Balances)-1], nil
}

// move appends a leg; nothing moves nothing.
func (f *Effects) move(how Move, from, to ID, amount record.Amount) {
	if amount > 0 {
		f.Legs = append(f.Legs, Leg{Debit: from, Credit: to, Amount: amount, Move: how})
	}
}

func refuse(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}
