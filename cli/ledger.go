package cli

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

func (t terminal) ledgerCommand() *cli.Command {
	return &cli.Command{Name: "ledger", Usage: "the public log of jobs and money", Subcommands: append([]*cli.Command{
		{
			Name: "query", Usage: "list entries", Flags: queryFlags(),
			Description: "meshctl ledger query --limit 20 --reverse\nmeshctl ledger query --job j-5wq2k7rn -o json\nmeshctl ledger query --type settle --since 24h\nmeshctl ledger query --account $(meshctl key show -o name) --follow",
			Action:      t.ledgerQuery,
		},
		{
			Name: "tail", Usage: "show the newest entries",
			Flags: append(dirFlags(),
				&cli.StringFlag{Name: "lines", Aliases: []string{"n"}, Usage: "show the last `N`", Value: "10"},
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "and each that comes, until Ctrl-C"}),
			Description: "meshctl ledger tail\nmeshctl ledger tail -n 50 -o wide\nmeshctl ledger tail --follow -o json",
			Action:      t.ledgerTail,
		},
		{
			Name: "balance", Usage: "show what an account has, or yours", ArgsUsage: "[ACCOUNT]",
			Flags:       append(dirFlags(), heightFlag()),
			Description: "meshctl ledger balance\nmeshctl ledger balance --at 1000\nmeshctl ledger balance $(meshctl key show -o name) -o json",
			Action:      func(c *cli.Context) error { return t.balance(c) },
		},
		{
			Name: "statement", Usage: "show what happened to an account in a period, for its books", ArgsUsage: "[ACCOUNT]",
			Flags: append(periodFlags(), &cli.StringFlag{Name: "as", Usage: "print it as `FORMAT`: csv, ledger (also for hledger) or beancount"}),
			Description: "meshctl ledger statement --month 2026-12\nmeshctl ledger statement --since 720h --as csv\n" +
				"meshctl ledger statement --as ledger | ledger -f - balance",
			Action: t.ledgerStatement,
		},
		{
			Name: "report", Usage: "sum up accounts by month, as a tax office asks", ArgsUsage: "[ACCOUNT…]",
			Flags:       append(periodFlags(), &cli.StringFlag{Name: "as", Usage: "print it as `FORMAT`: csv"}),
			Description: "meshctl ledger report\nmeshctl ledger report --since 2026-01-01T00:00:00Z --until 2027-01-01T00:00:00Z --as csv",
			Action:      t.ledgerReport,
		},
		{
			Name: "trace", Usage: "follow a payout back to its job, and check each step", ArgsUsage: "PAYOUT", Flags: dirFlags(),
			Description: "meshctl ledger trace 42\nmeshctl ledger trace 42 -o json",
			Action:      t.ledgerTrace,
		},
		{
			Name: "verify", Usage: "check a proof with no ledger at hand, or the whole ledger", ArgsUsage: "[FILE | A B]",
			Flags: append(dirFlags(),
				&cli.BoolFlag{Name: "full", Usage: "the whole ledger, as without FILE: every signature, number, rule, balance and hash"},
				&cli.BoolFlag{Name: "rebuild", Usage: "make the ledger of --dir anew from its entries, and compare byte for byte"},
				&cli.StringFlag{Name: "out", Usage: "leave what --rebuild makes in `DIR`"},
				&cli.BoolFlag{Name: "consistency", Usage: "tree head A is the beginning of B (now): each a file with a tree head or a proof, or the size of the log"}),
			Description: "meshctl ledger verify\nmeshctl ledger verify out/proof.tlog\nmeshctl ledger verify proof.tlog --mesh mesh.cbor -o json\n" +
				"meshctl ledger verify --rebuild --dir copy\nmeshctl ledger verify --consistency old-proof.tlog now",
			Action: func(c *cli.Context) error {
				err := t.ledgerVerify(c)
				if status(err) == 7 { // that it does not hold is data too
					if _, e := t.encode(c, verdictView{Error: clean(err.Error())}); e != nil {
						return e
					}
				}
				return err
			},
		},
		{
			Name: "prove", Usage: "print a proof that an entry is in the log (C2SP tlog-proof)", ArgsUsage: "INDEX",
			Flags: append(dirFlags(), &cli.StringFlag{Name: "out", Usage: "write it to `FILE`"},
				&cli.BoolFlag{Name: "cose", Usage: "as a COSE Receipt (RFC 9942), signed by one keeper"}),
			Description: "meshctl ledger prove 42 --out proof.tlog\nmeshctl ledger prove 42 --cose --out receipt.cose\nmeshctl ledger prove 42 | meshctl ledger verify -",
			Action:      t.ledgerProve,
		},
		{
			Name: "tile", Usage: "print a part of the log as C2SP tlog-tiles have it", ArgsUsage: "PATH", Flags: dirFlags(),
			Description: "meshctl ledger tile checkpoint\nmeshctl ledger tile tile/0/000.p/4\nmeshctl ledger tile tile/entries/000.p/4 --dir copy",
			Action:      t.ledgerTile,
		},
		t.mirrorCommand(),
		t.accuseCommand(),
	}, t.backupCommands()...)}
}

