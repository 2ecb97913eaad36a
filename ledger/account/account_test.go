package account_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

func newKey(b byte) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte{b})
	return ed25519.NewKeyFromSeed(seed[:])
}

func pub(k ed25519.PrivateKey) record.PublicKey {
	return record.PublicKey(k.Public().(ed25519.PublicKey))
}

func sign[T record.Record](k ed25519.PrivateKey, v T) record.Signed[T] {
	s, err := record.Sign(k, v)
	if err != nil {
		panic(err)
	}
	return s
}

var mint, tenant, gateway, provider, stranger = newKey(1), newKey(2), newKey(3), newKey(4), newKey(5)

const now record.Millis = 1_800_000_000_000

// maps is an account.State in memory.
type maps struct {
	mesh     record.Mesh
	balance  map[account.ID]account.Balance
	job      map[record.Ref]account.Job
	task     map[account.Task]account.TaskState
	lease    map[record.Ref]account.Lease
	external map[string]bool
	minted   map[uint32]record.Amount
	facts    map[account.Name][]byte
	n        int // entries of a play
}

func newMaps() *maps {
	p := record.DefaultParams()
	p.Holdback, p.Fee, p.DailyMint = 250_000, 100_000, 1000
	return &maps{
		mesh:    record.Mesh{Mint: pub(mint), Gateways: []record.Member{{Key: pub(gateway)}}, Params: p},
		balance: map[account.ID]account.Balance{}, job: map[record.Ref]account.Job{}, task: map[account.Task]account.TaskState{},
		lease: map[record.Ref]account.Lease{}, external: map[string]bool{}, minted: map[uint32]record.Amount{},
		facts: map[account.Name][]byte{},
	}
}

func (m *maps) Mesh() record.Mesh                              { return m.mesh }
func (m *maps) Balance(id account.ID) (account.Balance, error) { return m.balance[id], nil }
func (m *maps) Job(r record.Ref) (account.Job, error)          { return m.job[r], nil }
func (m *maps) Task(t account.Task) (account.TaskState, error) { return m.task[t], nil }
func (m *maps) Lease(r record.Ref) (account.Lease, error)      { return m.lease[r], nil }
func (m *maps) Deposited(external string) (bool, error)        { return m.external[external], nil }
func (m *maps) Minted(day uint32) (record.Amount, error)       { return m.minted[day], nil }
func (m *maps) Fact(n account.Name, into any) error {
	if b, ok := m.facts[n]; ok {
		return record.Decode(b, into)
	}
	return nil
}
func (m *maps) free(k account.Kind, owner [32]byte) record.Amount {
	return m.balance[account.ID{Kind: k, Owner: owner}].Free()
}

// post applies e and stores its effects, as the ledger does.
func (m *maps) post(by ed25519.PrivateKey, at record.Millis, e record.Entry) error {
	e.V, e.Idem = 1, record.Ref{1}
	f, err := account.Apply(m, pub(by).ID(), at, e)
	if err != nil {
		return err
	}
	m.store(f)
	return nil
}

func (m *maps) store(f account.Effects) {
	for _, c := range f.Balances {
		m.balance[c.Account] = c.After
	}
	if f.JobAfter != nil {
		m.job[f.Job] = *f.JobAfter
	}
	if f.TaskAfter != nil {
		m.task[f.Task] = *f.TaskAfter
	}
	if f.LeaseAfter != nil {
		m.lease[f.Lease] = *f.LeaseAfter
	}
	if f.External != "" {
		m.external[f.External], m.minted[f.Day] = true, f.Minted
	}
	names := map[account.Name]bool{}
	for _, x := range f.Facts {
		b, err := record.Encode(x.Value)
		if err != nil || names[x.Name] {
			panic(fmt.Sprintf("fact %v, seen %v: %v", x.Name, names[x.Name], err))
		}
		m.facts[x.Name], names[x.Name] = b, true
	}
}

func deposit(amount record.Amount, external string) record.Entry {
	return record.Entry{Kind: record.TypeDeposit, Deposit: &record.Deposit{To: pub(tenant).ID(), Amount: amount, External: external}}
}

