package provider

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

func signed[T record.Record](t testing.TB, v T) record.Signed[T] {
	t.Helper()
	s, err := record.Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func noteOf(t testing.TB, shard uint32) note {
	l := signed(t, record.Lease{Bid: signed(t, record.Bid{}), Shard: shard})
	return note{Lease: l, Job: signed(t, record.Job{Shards: 9}), Receipt: &record.Receipt{Lease: l.Ref(), Shard: shard}, At: 5}
}

func reopen(t *testing.T, dir string) (*journal, map[record.Ref]note) {
	t.Helper()
	j, notes, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.close() })
	return j, notes
}

// TestJournal: what was written is there after any end of the process, the newest note of
// each lease, and of a damaged file all that stands before the damage.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	j, notes := reopen(t, dir)
	if len(notes) != 0 {
		t.Fatalf("%d notes in an empty folder", len(notes))
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if err := j.write(noteOf(t, uint32(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	last := noteOf(t, 3)
	last.Receipt, last.Left = nil, true
	if err := j.write(last); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(j.newer())
	if err != nil {
		t.Fatal(err)
	}
	if _, notes = reopen(t, dir); len(notes) != 40 || !notes[last.Lease.Ref()].Left {
		t.Errorf("%d notes, the last of a lease written twice: %+v", len(notes), notes[last.Lease.Ref()])
	}
	for _, cut := range []int{1, noteHead, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(j.newer(), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		k, notes := reopen(t, dir)
		if len(notes) > 40*cut/len(whole)+1 {
			t.Errorf("%d notes in %d of %d bytes", len(notes), cut, len(whole))
		}
		if err := k.write(noteOf(t, 77)); err != nil {
			t.Fatal(err)
		}
		if _, after := reopen(t, dir); len(after) != len(notes)+1 {
			t.Errorf("%d notes, %d after one more", len(notes), len(after))
		}
	}
}

// TestJournalTurns: it does not grow without end, and keeps the newest.
func TestJournalTurns(t *testing.T) {
	dir := t.TempDir()
	j, _ := reopen(t, dir)
	for i := range 3 {
		j.size = max(j.size, maxJournal) // as if it were long
		if i == 0 {
			j.size = 0
		}
		if err := j.write(noteOf(t, uint32(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, notes := reopen(t, dir); len(notes) != 2 || notes[noteOf(t, 2).Lease.Ref()].At == 0 {
		t.Errorf("%d notes after two turns", len(notes))
	}
}

func FuzzNotes(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0xa0})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := scanNotes(bytes.NewReader(b), func(note) {})
		if err != nil || end > int64(len(b)) {
			t.Errorf("read %d of %d bytes, %v", end, len(b), err)
		}
	})
}

// keepers answers wire.Query as it says.
type keepers struct {
	answer func() error
}

func (k keepers) Open(ctx context.Context, _ record.NodeID, _ string) (io.ReadWriteCloser, error) {
	m := &wire.Mux{Roles: func(record.NodeID) wire.Role { return wire.Anyone }}
	wire.HandleStream(m, wire.Query, func(context.Context, wire.Caller, wire.QueryRequest, func(wire.Row) error) error { return k.answer() })
	here, there := net.Pipe()
	go m.Serve(context.WithoutCancel(ctx), record.NodeID{1}, there)
	return here, nil
}

// TestUnpaidRun: a run whose lease the log has not is given up; one whose keepers do not
// answer is not, nor one that is over before anybody asks.
func TestUnpaidRun(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		runs   time.Duration
		want   error
	}{
		"keepers deny it":       {nil, time.Hour, errUnpaid},
		"keepers are silent":    {wire.Refuse(wire.Unavailable, "away"), time.Hour, nil},
		"it is over in no time": {nil, 900 * time.Millisecond, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, 1)
				asked := 0
				p.cfg.Open = keepers{func() error { asked++; return tc.answer }}
				member := []record.Member{{}}
				p.cfg.File = signed(t, record.Mesh{Name: "x", Keepers: member, Gateways: member})
				p.cfg.Mesh = p.cfg.File.Value
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				l := &lease{signed: noteOf(t, 1).Lease, cancel: cancel}
				begin := time.Now()
				_, err := p.assured(ctx, l, func(ctx context.Context, _ *lease) (wire.LeaseEvent, error) {
					select {
					case <-ctx.Done():
						return wire.LeaseEvent{}, context.Cause(ctx)
					case <-time.After(tc.runs):
						return wire.LeaseEvent{}, nil
					}
				})
				if !errors.Is(err, tc.want) || err != nil && time.Since(begin) > 2*doubt {
					t.Errorf("ended with %v after %v", err, time.Since(begin))
				}
				if (asked == 0) != (tc.runs < unassured) {
					t.Errorf("the keepers were asked %d times", asked)
				}
			})
		})
	}
}
