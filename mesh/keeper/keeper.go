// Package keeper serves the ledger to the mesh: it takes entries, signs tree heads
// and answers queries and proofs.
package keeper

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"idlemesh/ledger"
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/wire"
)

// A Keeper is safe for concurrent use.
type Keeper struct {
	cfg    Config
	ledger *ledger.Ledger
	commit *ledger.Committer
}

// Config says with whom a keeper keeps its ledger.
type Config struct {
	// ID is the keeper's own, and Open reaches the others. Required where Quorum is set.
	ID   record.NodeID
	Open wire.Opener
	// Key signs promises to submitters of the mesh of that id. Nil means that none are
	// made.
	Key  crypto.Signer
	Mesh record.Ref
	// Quorum is what the keepers order and sign together. Nil means that this one is
	// alone.
	Quorum Quorum
}

// New returns a keeper of l.
func New(l *ledger.Ledger, c Config) *Keeper {
	if c.Quorum == nil {
		c.Quorum = alone{l, c.ID}
	}
	return &Keeper{c, l, ledger.NewCommitter(c.Quorum, 0)}
}

// Register answers a keeper's verbs.
func (k *Keeper) Register(m *wire.Mux) {
	wire.Handle(m, wire.Append, k.append)
	wire.Handle(m, wire.Head, k.head)
	wire.Handle(m, wire.Prove, k.prove)
	wire.Handle(m, wire.Balance, k.balance)
	wire.HandleStream(m, wire.Query, k.query)
	wire.HandleStream(m, wire.Follow, k.follow)
	wire.Handle(m, wire.Consistency, k.consistency)
	wire.Handle(m, wire.Tile, k.tile)
	wire.Handle(m, wire.Backup, k.backup)
}

// Size is how many entries the log has.
func (k *Keeper) Size() uint64 { return k.ledger.Head().Size }

// Time is when the newest entry was taken, by the ledger's clock.
func (k *Keeper) Time() record.Millis { return k.ledger.Time() }

// maxEntries bounds what a stranger can have checked by one request.
const maxEntries = 1024

func (k *Keeper) append(ctx context.Context, _ wire.Caller, q wire.AppendRequest) (wire.Appended, error) {
	if len(q.Entries) > maxEntries {
		return wire.Appended{}, wire.Refuse(wire.Invalid, fmt.Sprintf("append: %d entries at once, at most %d", len(q.Entries), maxEntries))
	}
	rep, err := k.order(ctx, q)
	if err != nil {
		return wire.Appended{}, refusal(err, wire.Internal)
	}
	return rep, nil
}

// commitHere appends where this keeper orders.
func (k *Keeper) commitHere(ctx context.Context, q wire.AppendRequest) (wire.Appended, error) {
	outs, err := k.commit.Append(ctx, q.Entries)
	if err != nil {
		return wire.Appended{}, err
	}
	head := k.ledger.Head()
	rep := wire.Appended{Results: make([]wire.AppendResult, len(outs)), Size: head.Size, Root: head.Root}
	for i, o := range outs {
		r := wire.AppendResult{Index: o.Index, Time: o.Time, Known: o.Known}
		if o.Err != nil {
			r.Err = refusal(o.Err, wire.Invalid)
			var seq *ledger.SequenceError
			if errors.As(o.Err, &seq) {
				r.Want = &seq.Want
			}
		}
		rep.Results[i] = r
	}
	rep.Promise, err = k.promise(q.Entries, rep)
	return rep, err
}

