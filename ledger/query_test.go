package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// rows collects a query.
func rows(t *testing.T, l *ledger.Ledger, q ledger.Query) []ledger.Row {
	t.Helper()
	var out []ledger.Row
	for row, err := range l.Query(t.Context(), q) {
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		out = append(out, row)
	}
	return out
}

// TestQuery compares every index, alone and with others, with a scan of all entries.
func TestQuery(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	apply(t, l, w.deposit(record.Credit))
	var jobs []record.Ref
	var leases []record.Ref
	for range 8 {
		w.now = w.now.Add(25 * time.Second)
		raws, job := w.whole()
		apply(t, l, raws...)
		e := must(record.Open[record.Entry](raws[1]))
		jobs, leases = append(jobs, job), append(leases, e.Value.Lease.Ref())
	}
	all := rows(t, l, ledger.Query{})
	if len(all) != 25 {
		t.Fatalf("%d rows", len(all))
	}
	start := all[0].Time
	queries := []ledger.Query{
		{Hash: must(record.Open[record.Entry](all[5].Entry)).Ref()}, {Hash: record.Ref{1}},
		{Author: public(w.gateway).ID()}, {Author: public(w.mint).ID()}, {Author: public(w.provider).ID()},
		{Node: public(w.provider).ID()}, {Node: public(w.gateway).ID()},
		{Account: public(w.tenant).ID()}, {Account: public(w.provider).ID()}, {Account: public(w.gateway).ID()},
		{Job: jobs[3]}, {Job: record.Ref{1}}, {Lease: leases[2]}, {Lease: leases[2], Job: jobs[3]}, {Lease: leases[2], Kind: record.TypeSettle},
		{Since: start + 60_000}, {Until: start + 60_000}, {Since: start + 25_001, Until: start + 100_000}, {Since: start + 50_000, Until: start + 50_001},
		{Until: 1}, {Since: start + 1e9}, {Since: 1 << 62}, {Until: 1<<63 - 1},
	}
	for k := record.TypeDeposit; k <= record.TypeCancel; k++ {
		queries = append(queries, ledger.Query{Kind: k}, ledger.Query{Kind: k, Author: public(w.gateway).ID(), Node: public(w.provider).ID()})
	}
	for _, q := range slices.Clone(queries) {
		for _, from := range []uint64{0, 7, 24, 25, 99} {
			for _, limit := range []int{0, 1, 5} {
				for _, size := range []uint64{0, 12} {
					for _, reverse := range []bool{false, true} {
						q.From, q.Limit, q.Size, q.Reverse = from, limit, size, reverse
						check(t, l, all, q)
					}
				}
			}
		}
	}
	for i := range all {
		if row, err := l.Entry(uint64(i)); err != nil || row.Index != uint64(i) || string(row.Entry) != string(all[i].Entry) {
			t.Errorf("Entry(%d) = %+v, %v", i, row, err)
		}
	}
	if _, err := l.Entry(25); err == nil {
		t.Error("Entry beyond the log")
	}
}

