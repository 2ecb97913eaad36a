package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"idlemesh/mesh/identity"
)

func (t terminal) keyCommand() *cli.Command {
	return &cli.Command{Name: "key", Usage: "your key, which is your account", Subcommands: append([]*cli.Command{
		{
			Name: "new", Usage: "make the key of this home; the first submit does it too",
			Description: "meshctl key new\nmeshctl key new --node",
			Flags:       []cli.Flag{nodeKeyFlag},
			Action:      func(c *cli.Context) error { return t.key(c, true) },
		},
		{
			Name: "show", Usage: "show whose key this home has",
			Description: "meshctl key show\nmeshctl key show -o json",
			Flags:       []cli.Flag{nodeKeyFlag},
			Action:      func(c *cli.Context) error { return t.key(c, false) },
		},
	}, t.keyChanges()...)}
}

var nodeKeyFlag = &cli.BoolFlag{Name: "node", Usage: "the key of this home's node, by which a mesh file names it"}

type keyView struct {
	Account string `json:"account"`
	Short   string `json:"short"`
	Public  string `json:"public_key"`
	File    string `json:"file"`
}

func (t terminal) key(c *cli.Context, make bool) error {
	if _, err := operands(c, 0, 0); err != nil {
		return err
	}
	dir, err := home(c)
	if err != nil {
		return err
	}
	path, again := keyFile(dir), "meshctl key new"
	if c.Bool("node") {
		path, again = nodeKeyFile(dir), "meshctl key new --node"
	}
	switch _, err := os.Lstat(path); {
	case err == nil && make:
		return usage("meshctl key show", "key new: %s is there already: move it away to get another, and with it another account", path)
	case errors.Is(err, fs.ErrNotExist) && !make:
		return &refusal{status: 5, text: "key show: this home has no key yet: " + path, next: again}
	}
	k, err := identity.Open(path)
	if err != nil {
		return err
	}
	return show(t, c, keyView{k.ID().String(), k.ID().Short(), k.PublicKey().String(), path}, []column[keyView]{
		{head: "account", cell: func(v keyView) string { return v.Account }},
		{head: "short", cell: func(v keyView) string { return v.Short }},
		{head: "public key", cell: func(v keyView) string { return v.Public }, wide: true},
		{head: "file", cell: func(v keyView) string { return v.File }},
	})
}
