package books

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"

	"idlemesh/ledger/record"
)

// Commodity is what amounts are counted in, in the files of accounting programs.
const Commodity = "CREDIT"

// Credits writes µcredits in credits with six decimals.
func Credits(n int64) string {
	if n < 0 {
		return "-" + record.Amount(-n).String()
	}
	return record.Amount(n).String()
}

func day(t record.Millis) string { return t.Time().Format(time.DateOnly) }

// text names what a line is about. It has letters, digits and dashes only.
func (l Line) text() string {
	if l.Job == (record.Ref{}) {
		return ""
	}
	return l.Job.JobID()
}

// WriteCSV writes the opening balances, a row for each change of an own account, and the
// balance of that account after it.
func (s *Statement) WriteCSV(to io.Writer) error {
	w := csv.NewWriter(to)
	w.Write([]string{"time", "entry", "kind", "job", "account", "amount", "balance", "other_side"})
	now := Balances{}
	for _, p := range s.Opening {
		now[p.Account] = p.Amount
		w.Write([]string{rfc3339(s.Since), "", "opening", "", string(p.Account), "", Credits(p.Amount), ""})
	}
	for _, l := range s.Lines {
		for _, p := range l.Postings {
			if !p.Account.own() {
				continue
			}
			now[p.Account] += p.Amount
			w.Write([]string{rfc3339(l.Time), fmt.Sprint(l.Index), l.Kind, l.text(), string(p.Account), Credits(p.Amount),
				Credits(now[p.Account]), l.otherSide()})
		}
	}
	w.Flush()
	return w.Error()
}

func rfc3339(t record.Millis) string { return t.Time().Format("2006-01-02T15:04:05.000Z07:00") }

func (l Line) otherSide() string {
	var names []string
	for _, p := range l.Postings {
		if !p.Account.own() {
			names = append(names, string(p.Account))
		}
	}
	return strings.Join(names, " ")
}

// WriteLedger writes a journal for ledger and hledger. It ends with assertions of the
// closing balances, which those programs check.
func (s *Statement) WriteLedger(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "; account %s\n; %s to %s\n\n", s.Party, rfc3339(s.Since), rfc3339(s.Until))
	first := day(s.Since)
	last := first
	if len(s.Opening) > 0 {
		s.ledgerEntry(w, first, "opening balances", balanced(s.Opening))
	}
	for _, l := range s.Lines {
		last = day(l.Time)
		s.ledgerEntry(w, last, strings.TrimSpace(fmt.Sprintf("%s %s", l.Kind, l.text()))+fmt.Sprintf("  ; entry:%d", l.Index), l.Postings)
	}
	if len(s.Closing) > 0 {
		fmt.Fprintf(w, "%s * closing balances\n", last)
		for _, p := range s.Closing {
			fmt.Fprintf(w, "    %-32s  0 %s = %s %[2]s\n", p.Account, Commodity, Credits(p.Amount))
		}
	}
	return w.Flush()
}

func (s *Statement) ledgerEntry(w io.Writer, date, title string, postings []Posting) {
	fmt.Fprintf(w, "%s * %s\n", date, title)
	for _, p := range postings {
		fmt.Fprintf(w, "    %-32s  %s %s\n", p.Account, Credits(p.Amount), Commodity)
	}
	fmt.Fprintln(w)
}

// balanced adds the other side of opening balances.
func balanced(own []Posting) []Posting {
	out, total := append([]Posting{}, own...), int64(0)
	for _, p := range own {
		total += p.Amount
	}
	return append(out, Posting{opening, -total})
}

// WriteBeancount writes a file for beancount. It ends with the closing balances as of
// the day after the last line, which that program checks.
func (s *Statement) WriteBeancount(to io.Writer) error {
	w := bufio.NewWriter(to)
	first := s.Since
	fmt.Fprintf(w, "; account %s\n; %s to %s\n\noption \"operating_currency\" \"%s\"\n\n", s.Party, rfc3339(s.Since), rfc3339(s.Until), Commodity)
	for _, n := range s.names() {
		fmt.Fprintf(w, "%s open %s\n", day(first), n.capital())
	}
	fmt.Fprintln(w)
	last := first
	if len(s.Opening) > 0 {
		beancountEntry(w, first, "opening balances", "", balanced(s.Opening))
	}
	for _, l := range s.Lines {
		last = l.Time
		beancountEntry(w, last, l.Kind, strings.TrimSpace(fmt.Sprintf("%s entry %d", l.text(), l.Index)), l.Postings)
	}
	after := day(record.At(last.Time().AddDate(0, 0, 1)))
	for _, p := range s.Closing {
		fmt.Fprintf(w, "%s balance %s  %s ~ 0 %s\n", after, p.Account.capital(), Credits(p.Amount), Commodity)
	}
	return w.Flush()
}

func beancountEntry(w io.Writer, t record.Millis, payee, text string, postings []Posting) {
	fmt.Fprintf(w, "%s * %q %q\n", day(t), payee, text)
	for _, p := range postings {
		fmt.Fprintf(w, "  %-32s  %s %s\n", p.Account.capital(), Credits(p.Amount), Commodity)
	}
	fmt.Fprintln(w)
}

// capital is the name as beancount wants it: each part with a capital letter.
func (n Name) capital() string {
	parts := strings.Split(string(n), ":")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, ":")
}
