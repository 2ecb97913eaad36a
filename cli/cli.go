// Package cli is the meshctl commands, one file a command: flags, a call, printing.
//
// It alone reads flags and environment, prints, and picks an exit status. Run is
// the whole of its surface.
package cli

import (
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// A terminal is where a command reads and prints: data to out, everything else to
// err.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

// Run executes meshctl and returns its exit status. When ctx ends, the command is
// interrupted: what it started on the mesh goes on.
func Run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	t := terminal{in, out, errw}
	err := t.run(ctx, args[min(1, len(args)):])
	if err != nil && ctx.Err() != nil && !isRefusal(err) {
		err = &refusal{status: 130, text: "interrupted"}
	}
	if err != nil {
		t.complain(err)
	}
	return status(err)
}

func (t terminal) run(ctx context.Context, args []string) error {
	app := t.app()
	if len(args) > 0 && args[0] == completeName {
		return t.complete(app, args[1:])
	}
	l, err := permute(app, args)
	switch {
	case err != nil:
		return err
	case l.help:
		_, err := io.WriteString(t.out, help(app, l))
		return err
	case l.cmd == nil && len(args) == 0:
		_, err := io.WriteString(t.err, help(app, l))
		if err == nil {
			err = &refusal{status: 2}
		}
		return err
	case len(l.commands(app)) > 0:
		return usage(l.name+" --help", "%swant a command: %s", prefix(l.name), words(l.commands(app)))
	}
	return app.RunContext(ctx, append([]string{app.Name}, l.args...))
}

func (t terminal) app() *cli.App {
	app := &cli.App{
		Name: "meshctl", Usage: "sell idle GPU time, or use it",
		Writer: t.err, ErrWriter: t.err, // urfave's own words are never data
		ExitErrHandler: func(*cli.Context, error) {}, OnUsageError: badFlag,
		DisableSliceFlagSeparator: true, HideHelp: true, HideVersion: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "print data as `FORMAT`: table, wide, json, yaml or name"},
			&cli.StringFlag{Name: "home", EnvVars: []string{"IDLEMESH_HOME"}, Usage: "keep keys, ledger and blobs in `DIR`"},
		},
		Commands: []*cli.Command{
			t.submitCommand(), t.jobCommand(), t.ledgerCommand(), t.accountCommand(),
			t.devCommand(), t.nodeCommand(), t.meshCommand(), t.keyCommand(),
			t.benchCommand(), t.doctorCommand(), t.completionCommand(), t.versionCommand(), t.workerCommand(),
		},
		Before: checkFormat,
	}
	settle(app.Commands)
	return app
}

// settle gives every command what it would otherwise get from urfave: help in its
// own words, and help for a flag it cannot read.
func settle(cmds []*cli.Command) {
	for _, c := range cmds {
		c.HideHelp, c.OnUsageError = true, badFlag
		settle(c.Subcommands)
	}
}

// operands returns a command's arguments, of which it wants from least to most, named
// as in its help. The `--` that ends flags is not one.
func operands(c *cli.Context, least, most int) ([]string, error) {
	var args []string
	for i, a := range c.Args().Slice() {
		if a == "--" {
			args = append(args, c.Args().Slice()[i+1:]...)
			break
		}
		args = append(args, a)
	}
	name := full(c)
	switch {
	case len(args) < least:
		return nil, usage(name+" --help", "%swant %s", prefix(name), c.Command.ArgsUsage)
	case len(args) > most && most == 0:
		return nil, usage(name+" --help", "%swants no arguments, not %q", prefix(name), args[0])
	case len(args) > most:
		return nil, usage(name+" --help", "%swant %s, not also %q", prefix(name), c.Command.ArgsUsage, args[most])
	}
	return args, nil
}

// full is the name of the command that runs, meshctl included.
func full(c *cli.Context) string {
	name := ""
	for _, x := range c.Lineage() {
		if x.Command != nil && x.Command.Name != "" && x.Command.Name != c.App.Name {
			name = " " + x.Command.Name + name
		}
	}
	return c.App.Name + name
}

// prefix is how a message about a command starts.
func prefix(name string) string {
	_, path, ok := strings.Cut(name, " ")
	if !ok {
		return ""
	}
	return path + ": "
}
