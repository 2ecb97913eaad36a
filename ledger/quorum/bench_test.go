package quorum_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"idlemesh/ledger"
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

// A trade makes whole jobs: an entry each for the job, its lease and its settlement, as
// BenchmarkAppend of package ledger does.
type trade struct {
	c                         *club
	tenant, gateway, provider ed25519.PrivateKey
	n, seq                    uint64
}

func (t *trade) whole() []record.Raw {
	t.n++
	nonce := record.Ref{byte(t.n), byte(t.n >> 8), byte(t.n >> 16), byte(t.n >> 24), 1}
	until := record.At(time.Now().Add(time.Hour))
	job := must(record.Sign(t.tenant, record.Job{Body: nonce, Shards: 1, Tier: record.Silver, MaxPrice: record.Credit / 2, MaxTotal: 10,
		Retries: 1, Expires: until, Nonce: nonce[:16], Delegate: public(t.gateway).ID()}))
	bid := must(record.Sign(t.provider, record.Bid{Job: job.Ref(), Ask: 1, Expires: until}))
	lease := must(record.Sign(t.gateway, record.Lease{Bid: bid, Job: job.Ref(), Attempt: 1, Rate: record.Credit / 4, Reserve: 10}))
	work := record.Work(100e6)
	receipt := must(record.Sign(t.provider, record.Receipt{Lease: lease.Ref(), Job: job.Ref(), Attempt: 1, End: record.Exited,
		Usage: record.Usage{Work: work, Meter: record.CPUTime}}))
	voucher := must(record.Sign(t.gateway, record.Voucher{Lease: lease.Ref(), N: 1, Work: work, Receipt: receipt.Ref(),
		Amount: min(account.Charge(lease.Value.Rate, work), lease.Value.Reserve)}))
	var raws []record.Raw
	for _, e := range []record.Entry{
		{Kind: record.TypeJob, Job: &job}, {Kind: record.TypeLease, Lease: &lease},
		{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: receipt, Voucher: voucher, Last: true}},
	} {
		e.V, e.Seq, e.Idem = 1, t.seq, record.Ref{byte(t.seq), byte(t.seq >> 8), byte(t.seq >> 16), byte(t.seq >> 24), 2}
		t.seq++
		raws = append(raws, must(record.Sign(t.gateway, e)).Raw())
	}
	return raws
}

// BenchmarkAppend appends whole jobs through three keepers on one disk, all signatures
// verified by each, and beside it through a ledger alone. IDLEMESH_BENCH_DIR names a
// folder on the disk to measure.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 3} {
		for _, size := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("keepers=%d/batch=%d", n, size), func(b *testing.B) { benchAppend(b, n, size) })
		}
	}
}

func benchAppend(b *testing.B, keepers, size int) {
	dir := benchDir(b)
	c := newClub(b, max(keepers, 3))
	t := &trade{c: c, tenant: newKey(50), gateway: newKey(51), provider: newKey(52)}
	c.mesh.Value.Gateways = []record.Member{{Key: public(t.gateway)}}
	c.mesh = must(record.Sign(c.all[0].key, c.mesh.Value))
	c.all = c.all[:keepers]
	for i, s := range c.all {
		s.fs, s.dir = vfs.Default, fmt.Sprintf("%s/%d", dir, i)
	}
	var to ledger.Orderer
	if keepers == 1 {
		l := must(ledger.Open(c.all[0].dir, c.mesh, c.all[0].key, ledger.Config{Log: quiet}))
		defer l.Close()
		to = l
	} else {
		c.start()
		to = lead{c}
	}
	com := ledger.NewCommitter(to, size)
	fund := must(record.Sign(c.mint, record.Entry{V: 1, Kind: record.TypeDeposit, Idem: record.Ref{3}, Deposit: &record.Deposit{To: public(t.tenant).ID(),
		Amount: 1e6 * record.Credit, External: "fund"}}))
	good(b, must(com.Append(b.Context(), []record.Raw{fund.Raw()})))
	var raws []record.Raw
	at, done := 0, 0
	for b.Loop() {
		if at+size > len(raws) {
			b.StopTimer()
			raws, at = raws[at:], 0
			for len(raws) < 8*size {
				raws = append(raws, t.whole()...)
			}
			b.StartTimer()
		}
		good(b, must(com.Append(b.Context(), raws[at:at+size])))
		at += size
		done += size
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(rawSync(b, dir, size*1000), "fsync/s")
}

// lead orders through whoever leads.
type lead struct{ c *club }

func (l lead) Order(_ context.Context, batch []record.Raw) ([]ledger.Outcome, error) {
	return l.c.append(batch), nil
}

func benchDir(b *testing.B) string {
	dir := os.Getenv("IDLEMESH_BENCH_DIR")
	if dir == "" {
		return b.TempDir()
	}
	dir = must(os.MkdirTemp(dir, "quorum"))
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// rawSync writes n bytes to a preallocated file and syncs them, over and over.
func rawSync(b *testing.B, dir string, n int) float64 {
	f := must(os.CreateTemp(dir, "raw"))
	defer f.Close()
	const rounds = 64
	must(f.Write(make([]byte, n*rounds)))
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	for i := range rounds {
		must(f.WriteAt(make([]byte, n), int64(i*n)))
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return rounds / time.Since(start).Seconds()
}