func terms() record.Job {
	return record.Job{
		Body: record.Ref{7}, Shards: 2, Tier: record.Silver, MaxPrice: record.Credit / 4, MaxTotal: 100, Retries: 1,
		Expires: now + 1000, Nonce: make([]byte, 16), Delegate: pub(gateway).ID(),
	}
}

func open(j record.Job, by ed25519.PrivateKey) record.Entry {
	s := sign(by, j)
	return record.Entry{Kind: record.TypeJob, Job: &s}
}

// offer returns a lease's body and its bid's, before they are signed.
func offer(job record.Ref) (record.Lease, record.Bid) {
	return record.Lease{Job: job, Attempt: 1, Rate: record.Credit / 4, Reserve: 40}, record.Bid{Job: job, Expires: now}
}

func lease(l record.Lease, b record.Bid) record.Entry {
	l.Bid = sign(provider, b)
	s := sign(gateway, l)
	return record.Entry{Kind: record.TypeLease, Lease: &s}
}

// result returns a receipt and the voucher that pays it, before they are signed.
func result(l record.Signed[record.Lease]) (record.Receipt, record.Voucher) {
	const work = 288e6 // 20 µcr at a quarter of a credit an hour
	return record.Receipt{Lease: l.Ref(), Job: l.Value.Job, Shard: l.Value.Shard, Attempt: l.Value.Attempt, End: record.Exited, Usage: record.Usage{Work: work}},
		record.Voucher{Lease: l.Ref(), N: 1, Amount: 20, Work: work}
}

func settle(r record.Receipt, v record.Voucher, last bool) record.Entry {
	s := sign(provider, r)
	if v.Receipt == (record.Ref{}) {
		v.Receipt = s.Ref()
	}
	return record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: s, Voucher: sign(gateway, v), Last: last}}
}

func TestDeposit(t *testing.T) {
	const day = 86_400_000
	for name, tc := range map[string]struct {
		by  ed25519.PrivateKey
		at  record.Millis
		e   record.Entry
		err error
	}{
		"again":                {mint, now, deposit(400, "first"), account.ErrOnce},
		"again, next day":      {mint, now + day, deposit(1, "first"), account.ErrOnce},
		"up to the cap":        {mint, now, deposit(600, "x"), nil},
		"above the cap":        {mint, now, deposit(601, "x"), account.ErrCap},
		"above 64 bits":        {mint, now, deposit(math.MaxUint64, "x"), account.ErrCap},
		"next day":             {mint, now + day, deposit(1000, "x"), nil},
		"not the mint":         {tenant, now, deposit(1, "x"), account.ErrAuthor},
		"nothing":              {mint, now, deposit(0, "x"), account.ErrEntry},
		"no reference":         {mint, now, deposit(1, ""), account.ErrEntry},
		"a long reference":     {mint, now, deposit(1, strings.Repeat("x", 129)), account.ErrEntry},
		"to nobody":            {mint, now, record.Entry{Kind: record.TypeDeposit, Deposit: &record.Deposit{Amount: 1, External: "x"}}, account.ErrEntry},
		"in a job's stream":    {mint, now, record.Entry{Kind: record.TypeDeposit, Stream: record.Ref{9}, Deposit: deposit(1, "x").Deposit}, account.ErrEntry},
		"a body of no kind":    {mint, now, record.Entry{Kind: record.TypeJob, Deposit: deposit(1, "x").Deposit}, account.ErrEntry},
		"no body":              {mint, now, record.Entry{Kind: record.TypeDeposit}, account.ErrEntry},
		"two bodies":           {mint, now, record.Entry{Kind: record.TypeDeposit, Deposit: deposit(1, "x").Deposit, Cut: &record.Cut{}}, account.ErrEntry},
		"an unknown kind":      {mint, now, record.Entry{Kind: 99, Deposit: deposit(1, "x").Deposit}, account.ErrEntry},
		"a body of a gap kind": {mint, now, record.Entry{Kind: 0, Deposit: deposit(1, "x").Deposit}, account.ErrEntry},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaps()
			if err := m.post(mint, now, deposit(400, "first")); err != nil {
				t.Fatal(err)
			}
			before := m.free(account.Tenant, pub(tenant).ID())
			err := m.post(tc.by, tc.at, tc.e)
			if !errors.Is(err, tc.err) || (err != nil) != (tc.err != nil) {
				t.Errorf("post: %v, want %v", err, tc.err)
			}
			if after := m.free(account.Tenant, pub(tenant).ID()); err != nil && after != before {
				t.Errorf("a refusal changed the balance from %v to %v", before, after)
			}
		})
	}
}

