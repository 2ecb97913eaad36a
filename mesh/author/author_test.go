package author_test

import (
	"context"
	"crypto/ed25519"
	"io"
	"net"
	"sync"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/wire"
)

// keeper numbers entries as a ledger does: gapless by stream, one an idem.
type keeper struct {
	mu     sync.Mutex
	next   map[record.Ref]uint64
	byIdem map[record.Ref]uint64
	size   uint64
	calls  int
	lose   int // so many answers are lost after they were carried out
}

func (k *keeper) append(_ context.Context, _ wire.Caller, q wire.AppendRequest) (wire.Appended, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	var rep wire.Appended
	for _, raw := range q.Entries {
		rep.Results = append(rep.Results, k.one(raw))
	}
	if k.lose > 0 {
		k.lose--
		return rep, wire.Refuse(wire.Unavailable, "lost")
	}
	return rep, nil
}

func (k *keeper) one(raw record.Raw) wire.AppendResult {
	e, err := record.Open[record.Entry](raw)
	if err != nil {
		return wire.AppendResult{Err: wire.Refuse(wire.Unverified, err.Error())}
	}
	v := e.Value
	if at, ok := k.byIdem[v.Idem]; ok {
		return wire.AppendResult{Index: at, Known: true}
	}
	if want := k.next[v.Stream]; v.Seq != want {
		return wire.AppendResult{Err: wire.Refuse(wire.Invalid, "sequence"), Want: &want}
	}
	if v.Deposit == nil {
		return wire.AppendResult{Err: wire.Refuse(wire.Invalid, "no body")}
	}
	k.next[v.Stream]++
	k.byIdem[v.Idem] = k.size
	k.size++
	return wire.AppendResult{Index: k.size - 1}
}

func (k *keeper) Open(ctx context.Context, _ record.NodeID, _ string) (io.ReadWriteCloser, error) {
	m := &wire.Mux{Roles: func(record.NodeID) wire.Role { return wire.Anyone }}
	wire.Handle(m, wire.Append, k.append)
	here, there := net.Pipe()
	go m.Serve(context.WithoutCancel(ctx), record.NodeID{}, there)
	return here, nil
}

func start(t *testing.T, k *keeper) *author.Author {
	k.next, k.byIdem = map[record.Ref]uint64{}, map[record.Ref]uint64{}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return author.New(key, k, record.Mesh{Keepers: []record.Member{{}}})
}

func deposit(i int) record.Entry {
	return record.Entry{Kind: record.TypeDeposit, Stream: record.Ref{byte(i % 3)}, Idem: record.Ref{1, byte(i), byte(i >> 8)},
		Deposit: &record.Deposit{Amount: record.Amount(i)}}
}

// TestManyAtOnce appends from many goroutines, some entries malformed, some twice:
// each good one stands once, and no stream has a gap.
func TestManyAtOnce(t *testing.T) {
	k := &keeper{}
	a := start(t, k)
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			e := deposit(i % 200)
			if i%7 == 0 {
				e.Deposit, e.Idem = nil, record.Ref{2, byte(i)}
			}
			if _, err := a.Append(t.Context(), e); (err != nil) != (i%7 == 0) {
				t.Errorf("entry %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	want := map[int]bool{}
	for i := range 300 {
		if i%7 != 0 {
			want[i%200] = true
		}
	}
	if int(k.size) != len(want) {
		t.Errorf("%d entries stand, want %d", k.size, len(want))
	}
}

func TestLostAnswer(t *testing.T) {
	k := &keeper{lose: 1}
	a := start(t, k)
	if _, err := a.Append(t.Context(), deposit(1)); !wire.Is(err, wire.Unavailable) {
		t.Fatalf("lost answer: %v", err)
	}
	at, err := a.Append(t.Context(), deposit(1))
	if err != nil || !at.Known || k.size != 1 {
		t.Errorf("again: %+v, %v, %d entries", at, err, k.size)
	}
	if at, err = a.Append(t.Context(), deposit(4)); err != nil || at.Known || at.Index != 1 {
		t.Errorf("the next of that stream: %+v, %v", at, err)
	}
}
