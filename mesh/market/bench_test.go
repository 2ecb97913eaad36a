package market

import (
	"testing"

	"idlemesh/ledger/record"
)

// A whole auction of one task among a hundred nodes, as a gateway runs it.
func BenchmarkAuction(b *testing.B) {
	book := NewBook(record.DefaultParams(), 0)
	for i := range 100 {
		c := asking(i, record.Amount(100_000+i))
		if err := book.Advert(now, c.ID, c.Advert); err != nil {
			b.Fatal(err)
		}
		book.Measured(c.ID, 1)
	}
	for b.Loop() {
		book.Want(now, task())
		for _, s := range book.Next(now) {
			var bids []Bid
			for _, id := range s.Ask {
				c := book.Candidate(now, id)
				bids = append(bids, bid(c, c.Advert.Ask))
			}
			res, err := book.Decide(now, s, bids, record.Ref{1})
			if err != nil || len(res.Awards) != 1 {
				b.Fatal(res, err)
			}
			book.Release(res.Awards[0].Task)
		}
	}
}

// What a wake-up costs while a thousand jobs wait for a hundred busy nodes.
func BenchmarkNextWhileBusy(b *testing.B) {
	book := NewBook(record.DefaultParams(), 0)
	for i := range 100 {
		c := asking(i, 100_000)
		if err := book.Advert(now, c.ID, c.Advert); err != nil {
			b.Fatal(err)
		}
		book.Measured(c.ID, 1)
		book.keep(place{record.Ref{1}, uint32(i)}, c.ID, now+stepHold)
	}
	for i := range 1000 {
		t := task()
		t.Job = record.Ref{2, byte(i), byte(i >> 8)}
		book.Want(now, t)
	}
	for b.Loop() {
		if steps := book.Next(now); len(steps) != 0 {
			b.Fatal(steps)
		}
	}
}