func TestVersionAndKey(t *testing.T) {
	for name, e := range map[string]record.Entry{"version 2": {V: 2, Idem: record.Ref{1}}, "no key": {V: 1}} {
		e.Kind, e.Deposit = record.TypeDeposit, deposit(1, "x").Deposit
		if _, err := account.Apply(newMaps(), pub(mint).ID(), now, e); !errors.Is(err, account.ErrEntry) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*record.Job)
		err    error
	}{
		"as it is":             {func(*record.Job) {}, nil},
		"no shards":            {func(j *record.Job) { j.Shards = 0 }, account.ErrEntry},
		"most shards":          {func(j *record.Job) { j.Shards = account.MaxShards }, nil},
		"more shards":          {func(j *record.Job) { j.Shards = account.MaxShards + 1 }, account.ErrEntry},
		"more retries":         {func(j *record.Job) { j.Retries = account.MaxRetries + 1 }, account.ErrEntry},
		"no tier":              {func(j *record.Job) { j.Tier = 0 }, account.ErrEntry},
		"unknown tier":         {func(j *record.Job) { j.Tier = 4 }, account.ErrEntry},
		"no total":             {func(j *record.Job) { j.MaxTotal = 0 }, account.ErrEntry},
		"no price":             {func(j *record.Job) { j.MaxPrice = 0 }, nil},
		"no body":              {func(j *record.Job) { j.Body = record.Ref{} }, account.ErrEntry},
		"short nonce":          {func(j *record.Job) { j.Nonce = j.Nonce[1:] }, account.ErrEntry},
		"negative retention":   {func(j *record.Job) { j.Retention = -1 }, account.ErrEntry},
		"negative rtt":         {func(j *record.Job) { j.Needs.MaxRTT = -1 }, account.ErrEntry},
		"reliability above 1":  {func(j *record.Job) { j.Needs.Reliability = 1e6 + 1 }, account.ErrEntry},
		"long region":          {func(j *record.Job) { j.Needs.Region = strings.Repeat("x", 129) }, account.ErrEntry},
		"long model":           {func(j *record.Job) { j.Needs.Model = strings.Repeat("x", 129) }, account.ErrEntry},
		"expired":              {func(j *record.Job) { j.Expires = now }, account.ErrClosed},
		"delegate no gateway":  {func(j *record.Job) { j.Delegate = pub(stranger).ID() }, account.ErrEntry},
		"all the money":        {func(j *record.Job) { j.MaxTotal = 1000 }, nil},
		"more than the money":  {func(j *record.Job) { j.MaxTotal = 1001 }, &account.OverdraftError{}},
		"more than 64 bits do": {func(j *record.Job) { j.MaxTotal = math.MaxUint64 }, &account.OverdraftError{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaps()
			if err := m.post(mint, now, deposit(1000, "x")); err != nil {
				t.Fatal(err)
			}
			j := terms()
			tc.change(&j)
			err := m.post(gateway, now, open(j, tenant))
			var overdraft *account.OverdraftError
			if want := errors.As(tc.err, &overdraft); want != errors.As(err, &overdraft) || !want && !errors.Is(err, tc.err) {
				t.Errorf("post: %v, want %v", err, tc.err)
			}
			if err == nil {
				if again := m.post(stranger, now, open(j, tenant)); !errors.Is(again, account.ErrOnce) {
					t.Errorf("a second escrow: %v", again)
				}
			}
		})
	}
	broke := newMaps()
	if err := broke.post(mint, now, deposit(1000, "x")); err != nil {
		t.Fatal(err)
	}
	var overdraft *account.OverdraftError
	if err := broke.post(gateway, now, open(terms(), stranger)); !errors.As(err, &overdraft) || overdraft.Account.Owner != pub(stranger).ID() {
		t.Errorf("a stranger's job pays from: %v", err)
	}
}

