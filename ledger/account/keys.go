package account

import (
	"idlemesh/ledger/record"
)

// rotateWait is how long a rotation can be vetoed, in ledger time.
const rotateWait = dayMillis

// A KeyState says which account a key belongs to. A key that is in none is an account by
// itself, under its own name.
type KeyState struct {
	Account record.NodeID `cbor:"1,keyasint,omitzero"`
}

// A Holder says which keys act for a registered account.
type Holder struct {
	Key      record.NodeID `cbor:"1,keyasint,omitzero"` // zero after a revocation without a successor
	Recovery record.NodeID `cbor:"2,keyasint"`
	Next     record.NodeID `cbor:"3,keyasint,omitzero"`  // that a rotation named
	Ripe     record.Millis `cbor:"4,keyasint,omitempty"` // when it takes Key's place, in ledger time
}

// At returns the key that acts for the account at a ledger time; zero is none.
func (h Holder) At(now record.Millis) record.NodeID {
	if h.Next != (record.NodeID{}) && now >= h.Ripe {
		return h.Next
	}
	return h.Key
}

// at is h with a rotation that is over carried out.
func (h Holder) at(now record.Millis) Holder {
	if key := h.At(now); key != h.Key {
		h.Key, h.Next, h.Ripe = key, record.NodeID{}, 0
	}
	return h
}

// AccountOf returns the account that a key belongs or belonged to. An account's name
// stands for itself.
func AccountOf(s State, key record.NodeID) (record.NodeID, error) {
	var k KeyState
	if err := s.Fact(Name{FactKey, key}, &k); err != nil {
		return key, err
	}
	if k.Account == (record.NodeID{}) {
		return key, nil
	}
	return k.Account, nil
}

// signer returns the account that a key acts for at now, and refuses one that has been
// replaced or revoked, or is not yet in force.
func signer(s State, key record.NodeID, now record.Millis) (record.NodeID, error) {
	of, err := AccountOf(s, key)
	if err != nil || of == key {
		return of, err
	}
	var h Holder
	if err := s.Fact(Name{FactHolder, of}, &h); err != nil {
		return of, err
	}
	if h.At(now) != key {
		return of, refuse(ErrAuthor, "key %s does not act for account %s: it was replaced or revoked, or its turn has not come", key.Short(), of.Short())
	}
	return of, nil
}

// payee returns who is paid what an account earns: its owner, or itself.
func payee(s State, of record.NodeID) (record.NodeID, error) {
	var owner record.NodeID
	if err := s.Fact(Name{FactOwner, of}, &owner); err != nil || owner == (record.NodeID{}) {
		return of, err
	}
	return AccountOf(s, owner) // which may have registered since
}

// own are the accounts of one party, which move together when it registers.
var own = [...]Kind{Tenant, Provider, Holdback, Stake}

// unused refuses a key that has been something in this ledger.
func unused(s State, key record.NodeID) error {
	of, err := AccountOf(s, key)
	if err != nil {
		return err
	}
	if of != key {
		return refuse(ErrOnce, "key %s is account %s's", key.Short(), of.Short())
	}
	for _, k := range own {
		b, err := s.Balance(ID{k, key})
		if err != nil {
			return err
		}
		if b != (Balance{}) {
			return refuse(ErrEntry, "key %s is an account by itself", key.Short())
		}
	}
	return nil
}

// register makes an account, and moves there what the key had by itself.
func register(t turn, r record.Register) (Effects, error) {
	to := r.Account()
	of, err := AccountOf(t, t.by)
	switch {
	case err != nil:
		return Effects{}, err
	case of != t.by:
		return Effects{}, refuse(ErrOnce, "the key is account %s's", of.Short())
	case r.Key.ID() != t.by:
		return Effects{}, refuse(ErrAuthor, "a key registers itself")
	case r.Recovery == r.Key || r.Recovery == record.PublicKey{}:
		return Effects{}, refuse(ErrEntry, "the recovery key must be another key")
	}
	f := Effects{Parties: []Party{{to, Payer}}}
	for _, k := range own {
		b, err := t.Balance(ID{k, t.by})
		if err != nil {
			return Effects{}, err
		}
		if b.DebitsPending > 0 || b.CreditsPending > 0 {
			return Effects{}, refuse(ErrEntry, "the key has leases or withdrawals that have not ended: register when they have")
		}
		f.move(Post, ID{k, t.by}, ID{k, to}, b.Free())
	}
	f.remember(FactKey, t.by, KeyState{Account: to})
	f.remember(FactHolder, to, Holder{Key: t.by, Recovery: r.Recovery.ID()})
	return f, f.take(t, t.by, to)
}

// take moves what is remembered of one account to another.
func (f *Effects) take(s State, from, to record.NodeID) error {
	var (
		v     Vesting
		l     Leaving
		owner record.NodeID
	)
	for kind, into := range map[FactKind]any{FactVesting: &v, FactLeaving: &l, FactOwner: &owner} {
		if err := s.Fact(Name{kind, from}, into); err != nil {
			return err
		}
	}
	if len(v.Days) > 0 {
		f.remember(FactVesting, from, Vesting{})
		f.remember(FactVesting, to, v)
	}
	if len(l.Parts) > 0 {
		f.remember(FactLeaving, from, Leaving{})
		f.remember(FactLeaving, to, l)
	}
	if owner != (record.NodeID{}) {
		f.remember(FactOwner, from, record.NodeID{})
		f.remember(FactOwner, to, owner)
	}
	return nil
}

