package books_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"idlemesh/ledger/account"
	"idlemesh/ledger/books"
	"idlemesh/ledger/record"
)

var (
	me, you = record.NodeID{1}, record.NodeID{2}
	job     = record.Ref{3}
	start   = record.At(time.Date(2026, 12, 30, 10, 0, 0, 0, time.UTC))
)

func of(k account.Kind, owner [32]byte) account.ID { return account.ID{Kind: k, Owner: owner} }

func TestPost(t *testing.T) {
	type moves = []books.Move
	for name, tc := range map[string]struct {
		kind  string
		pays  bool
		moves moves
		want  string
	}{
		"a deposit": {"deposit", true, moves{{of(account.Tenant, me), 0, 100}, {of(account.Mint, [32]byte{}), 100, 0}},
			"assets:available 100, equity:mint -100"},
		"a deposit to another": {"deposit", false, moves{{of(account.Tenant, you), 0, 100}}, ""},
		"an escrow": {"job", true, moves{{of(account.Tenant, me), 10, 0}, {of(account.Escrow, job), 0, 10}},
			"assets:available -10, assets:escrow 10"},
		"a reserve posts nothing": {"lease", true, moves{{of(account.Escrow, job), 0, 0}}, ""},
		"what a tenant pays": {"settle", true, moves{{of(account.Tenant, me), 0, 3}, {of(account.Escrow, job), 10, 0}, {of(account.Fees, [32]byte{}), 0, 1}},
			"assets:available 3, assets:escrow -10, expenses:fees 1, expenses:compute 6"},
		"without a refund": {"settle", true, moves{{of(account.Escrow, job), 7, 0}}, "assets:escrow -7, expenses:compute 7"},
		"what a provider earns": {"settle", false, moves{{of(account.Provider, me), 0, 6}, {of(account.Holdback, me), 0, 1}, {of(account.Fees, [32]byte{}), 0, 1}},
			"assets:earned 6, assets:held 1, income:compute -7"},
		"one's own node": {"settle", true, moves{{of(account.Tenant, me), 0, 3}, {of(account.Provider, me), 0, 6}, {of(account.Escrow, job), 10, 0}, {of(account.Fees, [32]byte{}), 0, 1}},
			"assets:available 3, assets:earned 6, assets:escrow -10, expenses:fees 1"},
		"another's escrow":  {"settle", false, moves{{of(account.Provider, me), 0, 6}, {of(account.Escrow, job), 10, 0}}, "assets:earned 6, income:compute -6"},
		"a gift":            {"transfer", false, moves{{of(account.Tenant, me), 0, 5}}, "assets:available 5, income:transfer -5"},
		"given away":        {"transfer", false, moves{{of(account.Provider, me), 5, 0}}, "assets:earned -5, expenses:transfer 5"},
		"between one's own": {"transfer", false, moves{{of(account.Provider, me), 5, 0}, {of(account.Tenant, me), 0, 5}}, "assets:earned -5, assets:available 5"},
		"paid out":          {"withdraw-end", false, moves{{of(account.Tenant, me), 5, 0}, {of(account.Mint, [32]byte{}), 0, 5}}, "assets:available -5, equity:mint 5"},
		"a slash":           {"slash", false, moves{{of(account.Stake, me), 5, 0}, {of(account.Insurance, [32]byte{}), 0, 5}}, "assets:stake -5, expenses:slash 5"},
	} {
		l, err := books.Post(me, books.Entry{Kind: tc.kind, Job: job, Pays: tc.pays, Moves: tc.moves})
		var got []string
		sum := int64(0)
		for _, p := range l.Postings {
			got, sum = append(got, fmt.Sprintf("%s %d", p.Account, p.Amount)), sum+p.Amount
		}
		if s := strings.Join(got, ", "); err != nil || sum != 0 || s != tc.want {
			t.Errorf("%s: %s, %v; want %s", name, s, err, tc.want)
		}
	}
	_, err := books.Post(me, books.Entry{Moves: moves{{of(account.Tenant, me), 0, 1 << 63}}})
	if !errors.Is(err, books.ErrAmount) {
		t.Errorf("a deposit of 2^63: %v", err)
	}
}

// history is a party's life by chance: deposits, jobs of his and of others, transfers. It
// returns what the accounts hold in the end.
func history(n int) (entries []books.Entry, accounts []books.Move) {
	rng := rand.New(rand.NewPCG(3, 4))
	have := map[account.ID]*books.Move{}
	add := func(kind string, pays bool, moves ...books.Move) {
		at := start + record.Millis(len(entries))*3_600_000
		entries = append(entries, books.Entry{Index: uint64(len(entries)), Time: at, Kind: kind, Job: job, Pays: pays, Moves: moves})
		for _, m := range moves {
			if have[m.Account] == nil {
				have[m.Account] = &books.Move{Account: m.Account}
			}
			have[m.Account].Debit += m.Debit
			have[m.Account].Credit += m.Credit
		}
	}
	tenant, provider, held, escrow := of(account.Tenant, me), of(account.Provider, me), of(account.Holdback, me), of(account.Escrow, job)
	for range n {
		a := record.Amount(rng.Uint64N(5e6) + 100)
		switch rng.IntN(4) {
		case 0:
			add("deposit", true, books.Move{Account: tenant, Credit: a}, books.Move{Account: of(account.Mint, [32]byte{}), Debit: a})
		case 1:
			add("job", true, books.Move{Account: tenant, Debit: a}, books.Move{Account: escrow, Credit: a})
			add("settle", true, books.Move{Account: tenant, Credit: a / 3}, books.Move{Account: escrow, Debit: a}, books.Move{Account: of(account.Fees, [32]byte{}), Credit: a / 50})
		case 2:
			add("settle", false, books.Move{Account: provider, Credit: a}, books.Move{Account: held, Credit: a / 10})
		case 3:
			add("transfer", false, books.Move{Account: provider, Debit: a}, books.Move{Account: tenant, Credit: a})
		}
	}
	for _, m := range have {
		accounts = append(accounts, *m)
	}
	return entries, accounts
}

