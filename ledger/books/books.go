// Package books turns what the log says of one party into bookkeeping: statements,
// monthly reports and the files of plain-text accounting programs.
//
// It is a pure function of entries and of the amounts that they moved. Every line
// balances, and a statement's closing balances are computed from its opening ones, so a
// caller can hold them to what the ledger says.
package books

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// An Entry is what the log says of one entry that moved a party's accounts.
type Entry struct {
	Index uint64
	Time  record.Millis
	Kind  string     // of the entry
	Job   record.Ref // zero where it is about none
	Pays  bool       // the job is the party's, so that its escrow is too
	Moves []Move     // of the party, of the job's escrow and of the mesh
}

// A Move is what an entry posted to one account.
type Move struct {
	Account       account.ID
	Debit, Credit record.Amount
}

// A Name is an account of the books, with colons, as accounting programs have it.
type Name string

// The accounts that a party owns.
const (
	Available Name = "assets:available" // may be spent
	Escrow    Name = "assets:escrow"    // set aside for own jobs
	Earned    Name = "assets:earned"
	Held      Name = "assets:held" // earned, but not yet payable
	Stake     Name = "assets:stake"
	Bound     Name = "assets:bound" // of any other kind
)

// Accounts on the other side. Expenses and income are named for the kind of entry,
// except those of a settlement.
const (
	Mint    Name = "equity:mint" // deposits come from it, withdrawals go to it
	Fees    Name = "expenses:fees"
	Compute Name = "compute" // under expenses or income
	opening Name = "equity:opening"
)

// A Posting changes an account of the books: above 0 is a debit, what the party has gets
// more.
type Posting struct {
	Account Name
	Amount  int64 // µcredits
}

// A Line is an entry as the books have it. Its postings add up to 0, own accounts first.
type Line struct {
	Index    uint64
	Time     record.Millis
	Kind     string
	Job      record.Ref
	Postings []Posting
}

var (
	// ErrAmount is returned for sums that no book here can hold.
	ErrAmount = errors.New("amount is too large for the books")
	// ErrBooks is returned when entries do not lead to the balances that the ledger gives.
	ErrBooks = errors.New("books do not balance")
)

// Post returns the line of an entry in party's books, with no postings where the entry
// posted nothing of his.
func Post(party record.NodeID, e Entry) (Line, error) {
	l := Line{Index: e.Index, Time: e.Time, Kind: e.Kind, Job: e.Job}
	var own, fees, mint int64
	for _, m := range e.Moves {
		n, err := net(m)
		if err != nil {
			return l, fmt.Errorf("entry %d: %w", e.Index, err)
		}
		switch name, mine := ours(party, e.Pays, e.Job, m.Account); {
		case mine:
			own += n
			l.add(name, n)
		case m.Account.Kind == account.Fees && e.Pays:
			fees += n
		case m.Account.Kind == account.Mint:
			mint += n
		}
	}
	l.add(Fees, fees)
	if mint != 0 && own+mint == 0 {
		l.add(Mint, mint)
		return l, nil
	}
	l.add(other(e.Kind, own+fees), -own-fees)
	return l, nil
}

// ours names the party's account in the books.
func ours(party record.NodeID, pays bool, job record.Ref, id account.ID) (Name, bool) {
	if id.Kind == account.Escrow {
		return Escrow, pays && record.Ref(id.Owner) == job
	}
	if record.NodeID(id.Owner) != party {
		return "", false
	}
	switch id.Kind {
	case account.Tenant:
		return Available, true
	case account.Provider:
		return Earned, true
	case account.Holdback:
		return Held, true
	case account.Stake:
		return Stake, true
	}
	return Bound, true
}

// other names the other side of what a party gained or lost.
func other(kind string, gain int64) Name {
	what := Name(kind)
	if kind == record.TypeSettle.String() || kind == record.TypeVoucher.String() {
		what = Compute
	}
	if gain < 0 {
		return "expenses:" + what
	}
	return "income:" + what
}

func (l *Line) add(to Name, n int64) {
	if n == 0 {
		return
	}
	for i := range l.Postings {
		if p := &l.Postings[i]; p.Account == to {
			p.Amount += n
			return
		}
	}
	l.Postings = append(l.Postings, Posting{to, n})
}

// limit keeps sums of a few amounts, and of their totals, within an int64.
const limit = math.MaxInt64 / 1024

func net(m Move) (int64, error) {
	if m.Debit > limit || m.Credit > limit {
		return 0, fmt.Errorf("%w: %v", ErrAmount, max(m.Debit, m.Credit))
	}
	return int64(m.Credit) - int64(m.Debit), nil
}

// Balances are what a party's own accounts hold, by name.
type Balances map[Name]int64

// Add posts a line to b.
func (b Balances) Add(l Line) error {
	for _, p := range l.Postings {
		n := b[p.Account] + p.Amount
		if n > limit || n < -limit {
			return fmt.Errorf("entry %d: %w", l.Index, ErrAmount)
		}
		b[p.Account] = n
	}
	return nil
}

// Own returns the party's own accounts in b, sorted by name.
func (b Balances) Own() []Posting {
	var out []Posting
	for name, n := range b {
		if name.own() {
			out = append(out, Posting{name, n})
		}
	}
	slices.SortFunc(out, func(a, b Posting) int { return cmpNames(a.Account, b.Account) })
	return out
}

// order is how accounts are listed.
var order = [...]Name{Available, Escrow, Earned, Held, Stake, Bound}

func (n Name) own() bool { return slices.Contains(order[:], n) }

func cmpNames(a, b Name) int { return slices.Index(order[:], a) - slices.Index(order[:], b) }

// Check compares what b has in a party's accounts with what the ledger says they hold,
// which is the sum of what was ever posted to each.
func (b Balances) Check(party record.NodeID, accounts []Move) error {
	want := Balances{}
	for _, m := range accounts {
		n, err := net(m)
		if err != nil {
			return err
		}
		if name, mine := ours(party, false, record.Ref{}, m.Account); mine {
			want[name] += n
		}
	}
	for _, name := range order {
		if name != Escrow && b[name] != want[name] { // escrows belong to jobs
			return fmt.Errorf("%w: %s comes to %d µcredits by the entries, and holds %d", ErrBooks, name, b[name], want[name])
		}
	}
	return nil
}
