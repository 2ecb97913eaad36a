package account_test

import (
	"crypto/ed25519"
	"testing"

	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
)

func TestEvidence(t *testing.T) {
	head := func(k ed25519.PrivateKey, size uint64, root byte) record.HeadSign {
		r := record.Ref{root}
		return record.HeadSign{Root: r, Sign: ed25519.Sign(k, record.HeadText(record.Ref{7}, size, r))}
	}
	against := func(k ed25519.PrivateKey, change func(*record.Evidence)) record.Entry {
		e := &record.Evidence{Keeper: pub(k), Mesh: record.Ref{7}, Size: 5, A: head(k, 5, 1), B: head(k, 5, 2)}
		if change != nil {
			change(e)
		}
		return record.Entry{Kind: record.TypeEvidence, Evidence: e}
	}
	m := wealthy(t)
	m.mesh.Params.Slash = 400_000
	m.mesh.Params.Unbond = day
	act(t, m, step{"a keeper's money", now, tenant, transfer(keeper, 300, false), nil}, step{"its bond", now, keeper, stake(200, false), nil},
		step{"part of it leaves", now, keeper, unstake(150), nil})
	for name, change := range map[string]func(*record.Evidence){
		"one root":             func(e *record.Evidence) { e.B = e.A },
		"in the wrong order":   func(e *record.Evidence) { e.A, e.B = e.B, e.A },
		"another size":         func(e *record.Evidence) { e.Size = 6 },
		"one of another size":  func(e *record.Evidence) { e.B = head(keeper, 6, 2) },
		"of another mesh":      func(e *record.Evidence) { e.Mesh = record.Ref{8} },
		"signed by another":    func(e *record.Evidence) { e.B = head(second, 5, 2) },
		"not signed":           func(e *record.Evidence) { e.B.Sign = nil },
		"of a root not signed": func(e *record.Evidence) { e.B.Root = record.Ref{3} },
		"against another":      func(e *record.Evidence) { e.Keeper = pub(second) },
	} {
		act(t, m, step{name, now, stranger, against(keeper, change), account.ErrEntry})
	}
	act(t, m,
		step{"against no keeper", now, stranger, against(provider, nil), account.ErrEntry},
		step{"proven", now, stranger, against(keeper, nil), nil},
		step{"again", now, stranger, against(keeper, nil), account.ErrOnce},
		step{"at another size", now, stranger, against(keeper, func(e *record.Evidence) { e.Size, e.A, e.B = 6, head(keeper, 6, 1), head(keeper, 6, 2) }), account.ErrOnce},
		step{"a keeper without a bond", now, stranger, against(second, nil), nil},
	)
	if a, b := m.free(account.Stake, id(keeper)), m.free(account.Insurance, [32]byte{}); a != 120 || b != 80 {
		t.Errorf("the bond is %v, the insurance %v", a, b)
	}
	act(t, m, step{"what was leaving", now + day, stranger, vest(keeper), nil})
	if got := m.free(account.Stake, id(keeper)); got != 0 {
		t.Errorf("after the vest the bond is %v", got)
	}
	if got := m.free(account.Tenant, id(keeper)); got != 220 {
		t.Errorf("the keeper has %v", got)
	}
}