func check(t *testing.T, l *ledger.Ledger, all []ledger.Row, q ledger.Query) {
	t.Helper()
	var want, got []uint64
	for _, row := range all {
		after := row.Index >= q.From
		if q.Reverse {
			after = q.From == 0 || row.Index <= q.From
		}
		if after && (q.Size == 0 || row.Index < q.Size) && fits(t, row, q) {
			want = append(want, row.Index)
		}
	}
	if q.Reverse {
		slices.Reverse(want)
	}
	if q.Limit > 0 && len(want) > q.Limit {
		want = want[:q.Limit]
	}
	for _, row := range rows(t, l, q) {
		got = append(got, row.Index)
		if q.Account != (record.NodeID{}) && len(row.Moves) == 0 {
			t.Errorf("%+v: entry %d moves nothing", q, row.Index)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v: %v, want %v", q, got, want)
	}
}

// fits decides by the entry alone, and by what the world's jobs do.
func fits(t *testing.T, row ledger.Row, q ledger.Query) bool {
	e := must(record.Open[record.Entry](row.Entry))
	var job, lease record.Ref
	var seller record.NodeID
	owners := map[record.NodeID]bool{}
	switch v := e.Value; v.Kind {
	case record.TypeDeposit:
		owners[v.Deposit.To] = true
	case record.TypeJob:
		job, owners[v.Job.By()] = v.Job.Ref(), true
	case record.TypeLease:
		job, lease, seller = v.Lease.Value.Job, v.Lease.Ref(), v.Lease.Value.Bid.By()
		owners[seller] = true // what is reserved is pending for him
	case record.TypeSettle:
		r := v.Settle.Receipt
		job, lease, seller = r.Value.Job, r.Value.Lease, r.By()
		owners[seller], owners[public(newWorld().tenant).ID()] = true, true
	}
	zero := record.NodeID{}
	return (q.Hash == record.Ref{} || e.Ref() == q.Hash) && (q.Author == zero || e.By() == q.Author) && (q.Node == zero || seller == q.Node) &&
		(q.Account == zero || owners[q.Account]) && (q.Job == record.Ref{} || job == q.Job) && (q.Lease == record.Ref{} || lease == q.Lease) &&
		(q.Kind == 0 || e.Value.Kind == q.Kind) && row.Time >= q.Since && (q.Until == 0 || row.Time < q.Until)
}

// TestMoves adds a party's moves up to its balance.
func TestMoves(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	apply(t, l, w.deposit(record.Credit))
	for range 5 {
		raws, _ := w.whole()
		apply(t, l, raws...)
	}
	tenant := public(w.tenant).ID()
	var last account.Balance
	for _, row := range rows(t, l, ledger.Query{Account: tenant}) {
		for _, m := range row.Moves {
			if m.Account != (account.ID{Kind: account.Tenant, Owner: tenant}) || m.Before != last {
				t.Errorf("entry %d: %+v after %+v", row.Index, m, last)
			}
			last = m.After
		}
	}
	if b, err := l.Balance(account.ID{Kind: account.Tenant, Owner: tenant}); err != nil || b != last || b.Free() != record.Credit-30 {
		t.Errorf("balance %+v, %v; the moves lead to %+v", b, err, last)
	}
}

// TestWholeMoves adds up what each entry does to a party, the escrows of his jobs and the
// mesh. Nothing is missing but what went to other parties.
func TestWholeMoves(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	apply(t, l, w.deposit(record.Credit))
	raws, job := w.whole()
	apply(t, l, raws...)
	for name, tc := range map[string]struct {
		party record.NodeID
		want  []string // kind of entry, sum of what is his, of the rest
	}{
		"tenant":   {public(w.tenant).ID(), []string{"deposit 1000000 -1000000", "job 0 0", "lease 0 0", "settle -6 0"}},
		"provider": {public(w.provider).ID(), []string{"lease 0 0", "settle 6 0"}},
		"gateway":  {public(w.gateway).ID(), nil},
	} {
		var got []string
		for _, row := range rows(t, l, ledger.Query{Account: tc.party, Whole: true}) {
			own, rest := int64(0), int64(0)
			for _, m := range row.Moves {
				net := int64(m.After.CreditsPosted-m.Before.CreditsPosted) - int64(m.After.DebitsPosted-m.Before.DebitsPosted)
				switch owner := record.NodeID(m.Account.Owner); {
				case owner == tc.party || name == "tenant" && record.Ref(owner) == job:
					own += net
				case owner == record.NodeID{}:
					rest += net
				default:
					t.Errorf("%s: entry %d shows %v", name, row.Index, m.Account)
				}
			}
			e := must(record.Open[record.Entry](row.Entry)).Value
			if pays := row.Role&account.Payer != 0; pays != (name == "tenant") || e.Kind != record.TypeDeposit && row.Job != job {
				t.Errorf("%s: entry %d: role %b, job %v", name, row.Index, row.Role, row.Job)
			}
			got = append(got, fmt.Sprintf("%v %d %d", e.Kind, own, rest))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestAccounts compares balances at each height with the sum of the moves so far.
func TestAccounts(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	apply(t, l, w.deposit(record.Credit))
	for range 4 {
		raws, _ := w.whole()
		apply(t, l, raws...)
	}
	for _, party := range []record.NodeID{public(w.tenant).ID(), public(w.provider).ID(), {7}} {
		last := map[account.ID]account.Balance{}
		moves := rows(t, l, ledger.Query{Account: party})
		for size := uint64(1); size <= l.Head().Size; size++ {
			if len(moves) > 0 && moves[0].Index == size-1 {
				for _, m := range moves[0].Moves {
					last[m.Account] = m.After
				}
				moves = moves[1:]
			}
			got := must(l.Accounts(party, size))
			if len(got) != len(last) {
				t.Fatalf("at %d: %v, want %v", size, got, last)
			}
			for _, a := range got {
				if a.Balance != last[a.ID] {
					t.Errorf("at %d: %v has %+v, want %+v", size, a.ID, a.Balance, last[a.ID])
				}
			}
		}
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l, err := ledger.Open("mesh", w.mesh, w.keeper, w.config(vfs.NewMem()))
		if err != nil {
			t.Fatal(err)
		}
		apply(t, l, w.deposit(10), w.deposit(10))
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan uint64, 100)
		done := make(chan error, 2)
		follow := func(ctx context.Context, from uint64) {
			for row, err := range l.Follow(ctx, ledger.Query{From: from}) {
				if err != nil {
					done <- err
					return
				}
				got <- row.Index
			}
			done <- nil
		}
		go follow(ctx, 1)
		synctest.Wait()
		apply(t, l, w.deposit(10))
		synctest.Wait()
		apply(t, l, w.deposit(10))
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		go follow(context.Background(), 4)
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Follow after Close: %v", err)
		}
		close(got)
		var all []uint64
		for i := range got {
			all = append(all, i)
		}
		if fmt.Sprint(all) != "[1 2 3]" {
			t.Errorf("followed %v", all)
		}
	})
}
