package cli

import (
	"bytes"
	"log/slog"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/policy"
)

// readPolicy is what the node sells: policy.yaml, and the flags that overrule it.
func readPolicy(c *cli.Context) (policy.Policy, []byte, error) {
	var p policy.Policy
	var text []byte
	if path := c.String("policy"); path != "" {
		var err error
		if text, err = readSome(path, maxSmall); err != nil {
			return p, nil, usage("", "node run: --policy: %v", plain(err))
		}
		if p, err = policy.Parse(text); err != nil {
			return p, text, usage("", "node run: %s: %v", path, err)
		}
	}
	if c.IsSet("floor") {
		floor, err := record.ParseAmount(c.String("floor"))
		if err != nil {
			return p, text, usage("", "node run: --floor: %v", err)
		}
		p.Floor = floor
	}
	if c.IsSet("region") {
		p.Region = c.String("region")
	}
	if n := c.Uint("slots"); n > 1024 || c.IsSet("slots") && n == 0 {
		return p, text, usage("", "node run: --slots: %d: want 1 to 1024", n)
	} else if n > 0 {
		p.Slots = uint32(n)
	}
	return p, text, nil
}

// A policyWatch looks at policy.yaml while the node runs.
type policyWatch struct {
	c    *cli.Context
	log  *slog.Logger
	sell func(policy.Policy)
	last []byte // as it was looked at last
	bad  string // what was wrong with it, when it was
}

func watchPolicy(c *cli.Context, log *slog.Logger, sell func(policy.Policy)) *policyWatch {
	w := &policyWatch{c: c, log: log, sell: sell}
	if path := c.String("policy"); path != "" {
		_, w.last, _ = readPolicy(c) // a change since the start is seen at the next look
	}
	return w
}

// look takes a policy.yaml that has changed. A bad one changes nothing, and is complained
// of once.
func (w *policyWatch) look() {
	if w.c.String("policy") == "" {
		return
	}
	p, text, err := readPolicy(w.c)
	switch {
	case err != nil && err.Error() != w.bad:
		w.bad = err.Error()
		w.log.Warn("the policy is not taken: the last good one stands", "err", err)
	case err == nil && (!bytes.Equal(text, w.last) || w.bad != ""):
		w.bad = ""
		if !bytes.Equal(text, w.last) {
			w.sell(p)
		}
		w.log.Info("policy taken", "floor", p.Floor)
		w.last = text
	}
}