// holder returns an account's keys as they are at now.
func holder(s State, of record.NodeID, now record.Millis) (Holder, error) {
	var h Holder
	if err := s.Fact(Name{FactHolder, of}, &h); err != nil {
		return h, err
	}
	if h.Recovery == (record.NodeID{}) {
		return h, refuse(ErrUnknown, "no account %s is registered", of.Short())
	}
	return h.at(now), nil
}

// succeed makes a key the next of an account, after those before it are let go.
func (f *Effects) succeed(s State, of record.NodeID, h Holder, next record.Signed[record.Successor]) error {
	key := next.By()
	switch {
	case next.Value.Account != of:
		return refuse(ErrEntry, "the next key consents to another account")
	case key == h.Recovery:
		return refuse(ErrEntry, "the recovery key cannot be the account's key as well")
	case key == h.Next:
		return nil // it is the account's already
	}
	if err := unused(s, key); err != nil {
		return err
	}
	f.remember(FactKey, key, KeyState{Account: of})
	return nil
}

// drop lets go of a key that waits to be the account's.
func (f *Effects) drop(h Holder, but record.NodeID) {
	if h.Next != (record.NodeID{}) && h.Next != but {
		f.remember(FactKey, h.Next, KeyState{})
	}
}

// rotate names an account's next key, a day ahead.
func rotate(t turn, r record.Rotate) (Effects, error) {
	h, err := holder(t, t.who, t.now)
	if err != nil {
		return Effects{}, err
	}
	f := Effects{}
	if err := f.succeed(t, t.who, h, r.Next); err != nil {
		return Effects{}, err
	}
	f.drop(h, r.Next.By())
	h.Next, h.Ripe = r.Next.By(), t.now+rotateWait
	f.remember(FactHolder, t.who, h)
	return f, nil
}

// veto ends a rotation that waits.
func veto(t turn, v record.Veto) (Effects, error) {
	h, err := holder(t, v.Account, t.now)
	switch {
	case err != nil:
		return Effects{}, err
	case t.by != h.Recovery:
		return Effects{}, refuse(ErrAuthor, "only the recovery key vetoes")
	case h.Next == record.NodeID{}:
		return Effects{}, refuse(ErrClosed, "no rotation waits")
	}
	f := Effects{Parties: []Party{{v.Account, Payer}}}
	f.drop(h, record.NodeID{})
	h.Next, h.Ripe = record.NodeID{}, 0
	f.remember(FactHolder, v.Account, h)
	return f, nil
}

// revoke ends an account's key at once.
func revoke(t turn, r record.Revoke) (Effects, error) {
	h, err := holder(t, r.Account, t.now)
	switch {
	case err != nil:
		return Effects{}, err
	case t.by != h.Recovery && t.by != h.Key:
		return Effects{}, refuse(ErrAuthor, "a key is revoked by itself or by its account's recovery key")
	case t.by != h.Recovery && r.Next != nil:
		return Effects{}, refuse(ErrAuthor, "only the recovery key names another at once")
	case r.Next == nil && h.Key == record.NodeID{}:
		return Effects{}, refuse(ErrOnce, "the account has no key")
	}
	f := Effects{Parties: []Party{{r.Account, Payer}}}
	var next record.NodeID
	if r.Next != nil {
		if err := f.succeed(t, r.Account, h, *r.Next); err != nil {
			return Effects{}, err
		}
		next = r.Next.By()
	}
	f.drop(h, next)
	f.remember(FactHolder, r.Account, Holder{Key: next, Recovery: h.Recovery})
	return f, nil
}

// ownNode makes who the owner of a node, or lets one go.
func ownNode(t turn, o record.Own) (Effects, error) {
	if o.Node == nil {
		return letNode(t, o.Let)
	}
	node, err := signer(t, o.Node.By(), t.now)
	if err != nil {
		return Effects{}, err
	}
	has, err := payee(t, node)
	if err != nil {
		return Effects{}, err
	}
	over, err := payee(t, t.who)
	switch {
	case err != nil:
		return Effects{}, err
	case o.Let != record.NodeID{}:
		return Effects{}, refuse(ErrEntry, "either a node to own or one to let go")
	case o.Node.Value.Owner != t.who:
		return Effects{}, refuse(ErrAuthor, "the node consents to another owner")
	case node == t.who:
		return Effects{}, refuse(ErrEntry, "an account does not own itself")
	case has != node:
		return Effects{}, refuse(ErrOnce, "the node has an owner: he must let it go first")
	case over != t.who:
		return Effects{}, refuse(ErrEntry, "who has an owner owns nothing")
	}
	f := Effects{Parties: []Party{{node, Seller}}}
	f.remember(FactOwner, node, t.who)
	return f, nil
}

func letNode(t turn, node record.NodeID) (Effects, error) {
	owner, err := payee(t, node)
	switch {
	case err != nil:
		return Effects{}, err
	case owner == node:
		return Effects{}, refuse(ErrUnknown, "%s has no owner", node.Short())
	case t.who != owner && t.who != node:
		return Effects{}, refuse(ErrAuthor, "a node is let go by its owner or by itself")
	}
	f := Effects{Parties: []Party{{node, Seller}, {owner, Payer}}}
	f.remember(FactOwner, node, record.NodeID{})
	return f, nil
}
