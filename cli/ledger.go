package cli

import (
	"context"
	"fmt"
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
	return &cli.Command{Name: "ledger", Usage: "the public log of jobs and money", Subcommands: []*cli.Command{
		{
			Name: "query", Usage: "list entries", Flags: queryFlags(),
			Description: "meshctl ledger query --limit 20 --reverse\nmeshctl ledger query --job j-5wq2k7rn -o json\nmeshctl ledger query --kind settle --since 24h",
			Action:      t.ledgerQuery,
		},
		{
			Name: "balance", Usage: "show what an account has, or yours", ArgsUsage: "[ACCOUNT]",
			Description: "meshctl ledger balance\nmeshctl ledger balance $(meshctl key show -o name) -o json",
			Action:      func(c *cli.Context) error { return t.balance(c) },
		},
		{
			Name: "verify", Usage: "check a proof with no ledger at hand, or the whole ledger", ArgsUsage: "[FILE]",
			Flags:       []cli.Flag{&cli.StringFlag{Name: "mesh", Usage: "take the keepers' keys from mesh file `FILE`, not from the one joined"}},
			Description: "meshctl ledger verify\nmeshctl ledger verify out/proof.tlog\nmeshctl ledger verify proof.tlog --mesh mesh.cbor -o json",
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
			Flags:       []cli.Flag{&cli.StringFlag{Name: "out", Usage: "write it to `FILE`"}},
			Description: "meshctl ledger prove 42 --out proof.tlog\nmeshctl ledger prove 42 | meshctl ledger verify -",
			Action:      t.ledgerProve,
		},
	}}
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
	{"kind", "of `KIND`, such as deposit, job, lease, settle, cancel, transfer or withdraw", func(q *wire.QueryRequest, s string) (err error) {
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
	flags := []cli.Flag{
		&cli.StringFlag{Name: "job", Usage: "about job `JOB`"},
		&cli.BoolFlag{Name: "reverse", Usage: "the newest first"},
	}
	for _, f := range filters {
		flags = append(flags, &cli.StringFlag{Name: f.name, Usage: f.usage})
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
	q := wire.QueryRequest{Reverse: c.Bool("reverse")}
	for _, f := range filters {
		if c.IsSet(f.name) {
			if err := f.set(&q, c.String(f.name)); err != nil {
				return usage("meshctl ledger query --help", "ledger query: --%s: %v", f.name, err)
			}
		}
	}
	var prefix string
	if c.IsSet("job") {
		var err error
		if prefix, err = jobPrefix(c.String("job")); err != nil {
			return err
		}
	}
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		if prefix != "" {
			job, err := refOf(ctx, cl, prefix)
			if err != nil {
				return err
			}
			q.Job = job
		}
		var rows []entryView
		for r, err := range cl.Query(ctx, q) {
			if err != nil {
				return err
			}
			v, err := viewEntry(r)
			if err != nil {
				return err
			}
			rows = append(rows, v)
		}
		return list(t, c, rows, entryColumns[:])
	})
}

// refOf is a job's reference. A whole one need not be of the caller's: the log is
// public.
func refOf(ctx context.Context, cl *client.Client, prefix string) (record.Ref, error) {
	if r, err := record.ParseRef(prefix); err == nil {
		return r, nil
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
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		if len(args) == 0 {
			of = cl.ID()
		}
		b, err := cl.Balance(ctx, of)
		if err != nil {
			return err
		}
		return show(t, c, balanceView{of, b}, []column[balanceView]{
			{head: "account", cell: func(v balanceView) string { return v.Account.String() }},
			{head: "free", cell: func(v balanceView) string { return credits(v.Free) + " cr" }},
			{head: "earned", cell: func(v balanceView) string { return credits(v.Earned) + " cr" }},
			{head: "held back", cell: func(v balanceView) string { return credits(v.Held) + " cr" }},
			{head: "bond", cell: func(v balanceView) string { return some(v.Staked) }},
			{head: "on its way out", cell: func(v balanceView) string { return some(v.Pending) }},
		})
	})
}

type balanceView struct {
	Account record.NodeID `json:"account"`
	wire.BalanceReply
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
	return t.connect(c, func(ctx context.Context, cl *client.Client) error {
		p, err := cl.Prove(ctx, index)
		if err != nil {
			return err
		}
		text, err := p.MarshalText()
		if err != nil {
			return err
		}
		if out := c.String("out"); out != "" && out != stdinName {
			if err := os.WriteFile(out, text, 0o666); err != nil {
				return fmt.Errorf("ledger prove: %w", plain(err))
			}
			t.hint("check", "meshctl ledger verify "+out)
			return nil
		}
		if done, err := t.encode(c, proofView{Index: p.Index, Size: p.Head.Size, Proof: string(text)}); done {
			return err
		}
		_, err = t.out.Write(text)
		return err
	})
}

type proofView struct {
	Index uint64 `json:"index"`
	Size  uint64 `json:"size"`
	Proof string `json:"proof"`
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
	var p tree.Proof
	if err := p.UnmarshalText(text); err != nil {
		return &refusal{status: 7, text: fmt.Sprintf("ledger verify: %s: %v", path, err)}
	}
	proven, err := tree.Check(p, mesh)
	if err != nil {
		return &refusal{status: 7, text: fmt.Sprintf("ledger verify: %s: entry %d: %v", path, p.Index, err)}
	}
	entry, err := viewSigned(proven.Index, proven.Time, proven.Entry)
	if err != nil {
		return err
	}
	v := verdictView{OK: true, Entries: 1, Head: headView{proven.Head.Size, proven.Head.Root}, Mesh: mesh.Ref(), Entry: &entry}
	return t.showVerdict(c, v)
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
	Entry   *entryView `json:"entry,omitempty"` // that a proof is about
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
		{head: "mesh", cell: func(v verdictView) string { return v.Mesh.String() }},
	})
}
