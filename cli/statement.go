package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/account"
	"idlemesh/ledger/books"
	"idlemesh/ledger/record"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

func periodFlags() []cli.Flag {
	return append(dirFlags(),
		&cli.StringFlag{Name: "month", Usage: "of `MONTH`, such as 2026-12 (UTC)"},
		&cli.StringFlag{Name: "since", Usage: "from `TIME` on: RFC 3339, or a span before now such as 24h"},
		&cli.StringFlag{Name: "until", Usage: "before `TIME`"})
}

// period reads the period that a statement is of: all time, unless flags say less.
func period(c *cli.Context) (since, until record.Millis, err error) {
	name := prefix(full(c))
	until = record.At(time.Now()) + 1
	if c.IsSet("month") {
		if c.IsSet("since") || c.IsSet("until") {
			return 0, 0, usage("", "%s--month is a period already: leave out --since and --until", name)
		}
		since, until, err = books.Month(c.String("month"))
		if err != nil {
			return 0, 0, usage("", "%s--month: %v", name, err)
		}
		return since, until, nil
	}
	for _, f := range []struct {
		name string
		to   *record.Millis
	}{{"since", &since}, {"until", &until}} {
		if c.IsSet(f.name) {
			if *f.to, err = parseWhen(c.String(f.name)); err != nil {
				return 0, 0, usage("", "%s--%s: %v", name, f.name, err)
			}
		}
	}
	if since >= until {
		return 0, 0, usage("", "%sthe period ends before it begins", name)
	}
	return since, until, nil
}

// ownAccount is the account of this home's key.
func ownAccount(c *cli.Context) (record.NodeID, error) {
	dir, err := home(c)
	if err != nil {
		return record.NodeID{}, err
	}
	key, err := identity.Open(keyFile(dir))
	if err != nil {
		return record.NodeID{}, err
	}
	return key.ID(), nil
}

// accounts reads the accounts that a command is about; without any, the user's own.
func accounts(c *cli.Context, most int) ([]record.NodeID, error) {
	args, err := operands(c, 0, most)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		own, err := ownAccount(c)
		return []record.NodeID{own}, err
	}
	out := make([]record.NodeID, len(args))
	for i, a := range args {
		if out[i], err = record.ParseNodeID(a); err != nil {
			return nil, usage("meshctl key show", "%s%v", prefix(full(c)), err)
		}
	}
	return out, nil
}

// statementOf gathers all that moved a party's accounts until the end of a period, and
// holds the sums to the balances that the ledger had then.
func statementOf(ctx context.Context, src logSource, party record.NodeID, since, until record.Millis) (*books.Statement, error) {
	s := books.NewStatement(party, since, until)
	size, err := heightAt(ctx, src, until)
	if err != nil || size == 0 {
		return s, errors.Join(err, s.Close(nil))
	}
	for row, err := range pages(ctx, src, wire.QueryRequest{Account: party, Whole: true, Size: size}) {
		if err != nil {
			return nil, err
		}
		e, err := booksEntry(row)
		if err == nil {
			err = s.Add(e)
		}
		if err != nil {
			return nil, wire.Refuse(wire.Unverified, err.Error())
		}
	}
	b, err := src.BalanceAt(ctx, party, size)
	if err != nil {
		return nil, err
	}
	var held []books.Move
	for _, a := range b.Accounts {
		id, err := parseAccount(a.Account)
		if err != nil {
			return nil, err
		}
		held = append(held, books.Move{Account: id, Debit: a.Debit, Credit: a.Credit})
	}
	if err := s.Close(held); err != nil {
		return nil, wire.Refuse(wire.Unverified, err.Error())
	}
	return s, nil
}

// heightAt is how many entries the log had at a moment.
func heightAt(ctx context.Context, src logSource, t record.Millis) (uint64, error) {
	head, err := src.Head(ctx)
	if err != nil {
		return 0, err
	}
	for row, err := range src.Query(ctx, wire.QueryRequest{Since: t, Limit: 1}) {
		return min(row.Index, head.Size), err
	}
	return head.Size, nil
}

func booksEntry(r wire.Row) (books.Entry, error) {
	e, err := record.Open[record.Entry](r.Entry)
	if err != nil {
		return books.Entry{}, fmt.Errorf("entry %d: %w", r.Index, err)
	}
	b := books.Entry{Index: r.Index, Time: r.Time, Kind: e.Value.Kind.String(), Job: r.Job, Pays: r.Pays}
	for _, m := range r.Moves {
		id, err := parseAccount(m.Account)
		if err != nil {
			return b, fmt.Errorf("entry %d: %w", r.Index, err)
		}
		b.Moves = append(b.Moves, books.Move{Account: id, Debit: m.Debit, Credit: m.Credit})
	}
	return b, nil
}

// parseAccount reads what account.ID writes: kind:owner.
func parseAccount(s string) (id account.ID, err error) {
	kind, owner, owned := strings.Cut(s, ":")
	if id.Kind, err = account.ParseKind(kind); err != nil || !owned {
		return id, err
	}
	r, err := record.ParseRef(owner)
	id.Owner = r
	return id, err
}

func (t terminal) ledgerStatement(c *cli.Context) error {
	party, err := accounts(c, 1)
	if err != nil {
		return err
	}
	since, until, err := period(c)
	if err != nil {
		return err
	}
	as := c.String("as")
	if as != "" && !slices.Contains([]string{"csv", "ledger", "beancount"}, as) {
		return usage("", "ledger statement: --as: %q is not a format: want csv, ledger or beancount", as)
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		s, err := statementOf(ctx, src, party[0], since, until)
		if err != nil {
			return err
		}
		switch as {
		case "csv":
			return s.WriteCSV(t.out)
		case "ledger":
			return s.WriteLedger(t.out)
		case "beancount":
			return s.WriteBeancount(t.out)
		}
		return t.showStatement(c, s)
	})
}