func statement(t *testing.T, since, until record.Millis) *books.Statement {
	t.Helper()
	entries, accounts := history(60)
	s := books.NewStatement(me, since, until)
	for _, e := range entries {
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(accounts); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStatement(t *testing.T) {
	whole, part := statement(t, 0, start+1e10), statement(t, start+20*3_600_000, start+1e10)
	if len(whole.Opening) != 0 || len(part.Opening) == 0 || len(part.Lines) >= len(whole.Lines) || !reflect.DeepEqual(whole.Closing, part.Closing) {
		t.Errorf("a part of it: opening %v, %d of %d lines, closing %v, want %v", part.Opening, len(part.Lines), len(whole.Lines), part.Closing, whole.Closing)
	}
	now := books.Balances{}
	for _, p := range part.Opening {
		now[p.Account] = p.Amount
	}
	for _, l := range part.Lines {
		if err := now.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	if got := now.Own(); !reflect.DeepEqual(got, part.Closing) {
		t.Errorf("opening and lines lead to %v, closing is %v", got, part.Closing)
	}
	entries, accounts := history(60)
	for what, wrong := range map[string]func(){
		"an entry is left out": func() { entries = append(entries[:7:7], entries[8:]...) },
		"a balance is changed": func() { accounts[0].Credit++; accounts[1].Credit++; accounts[2].Credit++ },
	} {
		entries, accounts = history(60)
		wrong()
		s := books.NewStatement(me, 0, start)
		for _, e := range entries {
			if err := s.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(accounts); !errors.Is(err, books.ErrBooks) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMonths(t *testing.T) {
	s := statement(t, 0, start+1e10)
	months := books.Months(me, s.Opening, s.Lines)
	if len(months) != 2 || months[0].Month != "2026-12" || months[1].Month != "2027-01" {
		t.Fatalf("%+v", months)
	}
	closing := int64(0)
	for _, p := range s.Closing {
		closing += p.Amount
	}
	before := int64(0)
	for _, m := range months {
		if m.Opening != before || m.Closing != m.Opening+m.Deposited-m.Withdrawn+m.Earned-m.Spent-m.Fees+m.Other {
			t.Errorf("%+v does not add up", m)
		}
		before = m.Closing
	}
	if before != closing {
		t.Errorf("the last month closes at %d, the statement at %d", before, closing)
	}
}

func TestCSV(t *testing.T) {
	s := statement(t, start+20*3_600_000, start+1e10)
	var b strings.Builder
	if err := s.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for _, r := range rows[1:] {
		last[r[4]] = r[6]
	}
	for _, p := range s.Closing {
		if last[string(p.Account)] != books.Credits(p.Amount) {
			t.Errorf("%s ends with %s, want %s", p.Account, last[string(p.Account)], books.Credits(p.Amount))
		}
	}
}

// TestPrograms has the programs that the files are for read them and check the balances
// at their end, and find a file that is wrong.
func TestPrograms(t *testing.T) {
	s := statement(t, start+20*3_600_000, start+1e10)
	for program, tc := range map[string]struct {
		write func(*books.Statement, *strings.Builder) error
		args  []string
	}{
		"ledger":     {func(s *books.Statement, b *strings.Builder) error { return s.WriteLedger(b) }, []string{"--args-only", "-f", "FILE", "balance"}},
		"hledger":    {func(s *books.Statement, b *strings.Builder) error { return s.WriteLedger(b) }, []string{"-f", "FILE", "check"}},
		"bean-check": {func(s *books.Statement, b *strings.Builder) error { return s.WriteBeancount(b) }, []string{"FILE"}},
	} {
		t.Run(program, func(t *testing.T) {
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("%s is not installed", program)
			}
			run := func(s *books.Statement) error {
				var b strings.Builder
				if err := tc.write(s, &b); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(t.TempDir(), "books.beancount")
				if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				args := strings.Split(strings.ReplaceAll(strings.Join(tc.args, "\n"), "FILE", file), "\n")
				out, err := exec.Command(program, args...).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			}
			if err := run(s); err != nil {
				t.Error(err)
			}
			wrong := *s
			wrong.Closing = append([]books.Posting{}, s.Closing...)
			wrong.Closing[0].Amount++
			if run(&wrong) == nil {
				t.Error("a wrong closing balance is not found")
			}
		})
	}
}

func ExampleStatement() {
	s := books.NewStatement(me, start, start+86_400_000)
	s.Add(books.Entry{Index: 4, Time: start, Kind: "deposit", Moves: []books.Move{
		{Account: account.ID{Kind: account.Tenant, Owner: me}, Credit: 5 * record.Credit},
		{Account: account.ID{Kind: account.Mint}, Debit: 5 * record.Credit},
	}})
	s.Close([]books.Move{{Account: account.ID{Kind: account.Tenant, Owner: me}, Credit: 5 * record.Credit}})
	var b strings.Builder
	s.WriteLedger(&b)
	_, journal, _ := strings.Cut(b.String(), "\n\n")
	fmt.Print(journal)
	// Output:
	// 2026-12-30 * deposit  ; entry:4
	//     assets:available                  5.000000 CREDIT
	//     equity:mint                       -5.000000 CREDIT
	//
	// 2026-12-30 * closing balances
	//     assets:available                  0 CREDIT = 5.000000 CREDIT
}