// refusal gives an error of the ledger the code that callers branch on: otherwise where
// it is none that they know. What a rule says of an entry is invalid; what befalls the
// store is not the entry's fault, and its author must not take it for a verdict.
func refusal(err error, otherwise wire.Code) *wire.Error {
	var (
		poor  *account.OverdraftError
		there *wire.Error // by the keeper that leads
	)
	code, next := otherwise, ""
	switch {
	case errors.As(err, &there):
		return there
	case errors.As(err, &poor):
		code, next = wire.Funds, "meshctl account show"
	case errors.Is(err, account.ErrCap):
		code, next = wire.Funds, "deposit the rest tomorrow (UTC), or have a quorum of keepers approve it: --approve"
	case errors.Is(err, account.ErrAuthor):
		code = wire.Denied
	case errors.Is(err, account.ErrUnknown), errors.Is(err, ledger.ErrNotFound):
		code = wire.NotFound
	case errors.Is(err, record.ErrSignature), errors.Is(err, record.ErrNotCanonical):
		code = wire.Unverified
	case errors.Is(err, fs.ErrExist):
		code, next = wire.Invalid, "name a folder that does not exist"
	case errors.Is(err, ledger.ErrFull):
		code, next = wire.Funds, "free disk space on the keeper"
	case errors.Is(err, ledger.ErrCorrupt):
		code, next = wire.Internal, "meshctl ledger verify"
	case errors.Is(err, ledger.ErrUnordered), errors.Is(err, ledger.ErrReplaced), errors.Is(err, ledger.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = wire.Unavailable
	}
	return &wire.Error{Code: code, Text: err.Error(), Next: next}
}

func (k *Keeper) head(ctx context.Context, _ wire.Caller, q wire.HeadRequest) (wire.HeadReply, error) {
	k.catchUp(ctx)
	if q.Size > 0 {
		h, err := k.cfg.Quorum.HeadAt(ctx, q.Size)
		if err != nil {
			return wire.HeadReply{}, refusal(err, wire.Internal)
		}
		return wire.HeadReply{Size: h.Size, Root: h.Root, Note: h.Note}, nil
	}
	h := k.cfg.Quorum.Head(ctx)
	return wire.HeadReply{Size: h.Size, Root: h.Root, Note: h.Note}, nil
}

func (k *Keeper) consistency(_ context.Context, _ wire.Caller, q wire.ConsistencyRequest) (wire.ConsistencyReply, error) {
	path, err := k.ledger.Consistency(q.Older, q.Newer)
	if err != nil {
		return wire.ConsistencyReply{}, refusal(err, wire.Internal)
	}
	return wire.ConsistencyReply{Path: path}, nil
}

// maxTile is what fits an answer.
const maxTile = 4<<20 - 1024

func (k *Keeper) tile(_ context.Context, _ wire.Caller, q wire.TileRequest) (rep wire.TileReply, err error) {
	if q.Entries {
		rep.Data, err = k.ledger.Bundle(q.Index, int(q.Width))
	} else {
		rep.Data, err = k.ledger.Tile(int(q.Level), q.Index, int(q.Width))
	}
	if err != nil {
		return rep, refusal(err, wire.Internal)
	}
	if len(rep.Data) > maxTile {
		return wire.TileReply{}, wire.Refuse(wire.Invalid, fmt.Sprintf("bundle %d has %d bytes, which no answer holds: query its entries", q.Index, len(rep.Data)))
	}
	return rep, nil
}

func (k *Keeper) backup(ctx context.Context, _ wire.Caller, q wire.BackupRequest) (wire.HeadReply, error) {
	if !filepath.IsAbs(q.Dir) {
		return wire.HeadReply{}, wire.Refuse(wire.Invalid, "backup: want the whole path of a folder")
	}
	h := k.cfg.Quorum.Head(ctx)
	if err := k.ledger.Backup(q.Dir, h); err != nil {
		return wire.HeadReply{}, refusal(err, wire.Internal)
	}
	return wire.HeadReply{Size: h.Size, Root: h.Root, Note: h.Note}, nil
}

func (k *Keeper) prove(ctx context.Context, _ wire.Caller, q wire.ProveRequest) (wire.ProveReply, error) {
	k.catchUp(ctx)
	if q.COSE {
		return k.receipt(q.Index)
	}
	p, err := k.cfg.Quorum.Prove(ctx, q.Index)
	if err != nil {
		return wire.ProveReply{}, refusal(err, wire.Internal)
	}
	text, err := p.MarshalText()
	return wire.ProveReply{Proof: string(text)}, err
}

// receipt makes a proof with one signature, this keeper's.
func (k *Keeper) receipt(index uint64) (wire.ProveReply, error) {
	b, err := k.ledger.Receipt(index)
	if errors.Is(err, tree.ErrAlone) {
		return wire.ProveReply{}, &wire.Error{Code: wire.Invalid, Text: err.Error(), Next: "meshctl ledger prove INDEX --out proof.tlog"}
	}
	if err != nil {
		return wire.ProveReply{}, refusal(err, wire.Internal)
	}
	return wire.ProveReply{Receipt: b}, nil
}

func (k *Keeper) balance(ctx context.Context, _ wire.Caller, q wire.BalanceRequest) (wire.BalanceReply, error) {
	k.catchUp(ctx)
	of, err := k.ledger.AccountOf(q.Of)
	if err != nil {
		return wire.BalanceReply{}, refusal(err, wire.Internal)
	}
	rep := wire.BalanceReply{Account: of}
	accounts, err := k.ledger.Accounts(of, q.At)
	if err != nil {
		return rep, refusal(err, wire.Internal)
	}
	for _, a := range accounts {
		b := a.Balance
		switch a.ID.Kind {
		case account.Tenant:
			rep.Free = b.Free()
		case account.Provider:
			rep.Earned = b.Free()
		case account.Holdback:
			rep.Held = b.Free()
		case account.Stake:
			rep.Staked = b.Free()
		}
		rep.Pending += b.DebitsPending
		rep.Accounts = append(rep.Accounts, wire.Account{Account: a.ID.String(), Debit: b.DebitsPosted, Credit: b.CreditsPosted, Bound: b.DebitsPending})
	}
	return rep, nil
}

func (k *Keeper) query(ctx context.Context, _ wire.Caller, q wire.QueryRequest, send func(wire.Row) error) error {
	sel := ledger.Query{Account: q.Account, Author: q.Author, Node: q.Node, Job: q.Job, Lease: q.Lease, Hash: q.Hash, Kind: q.Kind,
		Since: q.Since, Until: q.Until, From: q.From, Limit: int(q.Limit), Reverse: q.Reverse, Size: q.Size, Whole: q.Whole}
	k.catchUp(ctx)
	rows := k.ledger.Query(ctx, sel)
	if q.Follow {
		rows = k.ledger.Follow(ctx, sel)
	}
	for row, err := range rows {
		if err != nil {
			return refusal(err, wire.Internal)
		}
		if err := send(viewRow(row)); err != nil {
			return err
		}
	}
	return nil
}

func viewRow(row ledger.Row) wire.Row {
	r := wire.Row{Index: row.Index, Time: row.Time, Entry: row.Entry, Job: row.Job, Pays: row.Role&account.Payer != 0}
	for _, m := range row.Moves {
		r.Moves = append(r.Moves, move(m))
	}
	return r
}

// move says what an entry did to one account.
func move(m account.Changed) wire.Move {
	return wire.Move{Account: m.Account.String(), Debit: m.After.DebitsPosted - m.Before.DebitsPosted,
		Credit: m.After.CreditsPosted - m.Before.CreditsPosted, Balance: m.After.Free()}
}

func (k *Keeper) follow(ctx context.Context, _ wire.Caller, q wire.FollowRequest, send func(wire.Leaf) error) error {
	for row, err := range k.ledger.Follow(ctx, ledger.Query{From: q.From}) {
		if err != nil {
			return refusal(err, wire.Internal)
		}
		if err := send(wire.Leaf{Index: row.Index, Raw: row.Leaf}); err != nil {
			return err
		}
	}
	return nil
}