// started returns a state with a job of two shards open.
func started(t *testing.T) (*maps, record.Ref) {
	t.Helper()
	m := newMaps()
	e := open(terms(), tenant)
	for _, err := range []error{m.post(mint, now, deposit(1000, "x")), m.post(stranger, now, e)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return m, e.Job.Ref()
}

func TestLease(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*record.Lease, *record.Bid)
		err    error
	}{
		"as it is":            {func(*record.Lease, *record.Bid) {}, nil},
		"the other shard":     {func(l *record.Lease, _ *record.Bid) { l.Shard = 1 }, nil},
		"no such shard":       {func(l *record.Lease, _ *record.Bid) { l.Shard = 2 }, account.ErrEntry},
		"no such job":         {func(l *record.Lease, _ *record.Bid) { l.Job = record.Ref{1} }, account.ErrUnknown},
		"bid for another":     {func(_ *record.Lease, b *record.Bid) { b.Job = record.Ref{1} }, account.ErrEntry},
		"attempt 0":           {func(l *record.Lease, _ *record.Bid) { l.Attempt = 0 }, account.ErrEntry},
		"attempt 2":           {func(l *record.Lease, _ *record.Bid) { l.Attempt = 2 }, account.ErrEntry},
		"attempt 3 of 2":      {func(l *record.Lease, _ *record.Bid) { l.Attempt = 3 }, account.ErrEntry},
		"epoch 1":             {func(l *record.Lease, _ *record.Bid) { l.Epoch = 1 }, account.ErrEntry},
		"rate above price":    {func(l *record.Lease, _ *record.Bid) { l.Rate++ }, account.ErrEntry},
		"no reserve":          {func(l *record.Lease, _ *record.Bid) { l.Reserve = 0 }, account.ErrEntry},
		"all of the escrow":   {func(l *record.Lease, _ *record.Bid) { l.Reserve = 100 }, nil},
		"more than escrow":    {func(l *record.Lease, _ *record.Bid) { l.Reserve = 101 }, &account.OverdraftError{}},
		"bid in grace":        {func(_ *record.Lease, b *record.Bid) { b.Expires = now - 60_000 }, nil},
		"bid expired":         {func(_ *record.Lease, b *record.Bid) { b.Expires = now - 60_001 }, account.ErrClosed},
		"simulated":           {func(_ *record.Lease, b *record.Bid) { b.Device.Simulated = true }, account.ErrEntry},
		"long model":          {func(_ *record.Lease, b *record.Bid) { b.Device.Model = strings.Repeat("x", 129) }, account.ErrEntry},
		"bid in the far past": {func(_ *record.Lease, b *record.Bid) { b.Expires = math.MinInt64 }, account.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			m, job := started(t)
			l, b := offer(job)
			tc.change(&l, &b)
			err := m.post(stranger, now, lease(l, b))
			var overdraft *account.OverdraftError
			if want := errors.As(tc.err, &overdraft); want != errors.As(err, &overdraft) || !want && !errors.Is(err, tc.err) {
				t.Errorf("post: %v, want %v", err, tc.err)
			}
		})
	}
}

