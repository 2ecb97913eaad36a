package plan

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"idlemesh/ledger/record"
)

func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, 31), n))
}

func node(n byte) record.NodeID { return record.IDOf(key(n).Public().(ed25519.PublicKey)) }

func sign[T record.Record](t testing.TB, n byte, v T) record.Signed[T] {
	t.Helper()
	s, err := record.Sign(key(n), v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func job(t testing.TB, shards, retries uint32, total record.Amount) record.Entry {
	j := sign(t, 0, record.Job{Shards: shards, Retries: retries, MaxTotal: total, Expires: 1_000_000})
	return record.Entry{Kind: record.TypeJob, Job: &j}
}

func lease(t testing.TB, job record.Ref, shard, attempt uint32, by byte, reserve record.Amount) record.Entry {
	bid := sign(t, by, record.Bid{Job: job})
	l := sign(t, 0, record.Lease{Bid: bid, Job: job, Shard: shard, Attempt: attempt, Reserve: reserve})
	return record.Entry{Kind: record.TypeLease, Lease: &l}
}

func settle(t testing.TB, of record.Entry, end record.End, pay record.Amount, last bool) record.Entry {
	l := of.Lease.Value
	r := sign(t, 1, record.Receipt{Lease: of.Lease.Ref(), Job: l.Job, Shard: l.Shard, Attempt: l.Attempt, End: end})
	v := sign(t, 0, record.Voucher{Lease: of.Lease.Ref(), N: 1, Amount: pay})
	return record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: r, Voucher: v, Last: last}}
}

func cut(of record.Entry) record.Entry {
	return record.Entry{Kind: record.TypeCut, Cut: &record.Cut{Lease: of.Lease.Ref()}}
}

func closing(job record.Ref, why record.Reason) record.Entry {
	return record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: job, Why: why}}
}

func cancel(t testing.TB, job record.Ref) record.Entry {
	c := sign(t, 0, record.Cancel{Job: job})
	return record.Entry{Kind: record.TypeCancel, Cancel: &c}
}

func apply(t testing.TB, s *State, at record.Millis, es ...record.Entry) {
	t.Helper()
	for _, e := range es {
		if err := s.Apply(at, e); err != nil {
			t.Fatalf("Apply: %v", err)
		}
	}
}

func TestOneJob(t *testing.T) {
	var s State
	open := job(t, 2, 1, 1001)
	id := open.Job.Ref()
	apply(t, &s, 10, open)
	want := []Want{{Shard: 0, Attempt: 1, Since: 10}, {Shard: 1, Attempt: 1, Since: 10}}
	if got := s.Todo(10); !reflect.DeepEqual(got, want) {
		t.Errorf("Todo = %+v, want %+v", got, want)
	}
	if got := s.Reserve(); got != 500 {
		t.Errorf("first Reserve = %d, want 500", got)
	}
	a := lease(t, id, 0, 1, 1, 500)
	apply(t, &s, 20, a)
	if got := s.Reserve(); got != 501 {
		t.Errorf("second Reserve = %d, want what is left, 501", got)
	}
	b := lease(t, id, 1, 1, 2, 501)
	apply(t, &s, 20, b, cut(a))
	if got := s.Todo(20); got != nil {
		t.Errorf("Todo = %+v in its back-off, want none", got)
	}
	want = []Want{{Shard: 0, Attempt: 2, Since: 20, Avoid: []record.NodeID{node(1)}}}
	if got := s.Todo(270); !reflect.DeepEqual(got, want) {
		t.Errorf("Todo = %+v, want %+v", got, want)
	}
	done := settle(t, b, record.Exited, 300, false)
	if s.Last(done.Settle.Receipt) {
		t.Error("Last with a task that waits")
	}
	apply(t, &s, 300, done)
	if s.Free != 701 || s.Spent != 300 || s.Reserve() != 701 {
		t.Errorf("free %d, spent %d, want 701 and 300", s.Free, s.Spent)
	}
	c := lease(t, id, 0, 2, 3, 701)
	end := settle(t, c, record.Trapped, 701, true)
	apply(t, &s, 300, c)
	if !s.Last(end.Settle.Receipt) {
		t.Error("not Last with no other task left")
	}
	if _, ok := s.End(400); ok {
		t.Error("End while a lease is live")
	}
	apply(t, &s, 500, end)
	if s.Closed != record.Finished || s.Free != 0 || s.Spent != 1001 || s.Tasks[0].Receipt == nil {
		t.Errorf("closed %v, free %d, spent %d", s.Closed, s.Free, s.Spent)
	}
}

func TestEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		total  record.Amount
		now    record.Millis
		doing  func(t *testing.T, s *State, id record.Ref)
		want   record.Reason
		stop   bool
		undone bool // not ended
	}{
		"nothing has happened": {total: 100, undone: true},
		"all done": {total: 100, want: record.Finished, doing: func(t *testing.T, s *State, id record.Ref) {
			for i := range uint32(2) {
				l := lease(t, id, i, 1, 1, 50)
				apply(t, s, 0, l, settle(t, l, record.TimedOut, 50, false))
			}
		}},
		"all done, then cancelled": {total: 100, want: record.Finished, doing: func(t *testing.T, s *State, id record.Ref) {
			for i := range uint32(2) {
				l := lease(t, id, i, 1, 1, 50)
				apply(t, s, 0, l, settle(t, l, record.Exited, 50, false))
			}
			s.Cancel()
		}},
		"no attempt left": {total: 100, want: record.GivenUp, doing: func(t *testing.T, s *State, id record.Ref) {
			l := lease(t, id, 0, 1, 1, 50)
			m := lease(t, id, 0, 2, 1, 50)
			apply(t, s, 0, l, settle(t, l, record.NodeLost, 0, false), m, cut(m))
			if s.Todo(1e5) != nil {
				t.Error("a job that gave up wants more")
			}
		}},
		"no attempt left, but one runs": {total: 100, undone: true, doing: func(t *testing.T, s *State, id record.Ref) {
			l, m, o := lease(t, id, 0, 1, 1, 50), lease(t, id, 0, 2, 1, 50), lease(t, id, 1, 1, 1, 10)
			apply(t, s, 0, l, cut(l), m, cut(m), o)
		}},
		"expired":         {total: 100, now: 1_000_001, want: record.Expired},
		"not yet expired": {total: 100, now: 1_000_000, undone: true},
		"cancelled":       {total: 100, want: record.ByTenant, doing: func(_ *testing.T, s *State, _ record.Ref) { s.Cancel() }},
		"cancelled, one runs": {total: 100, undone: true, stop: true, doing: func(t *testing.T, s *State, id record.Ref) {
			apply(t, s, 0, lease(t, id, 0, 1, 1, 50))
			s.Cancel()
		}},
		"cancelled in the log": {total: 100, want: record.ByTenant, doing: func(t *testing.T, s *State, id record.Ref) {
			apply(t, s, 0, cancel(t, id))
			if s.Todo(1) != nil {
				t.Error("a cancelled job wants more")
			}
		}},
		"cancelled in the log, lost": {total: 100, want: record.ByTenant, doing: func(t *testing.T, s *State, id record.Ref) {
			l, m := lease(t, id, 0, 1, 1, 50), lease(t, id, 0, 2, 1, 50)
			apply(t, s, 0, l, cut(l), m, cancel(t, id), cut(m))
		}},
		"stopped in its last task": {total: 100, want: record.ByTenant, doing: func(t *testing.T, s *State, id record.Ref) {
			l, m := lease(t, id, 0, 1, 1, 50), lease(t, id, 1, 1, 1, 50)
			apply(t, s, 0, l, settle(t, l, record.Exited, 50, false), m, cancel(t, id))
			last := settle(t, m, record.Cancelled, 50, false)
			if s.Last(last.Settle.Receipt) {
				t.Error("a task that was stopped finishes the job")
			}
			apply(t, s, 0, last)
		}},
		"too little for all": {total: 1, want: record.Unaffordable},
		"spent": {total: 100, want: record.Unaffordable, doing: func(t *testing.T, s *State, id record.Ref) {
			l := lease(t, id, 0, 1, 1, 100)
			apply(t, s, 0, l, settle(t, l, record.Exited, 100, false))
		}},
		"closed": {total: 100, undone: true, doing: func(t *testing.T, s *State, id record.Ref) {
			apply(t, s, 0, closing(id, record.ByTenant))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			open := job(t, 2, 1, tc.total)
			apply(t, &s, 0, open)
			if tc.doing != nil {
				tc.doing(t, &s, open.Job.Ref())
			}
			why, ok := s.End(tc.now)
			if why != tc.want || ok == tc.undone || s.Stop() != tc.stop {
				t.Errorf("End = %v, %v; Stop = %v; want %v", why, ok, s.Stop(), tc.want)
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	open := job(t, 2, 1, 100)
	id := open.Job.Ref()
	live := lease(t, id, 0, 1, 1, 50)
	over := settle(t, live, record.Exited, 50, false)
	foreign := record.Ref{9}
	for name, tc := range map[string]struct {
		before []record.Entry
		e      record.Entry
		want   error
	}{
		"before the job":           {e: live, want: ErrForeign},
		"the job again":            {before: []record.Entry{open}, e: open, want: ErrOrder},
		"another job":              {before: []record.Entry{open}, e: job(t, 3, 1, 1), want: ErrForeign},
		"a lease of another":       {before: []record.Entry{open}, e: lease(t, foreign, 0, 1, 1, 1), want: ErrForeign},
		"a shard too many":         {before: []record.Entry{open}, e: lease(t, id, 2, 1, 1, 1), want: ErrForeign},
		"a lease again":            {before: []record.Entry{open, live}, e: live, want: ErrOrder},
		"a second attempt at once": {before: []record.Entry{open, live}, e: lease(t, id, 0, 2, 1, 1), want: ErrOrder},
		"an attempt left out":      {before: []record.Entry{open}, e: lease(t, id, 0, 2, 1, 1), want: ErrOrder},
		"more than is free":        {before: []record.Entry{open, live}, e: lease(t, id, 1, 1, 1, 51), want: ErrOrder},
		"a receipt of no lease":    {before: []record.Entry{open}, e: over, want: ErrOrder},
		"a receipt again":          {before: []record.Entry{open, live, over}, e: over, want: ErrOrder},
		"more than the reserve":    {before: []record.Entry{open, live}, e: settle(t, live, record.Exited, 51, false), want: ErrOrder},
		"last, but not":            {before: []record.Entry{open, live}, e: settle(t, live, record.Exited, 1, true), want: ErrOrder},
		"a cut of no lease":        {before: []record.Entry{open}, e: cut(live), want: ErrForeign},
		"a cut after the receipt":  {before: []record.Entry{open, live, over}, e: cut(live), want: ErrForeign},
		"closed with a lease":      {before: []record.Entry{open, live}, e: closing(id, record.ByTenant), want: ErrOrder},
		"closed twice":             {before: []record.Entry{open, closing(id, record.ByTenant)}, e: closing(id, record.ByTenant), want: ErrOrder},
		"closed by another":        {before: []record.Entry{open}, e: closing(foreign, record.ByTenant), want: ErrForeign},
		"a lease after the end":    {before: []record.Entry{open, closing(id, record.ByTenant)}, e: live, want: ErrOrder},
		"a cancel again":           {before: []record.Entry{open, cancel(t, id)}, e: cancel(t, id), want: ErrOrder},
		"a cancel after the end":   {before: []record.Entry{open, closing(id, record.Expired)}, e: cancel(t, id), want: ErrOrder},
		"a cancel of another":      {before: []record.Entry{open}, e: cancel(t, foreign), want: ErrForeign},
		"a cancel before the job":  {e: cancel(t, id), want: ErrForeign},
		"a deposit":                {before: []record.Entry{open}, e: record.Entry{Kind: record.TypeDeposit}, want: ErrForeign},
		"a body that is missing":   {before: []record.Entry{open}, e: record.Entry{Kind: record.TypeLease}, want: ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			var s, twin State
			apply(t, &s, 0, tc.before...)
			apply(t, &twin, 0, tc.before...)
			if err := s.Apply(0, tc.e); !errors.Is(err, tc.want) {
				t.Errorf("Apply: %v, want %v", err, tc.want)
			}
			if !reflect.DeepEqual(s, twin) {
				t.Errorf("a refused entry changed the state:\n%+v\n%+v", s, twin)
			}
		})
	}
	for _, n := range []uint32{0, MaxShards + 1} {
		var s State
		if err := s.Apply(0, job(t, n, 0, 1)); err == nil {
			t.Errorf("%d shards are accepted", n)
		}
	}
}

func TestBackOff(t *testing.T) {
	var s State
	open := job(t, 1, 100, 100)
	apply(t, &s, 0, open)
	var waits []record.Millis
	for i := range uint32(30) {
		l := lease(t, open.Job.Ref(), 0, i+1, byte(i), 1)
		apply(t, &s, 0, l, cut(l))
		waits = append(waits, s.Tasks[0].NotTill)
	}
	if want := []record.Millis{250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000}; !slices.Equal(waits[:9], want) || waits[29] != 30_000 {
		t.Errorf("waits %v, want %v and no longer", waits, want)
	}
	if todo := s.Todo(30_000); len(todo) != 1 || len(todo[0].Avoid) != maxLost || todo[0].Avoid[7] != node(29) {
		t.Errorf("Todo = %+v, want the last eight to avoid", todo)
	}
}

// Whatever happens to a job's tasks, in any order, its money adds up, every task can
// start while nothing was spent, and entries seen twice change nothing.
func TestAnyInterleaving(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for range 150 {
		run(t, r)
	}
}

func run(t *testing.T, r *rand.Rand) {
	shards := uint32(1 + r.IntN(5))
	total := record.Amount(shards) + record.Amount(r.IntN(1000))
	open := job(t, shards, uint32(r.IntN(3)), total)
	var s State
	apply(t, &s, 0, open)
	var past, live []record.Entry
	past = append(past, open)
	when := r.IntN(30)
	for now := record.Millis(1); ; now += 60_000 / 7 {
		if why, ok := s.End(now); ok {
			last := closing(s.ID, why)
			apply(t, &s, now, last)
			check(t, &s, total, append(past, last))
			return
		}
		if s.Closed != 0 {
			check(t, &s, total, past)
			return
		}
		var e record.Entry
		todo := s.Todo(now)
		when--
		switch {
		case when == 0:
			e = cancel(t, s.ID)
		case len(todo) > 0 && (len(live) == 0 || r.IntN(2) == 0) && s.Reserve() > 0:
			w := todo[r.IntN(len(todo))]
			e = lease(t, s.ID, w.Shard, w.Attempt, byte(r.IntN(4)), s.Reserve())
			live = append(live, e)
		case len(live) > 0:
			i := r.IntN(len(live))
			l := live[i]
			live = slices.Delete(live, i, i+1)
			reserve := l.Lease.Value.Reserve
			if e = cut(l); r.IntN(3) > 0 {
				end := record.Exited + record.End(r.IntN(int(record.NodeLost)))
				e = settle(t, l, end, record.Amount(r.Uint64N(uint64(reserve)+1)), false)
				e.Settle.Last = s.Last(e.Settle.Receipt)
			}
		default:
			continue
		}
		apply(t, &s, now, e)
		past = append(past, e)
		check(t, &s, total, past)
	}
}

func check(t *testing.T, s *State, total record.Amount, past []record.Entry) {
	t.Helper()
	sum := s.Free + s.Spent
	var count [4]int
	for _, k := range s.Tasks {
		sum += k.Reserve
		count[k.Phase]++
		if (k.Phase == Done) != (k.Receipt != nil) || k.Attempt > s.Job.Value.Retries+1 || (k.Phase != Leased && k.Reserve > 0) {
			t.Fatalf("task %+v", k)
		}
	}
	if sum != total || count != s.count || len(s.shard) != count[Leased] {
		t.Fatalf("%d of %d, phases %v, counted %v, %d live", sum, total, count, s.count, len(s.shard))
	}
	if s.Spent == 0 && count[Waiting] > 0 && s.Reserve() == 0 {
		t.Fatalf("a task cannot start though nothing was spent: %+v", s)
	}
	for _, e := range past {
		if err := s.Apply(0, e); !errors.Is(err, ErrOrder) && !errors.Is(err, ErrForeign) {
			t.Fatalf("an entry seen twice: %v", err)
		}
	}
}

func ExampleState() {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	signed, err := record.Sign(key, record.Job{Shards: 2, MaxTotal: record.Credit, Expires: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	var s State
	if err := s.Apply(0, record.Entry{Kind: record.TypeJob, Job: &signed}); err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range s.Todo(0) {
		fmt.Printf("shard %d, attempt %d, may use %s\n", w.Shard, w.Attempt, s.Reserve())
	}
	why, ok := s.End(1001)
	fmt.Println(why, ok)
	// Output:
	// shard 0, attempt 1, may use 0.500000
	// shard 1, attempt 1, may use 0.500000
	// expired true
}

func TestBegun(t *testing.T) {
	var s State
	open := job(t, 2, 1, 100)
	apply(t, &s, 1, open)
	if s.Begun() {
		t.Error("nobody has had it")
	}
	l := lease(t, s.ID, 1, 1, 5, 10)
	apply(t, &s, 2, l, cut(l))
	if !s.Begun() {
		t.Error("one has lost it")
	}
}