// A filter is one flag of ledger query.
type filter struct {
	name, usage string
	set         func(*wire.QueryRequest, string) error
}

var filters = [...]filter{
	{"account", "that move the balance of `ACCOUNT`", func(q *wire.QueryRequest, s string) error { return q.Account.UnmarshalText([]byte(s)) }},
	{"author", "signed by `NODE`", func(q *wire.QueryRequest, s string) error { return q.Author.UnmarshalText([]byte(s)) }},
	{"node", "about leases of provider `NODE`", func(q *wire.QueryRequest, s string) error { return q.Node.UnmarshalText([]byte(s)) }},
	{"lease", "about lease `REF`", func(q *wire.QueryRequest, s string) error { return q.Lease.UnmarshalText([]byte(s)) }},
	{"hash", "whose signed bytes have hash `REF`", func(q *wire.QueryRequest, s string) error { return q.Hash.UnmarshalText([]byte(s)) }},
	{"type", "of `TYPE`, such as deposit, job, lease, settle, cancel, transfer or withdraw", func(q *wire.QueryRequest, s string) (err error) {
		q.Kind, err = record.ParseEntryType(s)
		return err
	}},
	{"since", "from `TIME` on: RFC 3339, or a span before now such as 24h", func(q *wire.QueryRequest, s string) (err error) {
		q.Since, err = parseWhen(s)
		return err
	}},
	{"until", "before `TIME`", func(q *wire.QueryRequest, s string) (err error) {
		q.Until, err = parseWhen(s)
		return err
	}},
	{"from", "from index `N` on", func(q *wire.QueryRequest, s string) (err error) {
		q.From, err = parseIndex(s)
		return err
	}},
	{"limit", "at most `N`", func(q *wire.QueryRequest, s string) (err error) {
		q.Limit, err = count(s)
		return err
	}},
}

func queryFlags() []cli.Flag {
	flags := append(dirFlags(),
		&cli.StringFlag{Name: "job", Usage: "about job `JOB`"},
		&cli.BoolFlag{Name: "reverse", Usage: "the newest first"},
		&cli.BoolFlag{Name: "follow", Usage: "and those that come, until Ctrl-C; JSON is then one value a line"},
		heightFlag())
	for _, f := range filters {
		flag := &cli.StringFlag{Name: f.name, Usage: f.usage}
		if f.name == "type" {
			flag.Aliases = []string{"kind"}
		}
		flags = append(flags, flag)
	}
	return flags
}

func parseWhen(s string) (record.Millis, error) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return record.At(at), nil
	}
	d, err := parseTime(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time: want one like 2026-12-01T08:00:00Z, or a span before now like 24h", s)
	}
	return record.At(time.Now().Add(-d)), nil
}

func parseIndex(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not an index: want a whole number", s)
	}
	return n, nil
}

func (t terminal) ledgerQuery(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	q, prefix, err := readQuery(c)
	if err != nil {
		return err
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		if prefix != "" {
			if q.Job, err = refOf(ctx, src, prefix); err != nil {
				return err
			}
		}
		if q.Size > 0 {
			if err := reach(ctx, src, q.Size); err != nil {
				return err
			}
		}
		if q.Follow {
			return t.printRows(c, src.Query(ctx, q), true)
		}
		return t.printRows(c, pages(ctx, src, q), false)
	})
}

// readQuery reads the flags of ledger query, and the beginning of a job's name.
func readQuery(c *cli.Context) (q wire.QueryRequest, job string, err error) {
	q.Reverse, q.Follow = c.Bool("reverse"), c.Bool("follow")
	for _, f := range filters {
		if c.IsSet(f.name) {
			if err := f.set(&q, c.String(f.name)); err != nil {
				return q, "", usage("meshctl ledger query --help", "ledger query: --%s: %v", f.name, err)
			}
		}
	}
	if q.Size, err = height(c); err != nil {
		return q, "", err
	}
	if q.Follow && (q.Reverse || q.Size > 0 || q.Limit > 0 || q.Until > 0) {
		return q, "", usage("meshctl ledger query --help", "ledger query: --follow does not end, so it goes with none of --reverse, --at, --limit and --until")
	}
	if c.IsSet("job") {
		job, err = jobPrefix(c.String("job"))
	}
	return q, job, err
}