func TestLeaseTurns(t *testing.T) {
	m, job := started(t)
	l, b := offer(job)
	first := lease(l, b)
	by := func(k ed25519.PrivateKey, l record.Lease, b record.Bid) record.Entry {
		l.Bid = sign(provider, b)
		s := sign(k, l)
		return record.Entry{Kind: record.TypeLease, Lease: &s}
	}
	if err := m.post(gateway, now, by(stranger, l, b)); !errors.Is(err, account.ErrAuthor) {
		t.Errorf("signed by a stranger: %v", err)
	}
	if err := m.post(gateway, now+1001, first); !errors.Is(err, account.ErrClosed) {
		t.Errorf("after the job's expiry: %v", err)
	}
	if err := m.post(gateway, now, first); err != nil {
		t.Fatal(err)
	}
	b.Nonce = 1
	if err := m.post(gateway, now, lease(l, b)); !errors.Is(err, account.ErrOnce) {
		t.Errorf("the attempt again: %v", err)
	}
	l.Attempt = 2
	if err := m.post(gateway, now, lease(l, b)); !errors.Is(err, account.ErrEntry) {
		t.Errorf("while the first runs: %v", err)
	}
	cut := record.Entry{Kind: record.TypeCut, Cut: &record.Cut{Lease: first.Lease.Ref()}}
	if err := m.post(provider, now, cut); !errors.Is(err, account.ErrAuthor) {
		t.Errorf("cut by the provider: %v", err)
	}
	if err := m.post(tenant, now, cut); !errors.Is(err, account.ErrAuthor) {
		t.Errorf("cut by the tenant, who has seen the result: %v", err)
	}
	if err := m.post(gateway, now, cut); err != nil {
		t.Fatal(err)
	}
	if got := m.free(account.Escrow, job); got != 100 || m.lease[first.Lease.Ref()].State != account.Cut {
		t.Errorf("after the cut the escrow has %v", got)
	}
	if err := m.post(tenant, now, cut); !errors.Is(err, account.ErrOnce) {
		t.Errorf("cut twice: %v", err)
	}
	if err := m.post(tenant, now, by(tenant, l, b)); err != nil {
		t.Errorf("the second attempt, by the tenant: %v", err)
	}
	if err := m.post(tenant, now, record.Entry{Kind: record.TypeCut, Cut: &record.Cut{Lease: record.Ref{1}}}); !errors.Is(err, account.ErrUnknown) {
		t.Errorf("cut of no lease: %v", err)
	}
}

func TestCharge(t *testing.T) {
	for _, tc := range []struct {
		rate record.Amount
		work record.Work
		want record.Amount
	}{
		{0, 0, 0}, {1, 3600e9, 1}, {1, 3600e9 - 1, 0}, {record.Credit, 3600e9, record.Credit}, {record.Credit / 4, 288e6, 20},
		{math.MaxUint64, 3600e9, math.MaxUint64}, {math.MaxUint64, 3600e9 + 1, math.MaxUint64}, {math.MaxUint64, math.MaxUint64, math.MaxUint64},
	} {
		if got := account.Charge(tc.rate, tc.work); got != tc.want {
			t.Errorf("Charge(%d, %d) = %d, want %d", tc.rate, tc.work, got, tc.want)
		}
	}
}

func FuzzCharge(f *testing.F) {
	f.Add(uint64(250_000), uint64(288e6))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, rate, work uint64) {
		want := new(big.Int).Mul(new(big.Int).SetUint64(rate), new(big.Int).SetUint64(work))
		want.Div(want, big.NewInt(3600e9))
		if !want.IsUint64() {
			want.SetUint64(math.MaxUint64)
		}
		if got := account.Charge(record.Amount(rate), record.Work(work)); uint64(got) != want.Uint64() {
			t.Errorf("Charge(%d, %d) = %d, want %v", rate, work, got, want)
		}
	})
}

func TestNames(t *testing.T) {
	for k := account.Tenant; k <= account.Mint; k++ {
		if got, err := account.ParseKind(k.String()); err != nil || got != k {
			t.Errorf("ParseKind(%q) = %v, %v", k, got, err)
		}
	}
	for _, bad := range []string{"", "kind 0", "Tenant"} {
		if k, err := account.ParseKind(bad); err == nil {
			t.Errorf("ParseKind(%q) = %v", bad, k)
		}
	}
	id := account.ID{Kind: account.Escrow, Owner: record.Ref{1}}
	if got := id.String(); got != "escrow:"+record.Ref(id.Owner).String() {
		t.Errorf("String = %s", got)
	}
	if got := (account.ID{Kind: account.Fees}).String(); got != "fees" {
		t.Errorf("String = %s", got)
	}
}
