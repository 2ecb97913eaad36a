package record

import (
	"bytes"
	"crypto/rand"

	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// OpenEntries opens many entries as Open does each, and verifies their signatures
// together, those of the records inside too: by the same rule, in a third of the time.
// A result is valid where its error is nil. Afresh verifies even what this process has
// made or verified before, byte for byte.
func OpenEntries(raws []Raw, afresh bool) ([]Signed[Entry], []error) {
	out, errs := make([]Signed[Entry], len(raws)), make([]error, len(raws))
	parsed, sigs := make([]loose[looseEntry], len(raws)), make([][]signature, len(raws))
	for i, raw := range raws {
		if parsed[i], errs[i] = unverified[looseEntry](raw); errs[i] == nil {
			sigs[i] = signatures(parsed[i])
		}
	}
	verifyAll(sigs, errs, afresh)
	for i := range raws {
		if errs[i] == nil {
			out[i] = entry(parsed[i])
		}
	}
	return out, errs
}

// OpenVouchers opens many vouchers as Open does each, and verifies their signatures
// together. A result is valid where its error is nil.
func OpenVouchers(raws []Raw) ([]Signed[Voucher], []error) {
	out, errs := make([]Signed[Voucher], len(raws)), make([]error, len(raws))
	parsed, sigs := make([]loose[Voucher], len(raws)), make([][]signature, len(raws))
	for i, raw := range raws {
		if parsed[i], errs[i] = unverified[Voucher](raw); errs[i] == nil {
			sigs[i] = []signature{parsed[i].signature}
		}
	}
	verifyAll(sigs, errs, false)
	for i := range raws {
		if errs[i] == nil {
			out[i] = signed(parsed[i], parsed[i].value)
		}
	}
	return out, errs
}

// verifyAll verifies the signatures of many records together, and sets the error of each
// that has one which does not verify.
func verifyAll(sigs [][]signature, errs []error, afresh bool) {
	var (
		batch  = ed25519.NewBatchVerifier()
		owners []int                                        // record of each signature
		keys   = map[PublicKey]*ed25519.ExpandedPublicKey{} // few parties sign much
	)
	for i := range sigs {
		for _, s := range sigs[i] {
			if !afresh && seen.has(s.raw) {
				continue
			}
			k, ok := keys[s.key]
			if !ok {
				var err error
				if k, err = ed25519.NewExpandedPublicKey(s.key[:]); err != nil {
					errs[i] = ErrSignature
					break
				}
				keys[s.key] = k
			}
			batch.AddExpandedWithOptions(k, s.msg, s.sig, zip215)
			owners = append(owners, i)
		}
	}
	if len(owners) == 0 {
		return
	}
	if all, each := batch.Verify(rand.Reader); !all {
		for n, ok := range each {
			if !ok {
				errs[owners[n]] = ErrSignature
			}
		}
	}
}

// A signature is what there is to verify.
type signature struct {
	key PublicKey
	msg []byte // what was signed
	sig []byte
	raw Raw // the whole record
}

// A loose is a signed record whose signature nobody has looked at yet. It never leaves
// this package.
type loose[T Record] struct {
	value T
	signature
}

// MarshalCBOR embeds the signed bytes, as Signed does.
func (l loose[T]) MarshalCBOR() ([]byte, error) { return appendBytes(nil, l.raw), nil }

// UnmarshalCBOR reads what Signed writes.
func (l *loose[T]) UnmarshalCBOR(b []byte) (err error) {
	raw, err := embedded(b)
	if err != nil {
		return err
	}
	*l, err = unverified[T](raw)
	return err
}

// signed is what l is once its signature has been verified.
func signed[T, U Record](l loose[T], value U) Signed[U] {
	return Signed[U]{Value: value, Key: l.key, raw: bytes.Clone(l.raw)}
}

// The loose twins of the records that have signed ones inside; a test holds them equal.
type (
	looseEntry struct {
		V      uint16    `cbor:"1,keyasint"`
		Kind   EntryType `cbor:"2,keyasint"`
		Stream Ref       `cbor:"3,keyasint,omitzero"`
		Seq    uint64    `cbor:"4,keyasint"`
		Idem   Ref       `cbor:"5,keyasint"`

		Approvals []loose[Approval] `cbor:"9,keyasint,omitempty"`

		Deposit *Deposit           `cbor:"10,keyasint,omitempty"`
		Job     *loose[Job]        `cbor:"11,keyasint,omitempty"`
		Lease   *loose[looseLease] `cbor:"12,keyasint,omitempty"`
		Settle  *looseSettle       `cbor:"13,keyasint,omitempty"`
		Cut     *Cut               `cbor:"14,keyasint,omitempty"`
		Close   *Close             `cbor:"15,keyasint,omitempty"`

		Transfer *Transfer `cbor:"16,keyasint,omitempty"`
		Withdraw *Withdraw `cbor:"17,keyasint,omitempty"`
		Confirm  *Confirm  `cbor:"18,keyasint,omitempty"`
		Stake    *Stake    `cbor:"19,keyasint,omitempty"`
		Unstake  *Unstake  `cbor:"20,keyasint,omitempty"`
		Vest     *Vest     `cbor:"21,keyasint,omitempty"`
		Reward   *Reward   `cbor:"22,keyasint,omitempty"`
		TopUp    *TopUp    `cbor:"23,keyasint,omitempty"`

		Cancel   *loose[Cancel] `cbor:"24,keyasint,omitempty"`
		Register *Register      `cbor:"25,keyasint,omitempty"`
		Rotate   *looseRotate   `cbor:"26,keyasint,omitempty"`
		Veto     *Veto          `cbor:"27,keyasint,omitempty"`
		Revoke   *looseRevoke   `cbor:"28,keyasint,omitempty"`
		Own      *looseOwn      `cbor:"29,keyasint,omitempty"`

		Voucher  *loose[Voucher] `cbor:"30,keyasint,omitempty"`
		Delegate *Delegation     `cbor:"31,keyasint,omitempty"`
		Adopt    *Adopt          `cbor:"32,keyasint,omitempty"`
		Change   *Change         `cbor:"33,keyasint,omitempty"`

		Evidence *Evidence `cbor:"34,keyasint,omitempty"`
	}

	looseLease struct {
		Bid     loose[Bid] `cbor:"1,keyasint"`
		Job     Ref        `cbor:"2,keyasint"`
		Shard   uint32     `cbor:"3,keyasint"`
		Attempt uint32     `cbor:"4,keyasint"`
		Epoch   uint32     `cbor:"5,keyasint"`
		Rate    Amount     `cbor:"6,keyasint"`
		Reserve Amount     `cbor:"7,keyasint"`
		Beacon  Ref        `cbor:"8,keyasint,omitzero"`
	}

	looseSettle struct {
		Receipt loose[Receipt] `cbor:"1,keyasint"`
		Voucher loose[Voucher] `cbor:"2,keyasint"`
		Last    bool           `cbor:"3,keyasint,omitempty"`
	}

	looseRotate struct {
		Next loose[Successor] `cbor:"1,keyasint"`
	}

	looseRevoke struct {
		Account NodeID            `cbor:"1,keyasint"`
		Next    *loose[Successor] `cbor:"2,keyasint,omitempty"`
	}

	looseOwn struct {
		Node *loose[Owned] `cbor:"1,keyasint,omitempty"`
		Let  NodeID        `cbor:"2,keyasint,omitzero"`
	}
)

// Type implements Record.
func (looseEntry) Type() Type { return Entry{}.Type() }

// Type implements Record.
func (looseLease) Type() Type { return Lease{}.Type() }

// signatures are the entry's own and those inside.
func signatures(l loose[looseEntry]) []signature {
	out, e := []signature{l.signature}, l.value
	for _, a := range e.Approvals {
		out = append(out, a.signature)
	}
	if e.Job != nil {
		out = append(out, e.Job.signature)
	}
	if e.Lease != nil {
		out = append(out, e.Lease.signature, e.Lease.value.Bid.signature)
	}
	if e.Settle != nil {
		out = append(out, e.Settle.Receipt.signature, e.Settle.Voucher.signature)
	}
	if e.Cancel != nil {
		out = append(out, e.Cancel.signature)
	}
	if e.Voucher != nil {
		out = append(out, e.Voucher.signature)
	}
	if e.Rotate != nil {
		out = append(out, e.Rotate.Next.signature)
	}
	if e.Revoke != nil && e.Revoke.Next != nil {
		out = append(out, e.Revoke.Next.signature)
	}
	if e.Own != nil && e.Own.Node != nil {
		out = append(out, e.Own.Node.signature)
	}
	return out
}

// entry is the entry, all of whose signatures have been verified.
func entry(l loose[looseEntry]) Signed[Entry] {
	v := l.value
	e := Entry{V: v.V, Kind: v.Kind, Stream: v.Stream, Seq: v.Seq, Idem: v.Idem, Deposit: v.Deposit, Cut: v.Cut, Close: v.Close,
		Transfer: v.Transfer, Withdraw: v.Withdraw, Confirm: v.Confirm, Stake: v.Stake, Unstake: v.Unstake, Vest: v.Vest,
		Reward: v.Reward, TopUp: v.TopUp, Register: v.Register, Veto: v.Veto,
		Voucher: whole(v.Voucher), Delegate: v.Delegate, Adopt: v.Adopt, Change: v.Change, Evidence: v.Evidence}
	for _, a := range v.Approvals {
		e.Approvals = append(e.Approvals, signed(a, a.value))
	}
	e.Job = whole(v.Job)
	if v.Lease != nil {
		b := v.Lease.value
		lease := signed(*v.Lease, Lease{
			Bid: signed(b.Bid, b.Bid.value), Job: b.Job, Shard: b.Shard, Attempt: b.Attempt, Epoch: b.Epoch,
			Rate: b.Rate, Reserve: b.Reserve, Beacon: b.Beacon,
		})
		e.Lease = &lease
	}
	if s := v.Settle; s != nil {
		e.Settle = &Settle{Receipt: signed(s.Receipt, s.Receipt.value), Voucher: signed(s.Voucher, s.Voucher.value), Last: s.Last}
	}
	e.Cancel = whole(v.Cancel)
	keysOf(v, &e)
	return signed(l, e)
}

// whole is what p is once its signature has been verified; nil stays nil.
func whole[T Record](p *loose[T]) *Signed[T] {
	if p == nil {
		return nil
	}
	s := signed(*p, p.value)
	return &s
}

// keysOf fills in the bodies about keys.
func keysOf(v looseEntry, e *Entry) {
	if v.Rotate != nil {
		e.Rotate = &Rotate{Next: *whole(&v.Rotate.Next)}
	}
	if v.Revoke != nil {
		e.Revoke = &Revoke{Account: v.Revoke.Account, Next: whole(v.Revoke.Next)}
	}
	if v.Own != nil {
		e.Own = &Own{Node: whole(v.Own.Node), Let: v.Own.Let}
	}
}