type statementView struct {
	Account record.NodeID `json:"account"`
	Since   stamp         `json:"since"`
	Until   stamp         `json:"until"`
	Opening []postingView `json:"opening"`
	Lines   []lineView    `json:"lines"`
	Closing []postingView `json:"closing"`
}

type lineView struct {
	Entry    uint64        `json:"entry"`
	Time     stamp         `json:"time"`
	Kind     string        `json:"kind"`
	Job      *record.Ref   `json:"job,omitempty"`
	Postings []postingView `json:"postings"`
}

type postingView struct {
	Account books.Name `json:"account"`
	Amount  int64      `json:"amount_ucr"`
}

func viewPostings(ps []books.Posting) []postingView {
	out := make([]postingView, len(ps))
	for i, p := range ps {
		out[i] = postingView(p)
	}
	return out
}

func (t terminal) showStatement(c *cli.Context, s *books.Statement) error {
	v := statementView{s.Party, stamp(s.Since), stamp(s.Until), viewPostings(s.Opening), []lineView{}, viewPostings(s.Closing)}
	rows := statementRows("opening", s.Opening)
	for _, l := range s.Lines {
		line := lineView{Entry: l.Index, Time: stamp(l.Time), Kind: l.Kind, Postings: viewPostings(l.Postings)}
		if l.Job != (record.Ref{}) {
			line.Job = &l.Job
		}
		v.Lines = append(v.Lines, line)
		for _, p := range l.Postings {
			rows = append(rows, statementRow{line, p})
		}
	}
	if done, err := t.encode(c, v); done {
		return err
	}
	return list(t, c, append(rows, statementRows("closing", s.Closing)...), statementColumns[:])
}

type statementRow struct {
	line    lineView
	posting books.Posting
}

func statementRows(kind string, ps []books.Posting) (out []statementRow) {
	for _, p := range ps {
		out = append(out, statementRow{lineView{Kind: kind}, p})
	}
	return out
}

var statementColumns = [...]column[statementRow]{
	{head: "entry", cell: func(r statementRow) string {
		if r.line.Time == 0 {
			return ""
		}
		return fmt.Sprint(r.line.Entry)
	}},
	{head: "time", cell: func(r statementRow) string { return r.line.Time.String() }},
	{head: "kind", cell: func(r statementRow) string { return r.line.Kind }},
	{head: "job", cell: func(r statementRow) string {
		if r.line.Job == nil {
			return ""
		}
		return r.line.Job.JobID()
	}},
	{head: "account", cell: func(r statementRow) string { return string(r.posting.Account) }},
	{head: "amount", cell: func(r statementRow) string { return books.Credits(r.posting.Amount) }},
}

func (t terminal) ledgerReport(c *cli.Context) error {
	parties, err := accounts(c, 1000)
	if err != nil {
		return err
	}
	since, until, err := period(c)
	if err != nil {
		return err
	}
	if as := c.String("as"); as != "" && as != "csv" {
		return usage("", "ledger report: --as: %q is not a format: want csv", as)
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		rows := []sumView{}
		for _, p := range parties {
			s, err := statementOf(ctx, src, p, since, until)
			if err != nil {
				return err
			}
			for _, m := range books.Months(p, s.Opening, s.Lines) {
				rows = append(rows, sumView(m))
			}
		}
		slices.SortStableFunc(rows, func(a, b sumView) int { return strings.Compare(a.Month, b.Month) })
		if c.String("as") == "csv" {
			return t.reportCSV(rows)
		}
		return list(t, c, rows, reportColumns[:])
	})
}

type sumView struct {
	Month     string        `json:"month"`
	Party     record.NodeID `json:"account"`
	Opening   int64         `json:"opening_ucr"`
	Deposited int64         `json:"deposited_ucr"`
	Withdrawn int64         `json:"withdrawn_ucr"`
	Earned    int64         `json:"earned_ucr"`
	Spent     int64         `json:"spent_ucr"`
	Fees      int64         `json:"fees_ucr"`
	Other     int64         `json:"other_ucr"`
	Closing   int64         `json:"closing_ucr"`
}

var reportColumns = [...]column[sumView]{
	{head: "month", cell: func(v sumView) string { return v.Month }},
	{head: "account", cell: func(v sumView) string { return v.Party.Short() }},
	{head: "opening", cell: func(v sumView) string { return books.Credits(v.Opening) }},
	{head: "deposited", cell: func(v sumView) string { return books.Credits(v.Deposited) }},
	{head: "withdrawn", cell: func(v sumView) string { return books.Credits(v.Withdrawn) }},
	{head: "earned", cell: func(v sumView) string { return books.Credits(v.Earned) }},
	{head: "spent", cell: func(v sumView) string { return books.Credits(v.Spent) }},
	{head: "fees", cell: func(v sumView) string { return books.Credits(v.Fees) }},
	{head: "other", cell: func(v sumView) string { return books.Credits(v.Other) }},
	{head: "closing", cell: func(v sumView) string { return books.Credits(v.Closing) }},
}

func (t terminal) reportCSV(rows []sumView) error {
	w := csv.NewWriter(t.out)
	var head []string
	for _, col := range reportColumns {
		head = append(head, col.head)
	}
	w.Write(head)
	for _, r := range rows {
		line := []string{r.Month, r.Party.String()}
		for _, col := range reportColumns[2:] {
			line = append(line, col.cell(r))
		}
		w.Write(line)
	}
	w.Flush()
	return w.Error()
}
