package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
)

// A slow orderer takes a second a batch, and notes what it ordered.
type slow struct {
	batches [][]string
	err     error
}

func (s *slow) Order(_ context.Context, batch []record.Raw) ([]ledger.Outcome, error) {
	time.Sleep(time.Second)
	var names []string
	outs := make([]ledger.Outcome, len(batch))
	for i, raw := range batch {
		names = append(names, string(raw))
		outs[i].Index = uint64(raw[0])
	}
	s.batches = append(s.batches, names)
	return outs, s.err
}

func raw(i int) record.Raw { return record.Raw{byte(i)} }

func TestCommitterGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := ledger.NewCommitter(s, 4)
		var wg sync.WaitGroup
		for i := range 9 {
			wg.Go(func() {
				outs, err := c.Append(t.Context(), []record.Raw{raw(i)})
				if err != nil || len(outs) != 1 || outs[0].Index != uint64(i) {
					t.Errorf("append %d: %+v, %v", i, outs, err)
				}
			})
			synctest.Wait() // so that they come in order
		}
		wg.Wait()
		// The first found nobody; the others waited for it and go by fours, in order.
		if got := fmt.Sprintf("%q", s.batches); got != `[["\x00"] ["\x01" "\x02" "\x03" "\x04"] ["\x05" "\x06" "\a" "\b"]]` {
			t.Errorf("ordered %s", got)
		}
	})
}

func TestCommitterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := ledger.NewCommitter(s, 0)
		var wg sync.WaitGroup
		add := func(ctx context.Context, i int, want error) {
			wg.Go(func() {
				if _, err := c.Append(ctx, []record.Raw{raw(i)}); !errors.Is(err, want) {
					t.Errorf("append %d: %v, want %v", i, err, want)
				}
			})
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		add(short, 1, nil) // it commits: its own ctx does not stop that
		add(short, 2, context.DeadlineExceeded)
		add(t.Context(), 3, nil)
		wg.Wait()
		if got := fmt.Sprintf("%q", s.batches); got != `[["\x01"] ["\x03"]]` {
			t.Errorf("ordered %s", got)
		}
	})
}

func TestCommitterError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{err: ledger.ErrFull}
		c := ledger.NewCommitter(s, 0)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if outs, err := c.Append(t.Context(), []record.Raw{raw(1)}); !errors.Is(err, ledger.ErrFull) || outs != nil {
					t.Errorf("append: %+v, %v", outs, err)
				}
			})
		}
		wg.Wait()
	})
}

// TestConcurrent appends from many goroutines while others read, and verifies the end.
func TestConcurrent(t *testing.T) {
	w := newWorld()
	l := w.open(t, vfs.NewMem())
	apply(t, l, w.deposit(record.Credit))
	c := ledger.NewCommitter(l, 0)
	const jobs = 40
	var wg sync.WaitGroup
	for range jobs {
		j := w.job()
		lease := w.lease(j)
		settle := w.settle(lease)
		wg.Go(func() {
			for seq, e := range []record.Entry{{Kind: record.TypeJob, Job: &j}, {Kind: record.TypeLease, Lease: &lease}, {Kind: record.TypeSettle, Settle: settle}} {
				e.V, e.Seq, e.Stream, e.Idem = 1, uint64(seq), j.Ref(), record.Ref{byte(seq + 1), j.Ref()[0], j.Ref()[1], j.Ref()[2]}
				s := must(record.Sign(w.gateway, e))
				outs, err := c.Append(t.Context(), []record.Raw{s.Raw()})
				if err != nil || outs[0].Err != nil {
					t.Errorf("append: %+v, %v", outs, err)
					return
				}
				if row, err := l.Entry(outs[0].Index); err != nil || string(row.Entry) != string(s.Raw()) {
					t.Errorf("entry %d: %v", outs[0].Index, err)
				}
			}
		})
	}
	wg.Wait()
	if rep, err := l.Verify(t.Context(), nil); err != nil || rep.Entries != 3*jobs+1 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
}
