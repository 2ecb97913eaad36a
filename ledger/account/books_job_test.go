package account_test

import (
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

func (s *stage) register() (bool, error) {
	by, rec := s.key(), 7+s.n(9)
	a := id(cast[by])
	to := named(cast[by], cast[rec])
	_, in := s.of[by]
	want := s.acts(by) && !in && rec != by && s.out[a] == 0 && s.due[a] == 0
	if want {
		for _, purse := range []map[record.NodeID]int64{s.free, s.earned, s.bond} {
			s.give(purse, to, purse[a])
			delete(purse, a)
		}
		s.held[to], s.leaving[to] = s.held[a], s.leaving[a]
		delete(s.held, a)
		delete(s.leaving, a)
		if o, ok := s.owner[a]; ok {
			s.owner[to] = o
			delete(s.owner, a)
		}
		s.of[by] = to
		s.holders[to] = &paperHolder{key: by, rec: rec, next: -1}
	}
	return s.post(by, want, register(cast[by], cast[rec]))
}

// succeeds reports whether a key may be the next of an account.
func (s *stage) succeeds(h *paperHolder, k int) bool {
	return k != h.rec && (k == h.next || s.unused(k))
}

// replace lets a waiting key go, unless it stays.
func (s *stage) replace(h *paperHolder, stays int) {
	if h.next >= 0 && h.next != stays {
		delete(s.of, h.next)
	}
	h.next = -1
}

func (s *stage) rotate() (bool, error) {
	by, to := s.key(), 9+s.n(7)
	a := s.acct(by)
	h := s.holders[a]
	want := h != nil && s.acts(by) && s.succeeds(h, to)
	if want {
		s.replace(h, to)
		s.of[to], h.next, h.ripe = a, to, s.now+int64(day)
	}
	return s.post(by, want, rotate(a, cast[to]))
}

// account picks a registered one, by its key.
func (s *stage) account() (record.NodeID, *paperHolder) {
	for range 8 {
		if a, ok := s.of[s.n(len(cast))]; ok {
			return a, s.holders[a]
		}
	}
	return record.NodeID{1}, nil
}

func (s *stage) veto() (bool, error) {
	a, h := s.account()
	by := s.key()
	if h != nil && s.n(4) > 0 {
		by = h.rec
	}
	want := h != nil && s.acts(by) && by == h.rec && h.next >= 0
	if want {
		s.replace(h, -1)
	}
	return s.post(by, want, veto(a))
}

func (s *stage) revoke() (bool, error) {
	a, h := s.account()
	by, to := s.key(), -1
	if h != nil && s.n(4) > 0 {
		by = h.rec
	}
	if s.n(8) > 0 {
		to = 9 + s.n(7)
	}
	want := h != nil && s.acts(by) && (by == h.rec || by == h.key && to < 0) && (to >= 0 || h.key >= 0) && (to < 0 || s.succeeds(h, to))
	if want {
		s.replace(h, to)
		if h.key = to; to >= 0 {
			s.of[to] = a
		}
	}
	if to < 0 {
		return s.post(by, want, revoke(a, nil))
	}
	return s.post(by, want, revoke(a, cast[to]))
}

func (s *stage) own() (bool, error) {
	by, node := s.key(), s.key()
	who, n := s.acct(by), s.acct(node)
	if s.n(3) == 0 {
		_, has := s.owner[n]
		want := s.acts(by) && has && (who == n || who == s.payee(n))
		if s.payee(n) == n { // it came to own itself, by what its owner registered
			want = false
		}
		if want {
			delete(s.owner, n)
		}
		return s.post(by, want, record.Entry{Kind: record.TypeOwn, Own: &record.Own{Let: n}})
	}
	signed := sign(cast[node], record.Owned{Owner: who})
	want := s.acts(by) && s.acts(node) && who != n && s.payee(n) == n && s.payee(who) == who
	if want {
		s.owner[n] = who
	}
	return s.post(by, want, record.Entry{Kind: record.TypeOwn, Own: &record.Own{Node: &signed}})
}

func (s *stage) open() (bool, error) {
	by, k, total := s.key(), s.n(4), int64(s.n(60))
	j := &paperJob{tenant: k, gateway: gatewayA + s.n(2), adopter: -1, shards: 1 + s.n(2), retries: s.n(3),
		expires: s.now + int64(s.n(3))*int64(day), mandates: map[int]*paperMandate{}}
	t := terms()
	t.Shards, t.Retries, t.MaxTotal, t.Expires = uint32(j.shards), uint32(j.retries), record.Amount(total), record.Millis(j.expires)
	t.Delegate, t.Body = id(cast[j.gateway]), record.Ref{byte(s.op), byte(s.op >> 8), 1}
	j.signed = sign(cast[k], t)
	from := s.acct(k)
	want := s.acts(by) && s.acts(k) && total > 0 && j.expires > s.now && s.free[from] >= total
	if want {
		s.free[from] -= total
		j.left = total
		s.jobs = append(s.jobs, j)
	}
	return s.post(by, want, record.Entry{Kind: record.TypeJob, Job: &j.signed})
}

// job picks one of the last.
func (s *stage) job() *paperJob {
	if len(s.jobs) == 0 {
		return nil
	}
	return s.jobs[max(0, len(s.jobs)-1-s.n(3))]
}

// spender picks a key that most often may spend a job's escrow.
func (s *stage) spender(j *paperJob) int {
	switch s.n(6) {
	case 0:
		return s.key()
	case 1:
		return j.tenant
	}
	return j.supervisor()
}

func (s *stage) lease() (bool, error) {
	j := s.job()
	if j == nil {
		return false, account.ErrUnknown
	}
	by, signer, p, shard := s.key(), s.spender(j), s.key(), s.n(2)
	if j.closed && s.n(4) > 0 {
		return false, account.ErrClosed
	}
	attempt, reserve, epoch := j.attempts[shard]+1, int64(s.n(25)), j.epoch
	if s.n(10) == 0 {
		attempt, epoch = s.n(4), uint32(s.n(3))
	}
	l := record.Lease{Job: j.signed.Ref(), Shard: uint32(shard), Attempt: uint32(attempt), Epoch: epoch, Rate: castRate, Reserve: record.Amount(reserve)}
	l.Bid = sign(cast[p], record.Bid{Job: l.Job, Expires: record.Millis(s.now)})
	x := &paperLease{job: j, shard: shard, provider: p, of: s.acct(p), reserve: reserve, under: -1, signed: sign(cast[signer], l)}
	x.payee = s.payee(x.of)
	want := s.acts(by) && s.acts(p) && s.spends(j, signer) && !j.closed && !j.cancelled && s.now <= j.expires && shard < j.shards && epoch == j.epoch &&
		attempt == j.attempts[shard]+1 && attempt <= j.retries+1 && j.runs[shard] == nil && !j.done[shard] && reserve > 0 && reserve <= j.left-j.bound
	if j.adopter >= 0 && signer == j.adopter {
		m, g := j.mandates[signer], s.acct(signer)
		x.under = signer
		want = want && s.now <= m.expires && int64(castRate) <= m.rate && reserve <= m.amount-m.drawn && s.payee(g) != x.payee && g != x.of
		if want {
			m.drawn += reserve
		}
	}
	if want {
		j.attempts[shard], j.runs[shard] = attempt, x
		j.bound += reserve
		s.due[x.payee] += reserve
		s.leases = append(s.leases, x)
	}
	return s.post(by, want, record.Entry{Kind: record.TypeLease, Lease: &x.signed})
}

// pick returns a lease, most often one of the last.
func (s *stage) pick() *paperLease {
	if len(s.leases) == 0 {
		return nil
	}
	return s.leases[max(0, len(s.leases)-1-s.n(3))]
}

func (s *stage) vouch() (bool, error) {
	l := s.pick()
	if l == nil {
		return false, account.ErrUnknown
	}
	by, signer := s.key(), s.spender(l.job)
	amount := l.vouched + int64(s.n(6)) - 1
	work, n := amount+int64(s.n(3))-1, l.n+uint32(s.n(4))
	if amount < 0 || work < 0 {
		return false, account.ErrEntry
	}
	v := record.Voucher{Lease: l.signed.Ref(), Epoch: l.signed.Value.Epoch, N: n, Amount: record.Amount(amount), Work: record.Work(work) * workUnit}
	want := s.acts(by) && s.spends(l.job, signer) && !l.ended && l.signed.Value.Epoch == l.job.epoch && n > l.n &&
		amount >= l.vouched && work >= l.work && amount <= l.reserve && amount <= work
	if want {
		l.n, l.vouched, l.work = n, amount, work
	}
	return s.post(by, want, vouch(cast[signer], v))
}

func (s *stage) settle() (bool, error) {
	l := s.pick()
	if l == nil {
		return false, account.ErrUnknown
	}
	j, by, signer, p := l.job, s.key(), s.spender(l.job), l.provider
	if s.n(8) == 0 {
		p = s.key()
	}
	end, work, last := record.Exited, int64(s.n(30)), s.n(2) == 0
	due := max(min(work, l.reserve), l.vouched)
	if s.n(4) == 0 {
		end, due = record.NodeLost, l.vouched
	}
	pays := due
	if s.n(10) == 0 {
		pays++
	}
	r := record.Receipt{Lease: l.signed.Ref(), Job: l.signed.Value.Job, Shard: uint32(l.shard), Attempt: l.signed.Value.Attempt, End: end,
		Usage: record.Usage{Work: record.Work(work) * workUnit}}
	receipt := sign(cast[p], r)
	v := record.Voucher{Lease: r.Lease, Epoch: l.signed.Value.Epoch, N: 1, Amount: record.Amount(pays), Work: r.Usage.Work, Receipt: receipt.Ref()}
	done := end == record.Exited
	finished := !j.running() || j.runs[1-l.shard] == nil
	for k := range j.shards {
		finished = finished && (j.done[k] || k == l.shard && done)
	}
	want := s.acts(by) && s.acts(p) && s.acct(p) == s.sellerOf(l) && s.spends(j, signer) && !l.ended && l.signed.Value.Epoch == j.epoch && pays == due && (!last || finished)
	if want {
		s.pay(l, due, done)
		if last {
			s.refund(j)
		}
	}
	return s.post(by, want, record.Entry{Kind: record.TypeSettle, Settle: &record.Settle{Receipt: receipt, Voucher: sign(cast[signer], v), Last: last}})
}

// sellerOf is the account that signs a lease's receipt: a key may have registered since,
// but not while it is owed something.
func (s *stage) sellerOf(l *paperLease) record.NodeID { return l.of }

func (s *stage) cut() (bool, error) {
	l := s.pick()
	if l == nil {
		return false, account.ErrUnknown
	}
	by := s.spender(l.job)
	want := s.acts(by) && by == l.job.supervisor() && !l.ended
	if want {
		s.pay(l, l.vouched, false)
	}
	return s.post(by, want, cutOf(l.signed.Ref()))
}

func (s *stage) close() (bool, error) {
	j := s.job()
	if j == nil {
		return false, account.ErrUnknown
	}
	by, why := s.spender(j), record.Reason(s.n(7))
	want := s.acts(by) && s.spends(j, by) && !j.closed && !j.running() && why >= 1 && why <= 5 && (why != record.Finished || !j.undone())
	if want {
		s.refund(j)
	}
	return s.post(by, want, record.Entry{Kind: record.TypeClose, Close: &record.Close{Job: j.signed.Ref(), Why: why}})
}

func (s *stage) cancel() (bool, error) {
	j := s.job()
	if j == nil {
		return false, account.ErrUnknown
	}
	by, signer := s.key(), j.tenant
	if s.n(4) == 0 {
		signer = s.key()
	}
	c := sign(cast[signer], record.Cancel{Job: j.signed.Ref()})
	want := s.acts(by) && s.acts(signer) && s.acct(signer) == s.acct(j.tenant) && !j.closed && !j.cancelled
	if want {
		j.cancelled = true
	}
	return s.post(by, want, record.Entry{Kind: record.TypeCancel, Cancel: &c})
}

func (s *stage) topUp() (bool, error) {
	j, l := s.job(), s.pick()
	if j == nil || l == nil {
		return false, account.ErrUnknown
	}
	amount := int64(s.n(15))
	if s.n(2) == 0 {
		by := s.spender(j)
		from := s.acct(by)
		want := s.acts(by) && from == s.acct(j.tenant) && !j.closed && amount > 0 && s.free[from] >= amount
		if want {
			s.free[from] -= amount
			j.left += amount
		}
		return s.post(by, want, record.Entry{Kind: record.TypeTopUp, TopUp: &record.TopUp{Job: j.signed.Ref(), Amount: record.Amount(amount)}})
	}
	j = l.job
	by := s.spender(j)
	want := s.acts(by) && by == j.supervisor() && !l.ended && !j.closed && amount > 0 && amount <= j.left-j.bound
	if m := j.mandates[l.under]; m != nil && want {
		if want = amount <= m.amount-m.drawn; want {
			m.drawn += amount
		}
	}
	if want {
		l.reserve += amount
		j.bound += amount
		s.due[l.payee] += amount
	}
	return s.post(by, want, record.Entry{Kind: record.TypeTopUp, TopUp: &record.TopUp{Job: j.signed.Ref(), Lease: l.signed.Ref(), Amount: record.Amount(amount)}})
}

func (s *stage) delegate() (bool, error) {
	j := s.job()
	if j == nil {
		return false, account.ErrUnknown
	}
	by, to := j.tenant, gatewayA+gatewayB-j.gateway
	if s.n(6) == 0 {
		by, to = s.key(), s.key()
	}
	d := record.Delegation{Gateway: id(cast[to]), Job: j.signed.Ref(), Amount: record.Amount(s.n(60)), Rate: castRate - 1 + record.Amount(s.n(8)), Expires: record.Millis(s.now + int64(s.n(3))*int64(day))}
	want := s.acts(by) && s.acct(by) == s.acct(j.tenant) && !j.closed && (to == gatewayA || to == gatewayB) && to != j.gateway && int64(d.Expires) > s.now
	if want {
		m := j.mandates[to]
		if m == nil {
			m = &paperMandate{}
			j.mandates[to] = m
		}
		m.amount, m.rate, m.expires = int64(d.Amount), int64(d.Rate), int64(d.Expires)
	}
	return s.post(by, want, record.Entry{Kind: record.TypeDelegate, Delegate: &d})
}

func (s *stage) adopt() (bool, error) {
	j := s.job()
	if j == nil {
		return false, account.ErrUnknown
	}
	by, epoch := gatewayA+s.n(2), j.epoch+1
	if s.n(6) == 0 {
		by, epoch = s.key(), uint32(s.n(3))
	}
	m := j.mandates[by]
	want := s.acts(by) && !j.closed && epoch == j.epoch+1 && by != j.supervisor() && (by == j.gateway || m != nil && m.expires >= s.now)
	if want {
		j.epoch, j.adopter = epoch, -1
		if by != j.gateway {
			j.adopter = by
		}
	}
	return s.post(by, want, record.Entry{Kind: record.TypeAdopt, Adopt: &record.Adopt{Job: j.signed.Ref(), Epoch: epoch}})
}
