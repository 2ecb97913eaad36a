package ledger

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/mod/sumdb/tlog"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// The keys of the store; every number is big-endian, so keys sort by it. Only e/ is
// truth: all else follows from it and Verify recomputes it.
const (
	keyEntry   = "e/" // index → encoded record.Leaf
	keyHash    = "t/" // tlog's stored hash index → hash
	keyRef     = "h/" // Ref of the signed entry → index
	keySeq     = "a/" // author, stream, seq → index
	keyIdem    = "k/" // author, idem → index, hash of the entry without its seq
	keyBalance = "c/" // kind, owner, index → balance after
	keyJob     = "j/" // job, index
	keyLease   = "l/" // lease, index
	keyNode    = "n/" // party, index → its roles
	keyKind    = "y/" // entry type, index
	keyMinute  = "d/" // minute of ledger time, index

	stateBalance = "s/b/" // kind, owner → balance
	stateSeq     = "s/q/" // author, stream → next seq
	stateJob     = "s/j/" // job → account.Job
	stateTask    = "s/t/" // job, shard → account.TaskState
	stateLease   = "s/l/" // lease → account.Lease
	stateDeposit = "s/x/" // SHA-256 of an external reference → index
	stateMinted  = "s/d/" // day → amount
	stateFact    = "s/f/" // kind, of whom → what else the rules remember, in CBOR

	metaFormat = "m/format" // version, mesh id
	metaHead   = "m/head"   // size, root, time
	metaMark   = "m/mark"   // of the order that the last batch came by; see Place
)

// format is the version of this layout.
const format = 1

func key(prefix string, parts ...[]byte) []byte {
	k := make([]byte, 0, 96)
	k = append(k, prefix...)
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

func u64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
func u32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func accountKey(prefix string, id account.ID) []byte {
	return key(prefix, []byte{byte(id.Kind)}, id.Owner[:])
}

func taskKey(t account.Task) []byte { return key(stateTask, t.Job[:], u32(t.Shard)) }

func factKey(n account.Name) []byte { return key(stateFact, []byte{byte(n.Kind)}, n.Of[:]) }

func depositKey(external string) []byte {
	h := sha256.Sum256([]byte(external))
	return key(stateDeposit, h[:])
}

// A placed is an entry and where it stands.
type placed struct {
	index uint64
	time  record.Millis
	entry record.Signed[record.Entry]
	leaf  []byte     // encoded record.Leaf
	body  record.Ref // hash of the entry without its seq
}

// derive puts everything that follows from p and its effects, but the tree.
func derive(put func(k, v []byte), p placed, f account.Effects) error {
	at, by, e, ref := u64(p.index), p.entry.By(), p.entry.Value, p.entry.Ref()
	put(key(keyEntry, at), p.leaf)
	put(key(keyRef, ref[:]), at)
	put(key(keySeq, by[:], e.Stream[:], u64(e.Seq)), at)
	put(key(stateSeq, by[:], e.Stream[:]), u64(e.Seq+1))
	put(key(keyIdem, by[:], e.Idem[:]), append(u64(p.index), p.body[:]...))
	put(key(keyKind, []byte{byte(e.Kind >> 8), byte(e.Kind)}, at), nil)
	put(key(keyMinute, u64(uint64(p.time)/60_000), at), nil)
	roles := map[record.NodeID]account.Role{by: account.Author}
	for _, party := range f.Parties {
		roles[party.ID] |= party.Role
	}
	for id, role := range roles {
		put(key(keyNode, id[:], at), []byte{byte(role)})
	}
	if f.Job != (record.Ref{}) {
		put(key(keyJob, f.Job[:], at), nil)
	}
	if f.Lease != (record.Ref{}) {
		put(key(keyLease, f.Lease[:], at), nil)
	}
	for _, c := range f.Balances {
		v, err := c.After.AppendBinary(nil)
		if err != nil {
			return err
		}
		put(append(accountKey(keyBalance, c.Account), at...), v)
		put(accountKey(stateBalance, c.Account), v)
	}
	return deriveState(put, at, f)
}

// deriveState puts the states that the rules will look at.
func deriveState(put func(k, v []byte), at []byte, f account.Effects) error {
	if f.External != "" {
		put(depositKey(f.External), at)
		put(key(stateMinted, u32(f.Day)), u64(uint64(f.Minted)))
	}
	one := func(k []byte, v any) error {
		b, err := record.Encode(v)
		if err == nil {
			put(k, b)
		}
		return err
	}
	for _, x := range f.Facts {
		if err := one(factKey(x.Name), x.Value); err != nil {
			return err
		}
	}
	if f.JobAfter != nil {
		if err := one(key(stateJob, f.Job[:]), f.JobAfter); err != nil {
			return err
		}
	}
	if f.TaskAfter != nil {
		if err := one(taskKey(f.Task), f.TaskAfter); err != nil {
			return err
		}
	}
	if f.LeaseAfter != nil {
		return one(key(stateLease, f.Lease[:]), f.LeaseAfter)
	}
	return nil
}

// deriveTree puts the hashes that a leaf adds to the tree.
func deriveTree(put func(k, v []byte), p placed, e *edge) {
	first := uint64(tlog.StoredHashIndex(0, int64(p.index)))
	for i, h := range e.add(p.index, p.leaf) {
		put(key(keyHash, u64(first+uint64(i))), h[:])
	}
}

// bodyHash hashes an entry without its number, by which two of one idem are compared.
func bodyHash(e record.Entry) (record.Ref, error) {
	e.Seq = 0
	b, err := record.Encode(e)
	return sha256.Sum256(b), err
}