// printRows prints entries as they come; live, each at once.
func (t terminal) printRows(c *cli.Context, rows iter.Seq2[wire.Row, error], live bool) error {
	l := newListing(t, c, entryColumns[:], live)
	for r, err := range rows {
		if err != nil {
			return err
		}
		v, err := viewEntry(r)
		if err != nil {
			return err
		}
		if err := l.add(v); err != nil {
			return err
		}
	}
	return l.close()
}

func (t terminal) ledgerTail(c *cli.Context) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	n, err := count(c.String("lines"))
	if err != nil {
		return usage("", "ledger tail: --lines: %v", err)
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		head, err := src.Head(ctx)
		if err != nil {
			return err
		}
		q := wire.QueryRequest{From: head.Size - min(uint64(n), head.Size), Size: head.Size}
		if q.Follow = c.Bool("follow"); q.Follow {
			return t.printRows(c, src.Query(ctx, q), true)
		}
		if q.From == q.Size {
			return t.printRows(c, func(func(wire.Row, error) bool) {}, false)
		}
		return t.printRows(c, pages(ctx, src, q), false)
	})
}

// findJobIn looks for a job in the log itself.
func findJobIn(ctx context.Context, src logSource, prefix string) (record.Ref, error) {
	var found []record.Ref
	for row, err := range pages(ctx, src, wire.QueryRequest{Kind: record.TypeJob}) {
		if err != nil {
			return record.Ref{}, err
		}
		e, err := record.Open[record.Entry](row.Entry)
		if err != nil {
			return record.Ref{}, wire.Refuse(wire.Unverified, fmt.Sprintf("entry %d: %v", row.Index, err))
		}
		if r := e.Value.Job.Ref(); strings.HasPrefix(r.String(), prefix) {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		return record.Ref{}, &refusal{status: 5, text: fmt.Sprintf("%d jobs in the log start with j-%s", len(found), prefix)}
	}
	return found[0], nil
}

// refOf is a job's reference. A whole one need not be of the caller's: the log is
// public.
func refOf(ctx context.Context, src logSource, prefix string) (record.Ref, error) {
	if r, err := record.ParseRef(prefix); err == nil {
		return r, nil
	}
	cl, ok := src.(*client.Client)
	if !ok {
		return findJobIn(ctx, src, prefix)
	}
	info, err := findJob(ctx, cl, prefix)
	return info.Job, err
}

func (t terminal) balance(c *cli.Context) error {
	args, err := operands(c, 0, 1)
	if err != nil {
		return err
	}
	var of record.NodeID
	if len(args) == 1 {
		if of, err = record.ParseNodeID(args[0]); err != nil {
			return usage("meshctl key show", "ledger balance: %v", err)
		}
	}
	at, err := height(c)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if of, err = ownAccount(c); err != nil {
			return err
		}
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		if err := reach(ctx, src, at); err != nil {
			return err
		}
		b, err := src.BalanceAt(ctx, of, at)
		if err != nil {
			return err
		}
		return show(t, c, b, []column[wire.BalanceReply]{
			{head: "account", cell: func(v wire.BalanceReply) string { return v.Account.String() }},
			{head: "free", cell: func(v wire.BalanceReply) string { return credits(v.Free) + " cr" }},
			{head: "earned", cell: func(v wire.BalanceReply) string { return credits(v.Earned) + " cr" }},
			{head: "held back", cell: func(v wire.BalanceReply) string { return credits(v.Held) + " cr" }},
			{head: "bond", cell: func(v wire.BalanceReply) string { return some(v.Staked) }},
			{head: "on its way out", cell: func(v wire.BalanceReply) string { return some(v.Pending) }},
		})
	})
}

func (t terminal) ledgerProve(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	index, err := parseIndex(args[0])
	if err != nil {
		return usage("meshctl ledger query", "ledger prove: %v", err)
	}
	return t.readLog(c, func(ctx context.Context, src logSource) error {
		if c.Bool("cose") {
			return t.proveCOSE(ctx, c, src, index)
		}
		p, err := src.Prove(ctx, index)
		if err != nil {
			return err
		}
		text, err := p.MarshalText()
		if err != nil {
			return err
		}
		if done, err := t.encode(c, proofView{Index: p.Index, Size: p.Head.Size, Proof: string(text)}); done {
			return err
		}
		return t.writeProof(c, text)
	})
}

