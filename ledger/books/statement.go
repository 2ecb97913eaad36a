package books

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"idlemesh/ledger/record"
)

// A Statement is what happened to a party's accounts in a period.
type Statement struct {
	Party        record.NodeID
	Since, Until record.Millis // Until is exclusive
	Opening      []Posting
	Lines        []Line
	Closing      []Posting

	balances Balances
	begun    bool // the opening balances are known
}

// NewStatement returns the empty statement of a period. Give it every entry of the party
// up to the period's end, in order.
func NewStatement(party record.NodeID, since, until record.Millis) *Statement {
	return &Statement{Party: party, Since: since, Until: until, balances: Balances{}}
}

// Add posts an entry. What is before the period counts for the opening balances only.
func (s *Statement) Add(e Entry) error {
	l, err := Post(s.Party, e)
	if err != nil {
		return err
	}
	if e.Time >= s.Since {
		s.begin()
	}
	if err := s.balances.Add(l); err != nil {
		return err
	}
	if e.Time >= s.Since && len(l.Postings) > 0 {
		s.Lines = append(s.Lines, l)
	}
	return nil
}

func (s *Statement) begin() {
	if !s.begun {
		s.begun, s.Opening = true, s.balances.Own()
	}
}

// Close computes the closing balances, and holds them to what the ledger says of the
// party's accounts at the period's end.
func (s *Statement) Close(accounts []Move) error {
	s.begin()
	s.Closing = s.balances.Own()
	return s.balances.Check(s.Party, accounts)
}

// A Sum is what a party's accounts came to in one month, in µcredits.
type Sum struct {
	Month   string // 2026-12, UTC
	Party   record.NodeID
	Opening int64 // of all own accounts together
	// Deposited and Withdrawn are what came from the mint and went to it.
	Deposited, Withdrawn int64
	Earned               int64 // by computing
	Spent, Fees          int64 // on computing, and to the mesh
	Other                int64 // gained otherwise, less what was lost otherwise
	Closing              int64
}

// Months returns the sums of each month that the lines touch, in order. They must be of
// one party, and start with the opening balances given.
func Months(party record.NodeID, opening []Posting, lines []Line) []Sum {
	total := int64(0)
	for _, p := range opening {
		total += p.Amount
	}
	var out []Sum
	for _, l := range lines {
		month := l.Time.Time().Format("2006-01")
		if n := len(out); n == 0 || out[n-1].Month != month {
			out = append(out, Sum{Month: month, Party: party, Opening: total, Closing: total})
		}
		s := &out[len(out)-1]
		for _, p := range l.Postings {
			s.add(p)
		}
		total = s.Closing
	}
	return out
}

func (s *Sum) add(p Posting) {
	switch n := p.Amount; {
	case p.Account.own():
		s.Closing += n
	case p.Account == Mint && n < 0:
		s.Deposited -= n
	case p.Account == Mint:
		s.Withdrawn += n
	case p.Account == Fees:
		s.Fees += n
	case p.Account == "income:"+Compute:
		s.Earned -= n
	case p.Account == "expenses:"+Compute:
		s.Spent += n
	default:
		s.Other -= n
	}
}

// Month returns the first moment of a month such as 2026-12 and that of the next, UTC.
func Month(s string) (since, until record.Millis, err error) {
	t, err := time.Parse("2006-01", s)
	if err != nil {
		return 0, 0, fmt.Errorf("%q is not a month: want one like 2026-12", s)
	}
	return record.At(t), record.At(t.AddDate(0, 1, 0)), nil
}

// names returns every account that a statement uses, sorted.
func (s *Statement) names() []Name {
	seen := map[Name]bool{opening: true}
	for _, p := range append(slices.Clone(s.Opening), s.Closing...) {
		seen[p.Account] = true
	}
	for _, l := range s.Lines {
		for _, p := range l.Postings {
			seen[p.Account] = true
		}
	}
	var out []Name
	for n := range seen {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b Name) int { return strings.Compare(string(a), string(b)) })
	return out
}