// proveCOSE writes a proof that a keeper signs as he makes it.
func (t terminal) proveCOSE(ctx context.Context, c *cli.Context, src logSource, index uint64) error {
	cl, ok := src.(*client.Client)
	if !ok {
		return usage("", "ledger prove: a COSE Receipt is signed by a keeper when it is asked for: leave out --dir")
	}
	b, proven, err := cl.Receipt(ctx, index)
	if err != nil {
		return err
	}
	if done, err := t.encode(c, proofView{Index: index, Size: proven.Head.Size, Receipt: b}); done {
		return err
	}
	if !c.IsSet("out") && isTerminal(t.out) {
		return usage("", "ledger prove: a COSE Receipt is binary: add --out FILE")
	}
	return t.writeProof(c, b)
}

func (t terminal) writeProof(c *cli.Context, b []byte) error {
	out := c.String("out")
	if out == "" || out == stdinName {
		_, err := t.out.Write(b)
		return err
	}
	if err := os.WriteFile(out, b, 0o666); err != nil {
		return fmt.Errorf("ledger prove: %w", plain(err))
	}
	t.hint("check", "meshctl ledger verify "+out)
	return nil
}

type proofView struct {
	Index   uint64 `json:"index"`
	Size    uint64 `json:"size"`
	Proof   string `json:"proof,omitempty"`
	Receipt []byte `json:"cose_receipt,omitempty"` // base64
}

// verifyFile checks a proof with nothing but the mesh file.
func (t terminal) verifyFile(c *cli.Context, path string) error {
	var text []byte
	var err error
	if path == stdinName {
		text, err = readAll(t.in, maxProofFile)
	} else {
		text, err = readSome(path, maxProofFile)
	}
	if err != nil {
		return usage("", "ledger verify: %v", plain(err))
	}
	mesh, err := trustedMesh(c)
	if err != nil {
		return err
	}
	proven, err := checkProof(text, mesh)
	if err != nil {
		return &refusal{status: 7, text: fmt.Sprintf("ledger verify: %s: %v", path, err)}
	}
	entry, err := viewSigned(proven.Index, proven.Time, proven.Entry)
	if err != nil {
		return err
	}
	v := verdictView{OK: true, Entries: 1, Head: headView{proven.Head.Size, proven.Head.Root}, Mesh: mesh.Ref(), Entry: &entry}
	return t.showVerdict(c, v)
}

// checkProof checks a proof in either of its forms.
func checkProof(b []byte, mesh record.Signed[record.Mesh]) (tree.Proven, error) {
	if tree.IsReceipt(b) {
		return tree.CheckReceipt(b, mesh)
	}
	var p tree.Proof
	if err := p.UnmarshalText(b); err != nil {
		return tree.Proven{}, err
	}
	proven, err := tree.Check(p, mesh)
	if err != nil {
		return proven, fmt.Errorf("entry %d: %w", p.Index, err)
	}
	return proven, nil
}

const maxProofFile = 1 << 20

func readSome(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

type verdictView struct {
	OK      bool       `json:"ok"`
	Error   string     `json:"error,omitempty"`
	Entries uint64     `json:"entries"`
	Head    headView   `json:"head"`
	Mesh    record.Ref `json:"mesh"`
	Signed  *headView  `json:"signed,omitempty"` // by the keepers, of a copy
	Entry   *entryView `json:"entry,omitempty"`  // that a proof is about
}

type headView struct {
	Size uint64     `json:"size"`
	Root record.Ref `json:"root"`
}

func (t terminal) showVerdict(c *cli.Context, v verdictView) error {
	return show(t, c, v, []column[verdictView]{
		{head: "result", cell: func(v verdictView) string {
			if v.Entry != nil {
				return fmt.Sprintf("ok: entry %d is in the log", v.Entry.Index)
			}
			return fmt.Sprintf("ok: %d entries, every signature, number, balance and hash", v.Entries)
		}},
		{head: "entry", cell: func(v verdictView) string {
			if v.Entry == nil {
				return ""
			}
			return strings.Join([]string{v.Entry.Kind, v.Entry.Time.String(), v.Entry.text()}, " · ")
		}},
		{head: "tree head", cell: func(v verdictView) string { return fmt.Sprintf("%d %s", v.Head.Size, v.Head.Root) }},
		{head: "signed", cell: func(v verdictView) string {
			if v.Signed == nil {
				return ""
			}
			return fmt.Sprintf("%d %s", v.Signed.Size, v.Signed.Root)
		}},
		{head: "mesh", cell: func(v verdictView) string { return v.Mesh.String() }},
	})
}
